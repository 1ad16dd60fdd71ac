"""Reads lines or bytes of a file, without loading a large file into memory.

A line ends with CRLF, LF or CR. A file of normal size is read at once, so that its
lines, their number and its hash are consistent. A large file is read from the beginning
up to the requested lines.
"""

import codecs
import contextlib
import hashlib
import os
import re
from collections.abc import Iterator
from dataclasses import field
from itertools import islice

from hutch.domain.errors import BadRequest, HutchError
from hutch.domain.lone_surrogate_replacement import replace_surrogates
from hutch.domain.redaction import CUT_CONTEXT_CHARS
from hutch.edit.encoded_file_text import Text, ending, split_lines
from hutch.edit.encoding_detection import decode
from hutch.snapshots.confined_directory import Directory, to_hutch_error
from hutch.system.lazy_dataclass import dataclass
from hutch.workspace.files.change_planning import open_file
from hutch.workspace.files.change_steps import display_path

MAX_WHOLE_FILE_BYTES = 8 * 1024 * 1024  # above that, a file is large
MAX_READ_BYTES = 1024 * 1024  # of one result, as lines or bytes
SAMPLE_BYTES = 64 * 1024
CHUNK_BYTES = 1024 * 1024
HEAD_BYTES = 64
LINE_END = re.compile("\r\n|\n|\r")
KINDS = (
    (b"\x89PNG\r\n\x1a\n", "PNG image"),
    (b"\xff\xd8\xff", "JPEG image"),
    (b"GIF8", "GIF image"),
    (b"BM", "BMP image"),
    (b"%PDF-", "PDF document"),
    (b"PK\x03\x04", "zip archive"),
    (b"\x1f\x8b", "gzip data"),
    (b"BZh", "bzip2 data"),
    (b"\xfd7zXZ\x00", "xz data"),
    (b"\x28\xb5\x2f\xfd", "zstd data"),
    (b"\x7fELF", "ELF program or library"),
    (b"MZ", "Windows program"),
    (b"\xca\xfe\xba\xbe", "Java class"),
    (b"\x00asm", "WebAssembly module"),
    (b"SQLite format 3\x00", "SQLite database"),
    (b"wOF", "web font"),
    (b"OggS", "Ogg media"),
    (b"ID3", "MP3 audio"),
    (b"!<arch>\n", "static library"),
)


@dataclass(frozen=True, slots=True)
class Lines:
    """Text of a file. Lines count from 1; an empty file has none."""

    path: str
    text: str
    first_line: int
    last_line: int  # before the first one if there are none
    total_lines: int | None  # None: a large file was not read to its end
    cut: bool  # the last line is truncated, or lines were omitted for their size
    encoding: str
    size: int
    sha256: str | None  # None: the file is large
    # The text before and after it, for finding secrets across its ends.
    before: str = field(default="", compare=False)
    after: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class Binary:
    """A file that is not text."""

    path: str
    kind: str
    size: int
    head: str  # its first bytes in hex


@dataclass(frozen=True, slots=True)
class Bytes:
    """A range of bytes of a file."""

    path: str
    data: bytes
    start: int
    size: int  # of the whole file


def read_range(tree: Directory, path: str, start: int = 0, length: int = MAX_READ_BYTES) -> Bytes:
    """Read bytes from `start` on, up to the end of the file."""
    if start < 0 or not 0 <= length <= MAX_READ_BYTES:
        raise BadRequest(
            f"Bytes {start:,} to {start + length:,} cannot be read: start at 0 or later, and read up to "
            f"{MAX_READ_BYTES:,} bytes at once."
        )
    fd = open_file(tree, path)
    with os.fdopen(fd, "rb", buffering=0) as file:
        try:
            parts, at = [], start
            while at < start + length and (part := os.pread(fd, start + length - at, at)):
                parts.append(part)
                at += len(part)
            return Bytes(path, b"".join(parts), start, os.fstat(file.fileno()).st_size)
        except OSError as error:
            raise to_hutch_error(error, path) from None


def read_lines(
    tree: Directory, path: str, first: int | None = None, last: int | None = None
) -> Lines | Binary:
    """Lines `first` to `last`, or all; `Binary` for a file that is not text."""
    if (first is not None and first < 1) or (last is not None and last < (first or 1)):
        raise BadRequest(
            f"Lines {first} to {last} are no range. Lines count from 1, and the last comes after the first."
        )
    fd = open_file(tree, path)
    with os.fdopen(fd, "rb", buffering=0):
        size = os.fstat(fd).st_size
        try:
            if size > MAX_WHOLE_FILE_BYTES:
                return _read_large(fd, path, size, first, last)
            data = b"".join(_chunks(fd, MAX_WHOLE_FILE_BYTES))
        except OSError as error:
            raise to_hutch_error(error, path) from None
    try:
        text = decode(data)
    except BadRequest:
        return Binary(path, detect_kind(data), len(data), data[:HEAD_BYTES].hex())
    lines = split_lines(text.content)
    first = first or 1
    if first > max(len(lines), 1):
        raise _no_such_line(path, first, len(lines))
    found, cut = _fit(lines[first - 1 : last])
    return Lines(
        path,
        replace_surrogates("".join(found)),
        first,
        first + len(found) - 1,
        len(lines),
        cut,
        text.encoding_name,
        len(data),
        hashlib.sha256(data).hexdigest(),
        replace_surrogates("".join(lines[: first - 1])[-CUT_CONTEXT_CHARS:]),
        replace_surrogates("".join(lines[first - 1 :])[len("".join(found)) :][:CUT_CONTEXT_CHARS]),
    )


def detect_kind(data: bytes) -> str:
    """The probable kind of binary data, from its first bytes."""
    if data[257:262] == b"ustar":
        return "tar archive"
    if data[:4] == b"RIFF":
        return {b"WEBP": "WebP image", b"WAVE": "WAV audio", b"AVI ": "AVI video"}.get(
            data[8:12], "RIFF media"
        )
    return next((kind for magic, kind in KINDS if data.startswith(magic)), "binary data")


def _fit(lines: list[str]) -> tuple[list[str], bool]:
    """As many lines as fit into one result, at least a part of the first."""
    remaining = MAX_READ_BYTES
    for at, line in enumerate(lines):
        if len(line) > remaining:
            return (lines[:at], True) if at else ([line[:remaining]], True)
        remaining -= len(line)
    return lines, False


def _read_large(fd: int, path: str, size: int, first: int | None, last: int | None) -> Lines | Binary:
    head = os.pread(fd, SAMPLE_BYTES, 0)
    text = _detect_encoding(head)
    if text is None:
        return Binary(path, detect_kind(head), size, head[:HEAD_BYTES].hex())
    if first is None and last is None:
        raise BadRequest(
            f"'{display_path(path)}' is {size:,} bytes long. Read a range of lines or bytes, or search in it."
        )
    first = first or 1
    taken = slice_lines(decode_chunks(fd, text), first, last)
    if not taken.lines:
        raise _no_such_line(path, first, taken.total or 0)
    found, cut = _fit(taken.lines)
    return Lines(
        path,
        replace_surrogates("".join(found)),
        first,
        first + len(found) - 1,
        taken.total,
        cut or taken.cut,
        text.encoding_name,
        size,
        None,
        replace_surrogates(taken.before),
        replace_surrogates("".join([*taken.lines, taken.after])[len("".join(found)) :][:CUT_CONTEXT_CHARS]),
    )


@dataclass(frozen=True, slots=True)
class LineSlice:
    """Lines of a text that is read in chunks."""

    lines: list[str]
    total: int | None  # of the whole text; None unless it was read to its end
    cut: bool  # more lines were requested than fit
    before: str = ""  # the end of the text before them
    after: str = ""  # the beginning of the text after them


def slice_lines(chunks: Iterator[str], first: int, last: int | None) -> LineSlice:
    """Lines `first` to `last`. Holds at most one chunk and one result in memory."""
    count = MAX_READ_BYTES if last is None else last - first + 1
    passed, buffer, before = _skip(chunks, first - 1)
    if passed < first - 1:
        return LineSlice([], passed + bool(buffer), False)
    ended = False
    while not ended and len(buffer) <= MAX_READ_BYTES and _count_line_ends(buffer) < count:
        more = next(chunks, None)
        ended = more is None
        buffer += more or ""
    lines = split_lines(buffer)
    total = passed + len(lines) if ended else None
    if not ended and len(lines) > 1 and not ending(lines[-1]):
        lines.pop()  # it is incomplete
    taken = lines[:count]
    after = buffer[sum(map(len, taken)) :]
    if not ended and len(after) < CUT_CONTEXT_CHARS:
        after += next(chunks, "")
    return LineSlice(taken, total, not ended and len(lines) < count, before, after[:CUT_CONTEXT_CHARS])


def _skip(chunks: Iterator[str], count: int) -> tuple[int, str, str]:
    """Skip `count` line ends. Returns how many there were, the rest of the chunk after the last one, and
    the end of the text before."""
    passed, tail, before = 0, "", ""
    for chunk in chunks:
        ends = _count_line_ends(chunk)
        if passed + ends >= count:
            at = 0
            for match in islice(LINE_END.finditer(chunk), count - passed):
                at = match.end()
            return count, chunk[at:], (before + chunk[:at])[-CUT_CONTEXT_CHARS:]
        passed, before = passed + ends, (before + chunk)[-CUT_CONTEXT_CHARS:]
        tail = chunk[-1:] or tail
    return passed, tail if tail not in ("\r", "\n") else "", before


def _count_line_ends(text: str) -> int:
    return text.count("\n") + text.count("\r") - text.count("\r\n")


def _no_such_line(path: str, first: int, total: int) -> HutchError:
    return BadRequest(f"'{display_path(path)}' has {total:,} lines, so there is no line {first:,}.")


def _chunks(fd: int, max_bytes: int) -> Iterator[bytes]:
    """The chunks of a file, up to a size: it may grow in the meantime."""
    at = 0
    while at < max_bytes and (chunk := os.pread(fd, min(CHUNK_BYTES, max_bytes - at), at)):
        yield chunk
        at += len(chunk)


def decode_chunks(fd: int, text: Text, chunk_bytes: int = CHUNK_BYTES) -> Iterator[str]:
    """Decode a file in chunks, none of which ends between a CR and its LF."""
    decoder = codecs.getincrementaldecoder(text.encoding)("replace")
    at, held = len(text.bom), ""
    while data := os.pread(fd, chunk_bytes, at):
        at += len(data)
        chunk = held + decoder.decode(data)
        held = "\r" if chunk.endswith("\r") else ""
        yield chunk[: len(chunk) - len(held)]
    yield held + decoder.decode(b"", final=True)


def _detect_encoding(head: bytes) -> Text | None:
    """The encoding of a large file, from its beginning; None if it is binary."""
    ends = [len(head) - cut for cut in range(4)]  # the sample may end inside a character
    if b"\0" not in head and not any(_is_utf8(head[:end]) for end in ends):
        ends = [head.rfind(b"\n") + 1 or len(head)]
    for end in ends:
        with contextlib.suppress(BadRequest):
            text = decode(head[:end])
            if text.errors == "strict" or end == ends[-1]:
                return text
    return None


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True
