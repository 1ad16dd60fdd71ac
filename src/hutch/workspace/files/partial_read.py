"""Part of a file: lines or bytes of it, without ever holding all of a large one.

A line ends with CRLF, LF or CR. A file of a usual size is read at once, so its
lines, their number and its hash are of one moment; a large one is read from the
beginning up to the lines that are wanted.
"""

import codecs
import contextlib
import hashlib
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice

from hutch.domain.errors import BadRequest, HutchError
from hutch.domain.redaction import CUT_CONTEXT_CHARS
from hutch.domain.surrogates import replace_surrogates
from hutch.edit.encoding import decode
from hutch.edit.text import Text, ending, split_lines
from hutch.snapshots.directory import Directory, to_hutch_error
from hutch.workspace.files.pending_change import open_file
from hutch.workspace.files.steps import display_path

MAX_WHOLE_FILE_BYTES = 8 * 1024 * 1024  # more than that is a large file
MAX_READ_BYTES = 1024 * 1024  # told at once, of lines or of bytes
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
    last_line: int  # before the first one when there are none
    total_lines: int | None  # None: the file is large and was not read to its end
    cut: bool  # the last line told is longer than what is told of it, or lines are left out for their size
    encoding: str
    size: int
    sha256: str | None  # None: the file is large
    # What stands around the text, for who looks for secrets that lie across its ends.
    before: str = field(default="", compare=False)
    after: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class Binary:
    """A file that is no text."""

    path: str
    kind: str
    size: int
    head: str  # its first bytes in hex


@dataclass(frozen=True, slots=True)
class Bytes:
    """A stretch of a file."""

    path: str
    data: bytes
    start: int
    size: int  # of the whole file


def read_range(tree: Directory, path: str, start: int = 0, length: int = MAX_READ_BYTES) -> Bytes:
    """Bytes from `start` on, fewer where the file ends."""
    if start < 0 or not 0 <= length <= MAX_READ_BYTES:
        raise BadRequest(
            f"Bytes {start:,} to {start + length:,} cannot be read: begin at 0 or later, and ask for up to "
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
    """Lines `first` to `last`, all of them if neither is given; what is no text is told as such."""
    if (first is not None and first < 1) or (last is not None and last < (first or 1)):
        raise BadRequest(
            f"Lines {first} to {last} make no range. Lines count from 1, and the last comes after the first."
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
    """What binary data probably is, from how it begins."""
    if data[257:262] == b"ustar":
        return "tar archive"
    if data[:4] == b"RIFF":
        return {b"WEBP": "WebP image", b"WAVE": "WAV audio", b"AVI ": "AVI video"}.get(
            data[8:12], "RIFF media"
        )
    return next((kind for magic, kind in KINDS if data.startswith(magic)), "binary data")


def _fit(lines: list[str]) -> tuple[list[str], bool]:
    """As many lines as may be told at once, at least a part of the first."""
    room = MAX_READ_BYTES
    for at, line in enumerate(lines):
        if len(line) > room:
            return (lines[:at], True) if at else ([line[:room]], True)
        room -= len(line)
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
    """Lines of a text that comes in pieces."""

    lines: list[str]
    total: int | None  # of the whole text, if it was read to its end
    cut: bool  # there would have been more, but not the room
    before: str = ""  # the end of what stands before them
    after: str = ""  # the beginning of what stands after them


def slice_lines(pieces: Iterator[str], first: int, last: int | None) -> LineSlice:
    """Lines `first` to `last`, holding no more than a piece and what may be told at once."""
    wanted = MAX_READ_BYTES if last is None else last - first + 1
    passed, buffer, before = _skip(pieces, first - 1)
    if passed < first - 1:
        return LineSlice([], passed + bool(buffer), False)
    ended = False
    while not ended and len(buffer) <= MAX_READ_BYTES and _count_line_ends(buffer) < wanted:
        more = next(pieces, None)
        ended = more is None
        buffer += more or ""
    lines = split_lines(buffer)
    total = passed + len(lines) if ended else None
    if not ended and len(lines) > 1 and not ending(lines[-1]):
        lines.pop()  # it goes on
    taken = lines[:wanted]
    after = buffer[sum(map(len, taken)) :]
    if not ended and len(after) < CUT_CONTEXT_CHARS:
        after += next(pieces, "")
    return LineSlice(taken, total, not ended and len(lines) < wanted, before, after[:CUT_CONTEXT_CHARS])


def _skip(pieces: Iterator[str], count: int) -> tuple[int, str, str]:
    """Go past so many line ends: how many there were, what follows the last of them in its piece, and the end
    of what stands before."""
    passed, tail, before = 0, "", ""
    for piece in pieces:
        ends = _count_line_ends(piece)
        if passed + ends >= count:
            at = 0
            for match in islice(LINE_END.finditer(piece), count - passed):
                at = match.end()
            return count, piece[at:], (before + piece[:at])[-CUT_CONTEXT_CHARS:]
        passed, before = passed + ends, (before + piece)[-CUT_CONTEXT_CHARS:]
        tail = piece[-1:] or tail
    return passed, tail if tail not in ("\r", "\n") else "", before


def _count_line_ends(text: str) -> int:
    return text.count("\n") + text.count("\r") - text.count("\r\n")


def _no_such_line(path: str, first: int, total: int) -> HutchError:
    return BadRequest(f"'{display_path(path)}' has {total:,} lines, so there is no line {first:,}.")


def _chunks(fd: int, most: int) -> Iterator[bytes]:
    """A file from its beginning, up to a size: it may grow while we read."""
    at = 0
    while at < most and (chunk := os.pread(fd, min(CHUNK_BYTES, most - at), at)):
        yield chunk
        at += len(chunk)


def decode_chunks(fd: int, text: Text, piece_bytes: int = CHUNK_BYTES) -> Iterator[str]:
    """The text of a file in pieces, none of which ends between a CR and its LF."""
    decoder = codecs.getincrementaldecoder(text.encoding)("replace")
    at, held = len(text.bom), ""
    while chunk := os.pread(fd, piece_bytes, at):
        at += len(chunk)
        piece = held + decoder.decode(chunk)
        held = "\r" if piece.endswith("\r") else ""
        yield piece[: len(piece) - len(held)]
    yield held + decoder.decode(b"", final=True)


def _detect_encoding(head: bytes) -> Text | None:
    """The encoding of a large file, told from its beginning; None when it is binary."""
    ends = [len(head) - cut for cut in range(4)]  # it may end in the middle of a character
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
