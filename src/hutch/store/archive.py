"""The zip of an exported record, opened by somebody who does not trust it.

Stricter than a zip library: exactly our files, once each, in order, and not a
byte beside them, so that no two programs can see different records in one file.
Nothing is unpacked further than it is read, and never beyond a limit. Lines are
handed out before the checksum at the end, so damage is named by its event.
"""

import os
import stat
import struct
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from hutch.domain.errors import BadRequest, NotFound
from hutch.store.record import FILES, Damaged

BLOCK_BYTES = 256 * 1024
DIRECTORY_BYTES = 4096

# APPNOTE.TXT 4.3: signature first, all little-endian.
_LOCAL = struct.Struct("<4s5H3L2H")
_ENTRY = struct.Struct("<4s6H3L5H2L")
_END = struct.Struct("<4s4H2LH")
_LOCATOR = struct.Struct("<4sLQL")
_END64 = struct.Struct("<4sQ2H2L4Q")
_DEFLATED = 8
_IN_EXTRA = 0xFFFFFFFF  # the real number does not fit in 32 bits and stands in the extra field
_ENCRYPTED = 1
_ZIP64_VERSION = 45
_LOCAL_EXTRA_BYTES = 20  # room for two 64-bit sizes, and nothing else


@dataclass(frozen=True, slots=True)
class _File:
    name: str
    start: int
    packed_bytes: int
    size_bytes: int
    checksum: int


class Archive:
    """The files of a record, unpacked as they are read."""

    def __init__(self, source: BinaryIO, *, size_limit_bytes: int) -> None:
        self._source = source
        self._files = {file.name: file for file in _directory(source)}
        total = sum(file.size_bytes for file in self._files.values())
        if total > size_limit_bytes:
            raise Damaged(
                f"The record unpacks to {total} bytes, over the limit of {size_limit_bytes}. "
                "If you expect one so large, raise size_limit_bytes."
            )

    def read(self, name: str, limit_bytes: int) -> bytes:
        """A small file as a whole."""
        if self._files[name].size_bytes > limit_bytes:
            raise Damaged(
                f"{name} unpacks to {self._files[name].size_bytes} bytes, over its limit of {limit_bytes}."
            )
        return b"".join(self._blocks(name))

    def lines(self, name: str, limit_bytes: int) -> Iterator[bytes]:
        """The lines of a file without their newlines; each must have one."""
        count, begun = 0, bytearray()
        for block in self._blocks(name):
            *whole, rest = block.split(b"\n")
            for line in whole:
                if len(begun) + len(line) > limit_bytes:
                    raise _too_long(name, count + 1, limit_bytes)
                yield bytes(begun) + line
                count += 1
                begun.clear()
            begun += rest
            if len(begun) > limit_bytes:
                raise _too_long(name, count + 1, limit_bytes)
        if begun:
            raise Damaged(f"{name} is cut short: line {count + 1} has no end.")

    def _blocks(self, name: str) -> Iterator[bytes]:
        file = self._files[name]
        inflater, at, left, size, checksum = zlib.decompressobj(-15), file.start, file.packed_bytes, 0, 0
        packed = b""
        while not inflater.eof:
            if not packed:
                self._source.seek(at)  # each time: two files are read in turns
                packed = self._source.read(min(BLOCK_BYTES, left))
                at, left = at + len(packed), left - len(packed)
            try:
                block = inflater.decompress(packed, BLOCK_BYTES)
            except zlib.error as error:
                raise Damaged(f"{name} cannot be unpacked ({error}).") from None
            size, checksum = size + len(block), zlib.crc32(block, checksum)
            if not block and not packed:
                raise Damaged(f"{name} cannot be unpacked: its data is cut short.")
            if size > file.size_bytes:
                raise Damaged(f"{name} unpacks to more than the {file.size_bytes} bytes it declares.")
            packed = inflater.unconsumed_tail
            yield block
        if left + len(inflater.unused_data) or size != file.size_bytes:
            raise Damaged(f"{name} does not fill the place that the zip's directory gives it.")
        if checksum != file.checksum:
            raise Damaged(f"{name} does not match its checksum in the zip.")


@contextmanager
def open_archive(path: Path, *, size_limit_bytes: int) -> Iterator[Archive]:
    """Open a record. Raises `BadRequest` when it is no zip at all, `Damaged` when it is a bad one."""
    try:
        if not path.exists():
            raise NotFound(f"{path} does not exist. Give the path of an exported record.")
        if not path.is_file():  # a pipe would never end
            raise BadRequest(f"{path} is not a file. Give the path of an exported record.")
        source = path.open("rb")
    except OSError as error:
        raise BadRequest(f"{path} cannot be read ({error.strerror}). Give one that you may read.") from None
    with source:
        if source.read(4) not in (b"PK\x03\x04", b"PK\x05\x06"):
            raise BadRequest(f"{path} is not a zip file. Give the path of an exported record.")
        yield Archive(source, size_limit_bytes=size_limit_bytes)


def _directory(source: BinaryIO) -> list[_File]:
    """Every file of the zip; refuses any that could be read in another way than ours."""
    try:
        start, directory = _central(source)
        files, at, place = [], 0, 0
        for name in FILES:
            file, at, place = _entry(source, directory, at, place, start, name)
            files.append(file)
    except (struct.error, IndexError):
        raise Damaged("The zip's directory is damaged.") from None
    if at != len(directory) or place != start:
        raise Damaged("The zip holds more than its files: there is something between or after them.")
    return files


def _central(source: BinaryIO) -> tuple[int, bytes]:
    """Where the directory starts, and its bytes. It must be all there is after the files."""
    size = source.seek(0, os.SEEK_END)
    tail_bytes = min(size, _END.size + _LOCATOR.size + _END64.size)
    source.seek(size - tail_bytes)
    tail = source.read(tail_bytes)
    signature, *_, entries, length, start, comment_bytes = _END.unpack(tail[-_END.size :])
    if signature != b"PK\x05\x06" or comment_bytes:
        raise Damaged(
            "The zip is cut short or has something after its end: its directory is not where it should be."
        )
    end = size - _END.size
    if tail[_END64.size : _END64.size + 4] == b"PK\x06\x07":  # beyond 2 GiB there is a wider end before it
        end = size - tail_bytes
        signature, *_, entries, length, start = _END64.unpack(tail[: _END64.size])
        locator = _LOCATOR.pack(b"PK\x06\x07", 0, end, 1)
        if signature != b"PK\x06\x06" or tail[_END64.size : -_END.size] != locator:
            raise Damaged("The zip's directory is damaged.")
    if entries != len(FILES) or length > DIRECTORY_BYTES:
        raise Damaged(f"The zip holds {entries} files, and a record has {len(FILES)}: {', '.join(FILES)}.")
    if start + length != end:
        raise Damaged("The zip's directory is not where its end says it is.")
    source.seek(start)
    return start, source.read(length)


def _entry(
    source: BinaryIO, directory: bytes, at: int, place: int, limit: int, expected: str
) -> tuple[_File, int, int]:
    """The file described at `at`, which must lie at `place`; and where the next ones should be."""
    signature, _, needs, flags, method, _, _, checksum, packed, size, *rest = _ENTRY.unpack_from(
        directory, at
    )
    name_bytes, extra_bytes, comment_bytes, disk, _, attributes, offset = rest
    at += _ENTRY.size
    name = directory[at : at + name_bytes]
    if signature != b"PK\x01\x02" or name != expected.encode():
        raise Damaged(f"The zip holds {ascii(name[:80])[1:]} where a record has '{expected}'.")
    if flags & _ENCRYPTED:
        raise Damaged(f"{expected} is encrypted. A record is not: ask for one that anybody can read.")
    if needs > _ZIP64_VERSION or flags or comment_bytes or disk or method != _DEFLATED:
        raise Damaged(f"{expected} is not a plain deflated file in the zip.")
    if stat.S_IFMT(attributes >> 16) != stat.S_IFREG:
        raise Damaged(f"{expected} is not a regular file in the zip.")
    extra = directory[at + name_bytes : at + name_bytes + extra_bytes]
    size, packed, offset = _wide(extra, size, packed, offset)
    if offset != place:  # looked at before it is sought: it may be any number
        raise Damaged(f"The zip holds more than its files: there is something before {expected}.")
    source.seek(offset)
    local = _LOCAL.unpack(source.read(_LOCAL.size))
    same = local[0] == b"PK\x03\x04" and local[2:4] == (0, _DEFLATED) and source.read(local[9]) == name
    start = offset + _LOCAL.size + local[9] + local[10]
    if not same or local[10] > _LOCAL_EXTRA_BYTES or start + packed > limit:
        raise Damaged(f"The zip's directory and the file {expected} itself disagree.")
    return _File(expected, start, packed, size, checksum), at + name_bytes + extra_bytes, start + packed


def _wide(extra: bytes, *numbers: int) -> list[int]:
    """The numbers, with those that did not fit taken from the extra field, which holds nothing else."""
    missing = numbers.count(_IN_EXTRA)
    kind = struct.pack("<2H", 1, 8 * missing) if missing else b""
    if extra[:4] != kind:
        raise struct.error
    wide = iter(struct.unpack(f"<{missing}Q", extra[4:]))
    return [next(wide) if number == _IN_EXTRA else number for number in numbers]


def _too_long(name: str, line: int, limit_bytes: int) -> Damaged:
    return Damaged(f"Line {line} of {name} is longer than {limit_bytes} bytes.")
