"""Compares a write-ahead file with its index after a crash.

SQLite stores the number and the checksum of the last committed frame in `hutch.db-shm`. The next
process that opens the database rebuilds the index from the existing frames, so a write-ahead file
that was emptied, truncated, overwritten or replaced by an older one only looks like a shorter history.
Only the old index shows what is missing, so it is read here before SQLite opens anything.

The layouts are described at https://www.sqlite.org/walformat.html and
https://www.sqlite.org/fileformat2.html#walformat.
"""

import fcntl
import os
import struct
import sys
from pathlib import Path
from typing import BinaryIO

from hutch.store.open_database_loss_check import FRAME_HEADER_BYTES, WAL_HEADER_BYTES, WAL_MAGICS
from hutch.system.clock_without_jumps import boot_ms, wall_ms
from hutch.system.lazy_dataclass import dataclass

INDEX_VERSION = 3_007_000
IN_USE_BYTE = 128  # of the index: locked as long as any process has the database open
MAX_ATTEMPTS = 3  # the files may change during a read
MASK = 0xFFFF_FFFF
_HEADER = struct.Struct("=IIIBBHIIIIIIII")  # in the byte order of the machine
_INDEX_BYTES = 2 * _HEADER.size + 4
_LOCK = struct.Struct("hhqqi4x")


@dataclass(frozen=True, slots=True)
class Index:
    """The last commit that the write-ahead file held."""

    frames: int
    copied_frames: int  # of these, already in the database
    page_bytes: int
    checksum: tuple[int, int]  # up to the last frame
    salts: bytes
    is_stale: (
        bool  # from before the machine was started: it is never synced, so a power cut can leave an old one
    )


def find_missing_frames(path: Path) -> str:
    """The problem with the write-ahead file of the database at `path`; empty if nothing is missing.

    Only after a crash: a process that uses the database changes the files, and checks them itself.
    """
    wal = Path(f"{path}-wal")
    problem = ""
    for _ in range(MAX_ATTEMPTS):
        index = _read_index(Path(f"{path}-shm"))
        if index is None or not index.frames:
            return ""
        problem = _compare(wal, index)
        if not problem:
            return ""
    return problem


def _read_index(file: Path) -> Index | None:
    """The index, if it is complete and no process uses it.

    Closing a descriptor of the file would release the locks that this process holds on it, so the file is
    not opened if this process has the database open.
    """
    try:
        if _is_open_in_this_process(file):
            return None
        fd = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        query = _LOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, IN_USE_BYTE, 1, 0)
        kind = _LOCK.unpack(fcntl.fcntl(fd, fcntl.F_GETLK, query))[0]
        is_stale = os.fstat(fd).st_mtime_ns // 1_000_000 < wall_ms() - boot_ms()
        return _parse(os.pread(fd, _INDEX_BYTES, 0), is_stale=is_stale) if kind == fcntl.F_UNLCK else None
    finally:
        os.close(fd)


def _is_open_in_this_process(file: Path) -> bool:
    found = file.stat()
    for descriptor in Path("/proc/self/fd").iterdir():
        try:
            opened = descriptor.stat()
        except FileNotFoundError:  # closed since
            continue
        if (opened.st_dev, opened.st_ino) == (found.st_dev, found.st_ino):
            return True
    return False


def _parse(found: bytes, *, is_stale: bool) -> Index | None:
    """The index, if it was complete when its process ended."""
    if len(found) < _INDEX_BYTES:
        return None
    first, second = found[: _HEADER.size], found[_HEADER.size : 2 * _HEADER.size]
    version, _, _, is_ready, _, page_bytes, frames, _, *rest = _HEADER.unpack(first)
    checksum = _sum(first[:-8], (0, 0), is_big_endian=sys.byteorder == "big")
    if first != second or version != INDEX_VERSION or not is_ready or checksum != tuple(rest[4:]):
        return None
    page_bytes = (page_bytes & 0xFE00) + ((page_bytes & 1) << 16)
    copied = int.from_bytes(found[2 * _HEADER.size :], sys.byteorder)
    return Index(frames, copied, page_bytes, (rest[0], rest[1]), first[32:40], is_stale)


def _compare(wal: Path, index: Index) -> str:
    try:
        with wal.open("rb") as file:
            return _read(wal, file, index)
    except FileNotFoundError:
        if index.copied_frames >= index.frames:
            return ""
        return f"The file {wal} is missing"


def _read(wal: Path, file: BinaryIO, index: Index) -> str:
    """Compare each frame with its checksum, which also covers all frames before it."""
    header = file.read(WAL_HEADER_BYTES)
    if not header and (index.is_stale or index.copied_frames >= index.frames):
        return ""  # SQLite empties it when all of it is in the database
    if len(header) < WAL_HEADER_BYTES or header[:4] not in WAL_MAGICS:
        return f"The file {wal} was emptied or overwritten"
    is_big_endian = header[:4] == WAL_MAGICS[1]
    if header[16:24] != index.salts:  # they change each time that SQLite restarts at the beginning
        return "" if index.is_stale else f"The file {wal} was replaced by another one"
    checksum = _sum(header[:24], (0, 0), is_big_endian=is_big_endian)
    for number in range(1, index.frames + 1):
        frame = file.read(FRAME_HEADER_BYTES + index.page_bytes)
        checksum = _sum(frame[:8], checksum, is_big_endian=is_big_endian)
        checksum = _sum(frame[FRAME_HEADER_BYTES:], checksum, is_big_endian=is_big_endian)
        if frame[8:24] != header[16:24] + struct.pack(">II", *checksum):
            return f"The file {wal} is intact only up to frame {number - 1:,} of {index.frames:,}"
    return "" if checksum == index.checksum else f"The file {wal} was replaced by another one"


def _sum(content: bytes, before: tuple[int, int], *, is_big_endian: bool) -> tuple[int, int]:
    """SQLite's checksum: two sums that include each other."""
    first, second = before
    words = struct.unpack(
        f"{'>' if is_big_endian else '<'}{len(content) // 8 * 2}I", content[: len(content) // 8 * 8]
    )
    for even, odd in zip(words[::2], words[1::2], strict=True):
        first = (first + even + second) & MASK
        second = (second + odd + first) & MASK
    return first, second
