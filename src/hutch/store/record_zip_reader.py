"""The zip file of an exported record: its layout, and how an untrusted one is read.

The layout is fixed to the byte: each header follows from the names, sizes, checksums
and offsets of the files, so a reader rebuilds all headers and compares. Only the
compressed data varies, and no two programs can see different records in one file.
Data is decompressed only as it is read, and never beyond a limit. Lines are returned
before the final checksum is verified, so that damage is attributed to its event.
"""

import os
import struct
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from hutch.domain.errors import BadRequest, NotFound
from hutch.store.record_format import FILES, InvalidRecord
from hutch.system.lazy_dataclass import dataclass

BLOCK_BYTES = 256 * 1024

# APPNOTE.TXT 4.3: signature first, all little-endian.
_LOCAL = struct.Struct("<4s5H3L2H")
_LOCAL_EXTRA = struct.Struct("<2H2Q")
_ENTRY = struct.Struct("<4s6H3L5H2L")
_END = struct.Struct("<4s4H2LH")
_LOCATOR = struct.Struct("<4sLQL")
_END64 = struct.Struct("<4sQ2H2L4Q")
_VERSION = 45  # of zip itself: the first with 64-bit sizes
_UNIX = 3 << 8
_DEFLATED = 8
_DATE = 33  # 1 January 1980, the earliest date of the format
_MODE = 0o100644 << 16
_MAX_32_BIT = 2**31 - 1  # where zip libraries switch to 64 bits
_IN_EXTRA = 2**32 - 1


@dataclass(frozen=True, slots=True)
class ZipMember:
    """A file in the zip, as its headers describe it."""

    name: str
    offset: int
    packed_bytes: int
    size_bytes: int
    checksum: int

    @property
    def start(self) -> int:
        return self.offset + _header_bytes(self.name)

    @property
    def end(self) -> int:
        return self.start + self.packed_bytes


def header(file: ZipMember) -> bytes:
    """The header before the data of a file."""
    name, wide = file.name.encode(), (_IN_EXTRA, _IN_EXTRA)
    fixed = _LOCAL.pack(
        b"PK\3\4", _VERSION, 0, _DEFLATED, 0, _DATE, file.checksum, *wide, len(name), _LOCAL_EXTRA.size
    )
    return fixed + name + _LOCAL_EXTRA.pack(1, 16, file.size_bytes, file.packed_bytes)


def directory(files: Sequence[ZipMember]) -> bytes:
    """The central directory after the last file, up to the end of the zip."""
    start, entries = files[-1].end, b"".join(map(_entry, files))
    count, wide = len(files), b""
    if start > _MAX_32_BIT:
        wide = _END64.pack(b"PK\6\6", 44, _VERSION, _VERSION, 0, 0, count, count, len(entries), start)
        wide += _LOCATOR.pack(b"PK\6\7", 0, start + len(entries), 1)
    end = _END.pack(b"PK\5\6", 0, 0, count, count, len(entries), min(start, _IN_EXTRA), 0)
    return entries + wide + end


def _entry(file: ZipMember) -> bytes:
    name, extra = file.name.encode(), []
    size, packed, offset = file.size_bytes, file.packed_bytes, file.offset
    if max(size, packed) > _MAX_32_BIT:
        extra += [size, packed]
        size = packed = _IN_EXTRA
    if offset > _MAX_32_BIT:
        extra.append(offset)
        offset = _IN_EXTRA
    more = struct.pack(f"<2H{len(extra)}Q", 1, 8 * len(extra), *extra) if extra else b""
    versions = (_UNIX | _VERSION, _VERSION)
    sizes = (file.checksum, packed, size, len(name), len(more))
    fixed = _ENTRY.pack(b"PK\1\2", *versions, 0, _DEFLATED, 0, _DATE, *sizes, 0, 0, 0, _MODE, offset)
    return fixed + name + more


def _header_bytes(name: str) -> int:
    return _LOCAL.size + len(name) + _LOCAL_EXTRA.size


class Archive:
    """The files of a record, decompressed as they are read."""

    def __init__(self, source: BinaryIO, *, size_limit_bytes: int) -> None:
        self._source = source
        self._files = {file.name: file for file in _files(source)}
        total = sum(file.size_bytes for file in self._files.values())
        if total > size_limit_bytes:
            raise InvalidRecord(
                f"The record unpacks to {total} bytes, over the limit of {size_limit_bytes}. "
                "If you expect this size, raise size_limit_bytes."
            )

    def read(self, name: str, limit_bytes: int) -> bytes:
        """A small file as a whole."""
        if self._files[name].size_bytes > limit_bytes:
            raise InvalidRecord(
                f"{name} unpacks to {self._files[name].size_bytes} bytes, over its limit of {limit_bytes}."
            )
        return b"".join(self._blocks(name))

    def lines(self, name: str, limit_bytes: int) -> Iterator[bytes]:
        """The lines of a file without their newlines; each must have one."""
        count, partial = 0, bytearray()
        for block in self._blocks(name):
            *whole, rest = block.split(b"\n")
            for line in whole:
                if len(partial) + len(line) > limit_bytes:
                    raise _too_long(name, count + 1, limit_bytes)
                yield bytes(partial) + line
                count += 1
                partial.clear()
            partial += rest
            if len(partial) > limit_bytes:
                raise _too_long(name, count + 1, limit_bytes)
        if partial:
            raise InvalidRecord(f"{name} is cut short: line {count + 1} has no end.")

    def _blocks(self, name: str) -> Iterator[bytes]:
        file = self._files[name]
        inflater, at, left, size, checksum = zlib.decompressobj(-15), file.start, file.packed_bytes, 0, 0
        packed = b""
        while not inflater.eof:
            if not packed:
                self._source.seek(at)  # each time: two files are read alternately
                packed = self._source.read(min(BLOCK_BYTES, left))
                at, left = at + len(packed), left - len(packed)
            try:
                block = inflater.decompress(packed, BLOCK_BYTES)
            except zlib.error as error:
                raise InvalidRecord(f"{name} cannot be unpacked ({error}).") from None
            size, checksum = size + len(block), zlib.crc32(block, checksum)
            if not block and not packed:
                raise InvalidRecord(f"{name} cannot be unpacked: its data is cut short.")
            if size > file.size_bytes:
                raise InvalidRecord(f"{name} unpacks to more than the {file.size_bytes} bytes it declares.")
            packed = inflater.unconsumed_tail
            yield block
        if left + len(inflater.unused_data) or size != file.size_bytes:
            raise InvalidRecord(f"{name} does not have the size that the zip's directory gives.")
        if checksum != file.checksum:
            raise InvalidRecord(f"{name} does not match its checksum in the zip.")


@contextmanager
def open_archive(path: Path, *, size_limit_bytes: int) -> Iterator[Archive]:
    """Open a record. Raises `BadRequest` if it is not a zip, `InvalidRecord` if it is a bad one."""
    name = repr(str(path))  # a name may contain terminal control characters
    try:
        if not path.exists():
            raise NotFound(f"{name} does not exist. Give the path of an exported record.")
        if not path.is_file():  # a pipe would never end
            raise BadRequest(f"{name} is not a file. Give the path of an exported record.")
        source = path.open("rb")
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        reason = getattr(error, "strerror", None) or error
        raise BadRequest(f"{name} cannot be read ({reason}). Give a path that you can read.") from None
    with source:
        if source.read(4) not in (b"PK\3\4", b"PK\5\6"):
            raise BadRequest(f"{name} is not a zip file. Give the path of an exported record.")
        yield Archive(source, size_limit_bytes=size_limit_bytes)


def _files(source: BinaryIO) -> list[ZipMember]:
    """The consecutive files of the zip. Any other byte is an error."""
    size = source.seek(0, os.SEEK_END)
    files: list[ZipMember] = []
    for name in FILES:
        offset = files[-1].end if files else 0
        source.seek(offset)
        found = source.read(_header_bytes(name))
        if len(found) < _header_bytes(name):
            raise InvalidRecord(f"The zip is cut short: it ends where {name} should begin.")
        (checksum,) = struct.unpack_from("<L", found, 14)
        size_bytes, packed_bytes = struct.unpack_from("<2Q", found, len(found) - 16)
        file = ZipMember(name, offset, packed_bytes, size_bytes, checksum)
        if found != header(file):
            raise InvalidRecord(
                f"The zip does not hold {name} at the expected offset and in Hutch's format. "
                "Use the file as it was exported."
            )
        if file.end > size:  # before any seek to it
            raise InvalidRecord(f"The zip is cut short: it ends within {name}.")
        files.append(file)
    source.seek(files[-1].end)
    expected = directory(files)
    found = source.read(len(expected) + 1)
    if len(found) < len(expected) and expected.startswith(found):
        raise InvalidRecord("The zip is cut short: it ends within its directory.")
    if found != expected:
        raise InvalidRecord("The zip's directory does not match its files, or is followed by other data.")
    return files


def _too_long(name: str, line: int, limit_bytes: int) -> InvalidRecord:
    return InvalidRecord(f"Line {line} of {name} is longer than {limit_bytes} bytes.")
