"""Reads which files are staged in an index of git.

Any `git status` rewrites the index, because it notes when files were last seen. Two indexes with the
same entries mean the same, whatever their bytes are. Format: git's `gitformat-index`.
"""

import struct

ENTRY = struct.Struct(">10I20sH")  # times, device, inode, mode, owner, size, object, flags
EXTENDED, NAME_BITS, STAGE_BITS = 0x4000, 0x0FFF, 0x3000
MAX_ENTRIES = 1_000_000
MAX_NUMBER_BYTES = 5

StagedEntry = tuple[bytes, int, bytes, int]  # path, mode, object, stage and flags


def staged_entries(data: bytes) -> tuple[StagedEntry, ...] | None:
    """The entries of an index; None if this is none, or one of an unknown format."""
    try:
        magic, version, count = struct.unpack_from(">4sII", data)
        if magic != b"DIRC" or version not in (2, 3, 4) or count > MAX_ENTRIES or b"link" in data[-4096:]:
            return None  # a split index has its entries in another file
        return tuple(_entries(data, version, count))
    except (struct.error, ValueError, IndexError):
        return None


def _entries(data: bytes, version: int, count: int) -> list[StagedEntry]:
    found: list[StagedEntry] = []
    at, path = 12, b""
    for _ in range(count):
        start = at
        fields = ENTRY.unpack_from(data, at)
        mode, name, flags = fields[6], fields[10], fields[11]
        at += ENTRY.size
        more = 0
        if flags & EXTENDED:
            (more,) = struct.unpack_from(">H", data, at)
            at += 2
        if version == 4:
            dropped, at = _number(data, at)
            end = data.index(b"\0", at)
            path, at = path[: len(path) - dropped] + data[at:end], end + 1
        else:
            end = data.index(b"\0", at)
            path = data[at:end]
            at = start + (end - start + 8) // 8 * 8
        found.append((path, mode, name, flags & STAGE_BITS | more << 16))
    return found


def _number(data: bytes, at: int) -> tuple[int, int]:
    """A number of variable length, and where it ends."""
    value, end = data[at] & 0x7F, at + MAX_NUMBER_BYTES
    while data[at] & 0x80:
        if at >= end:
            raise ValueError("a number is too long")
        at += 1
        value = (value + 1) << 7 | data[at] & 0x7F
    return value, at + 1
