"""The size of closed workspaces on disk, and when they were last used."""

import os
from pathlib import Path

from hutch.jail.limits.disk_growth import measure

SIZE = "size"  # a file in a workspace's directory


def disk_bytes(place: Path, changed_ms: int) -> int:
    """The size of a workspace that was last changed at `changed_ms`. Blocks.

    Walking its files takes long, so the size is stored beside them until the next change.
    """
    stored = place / SIZE
    try:
        if stored.stat().st_mtime_ns // 1_000_000 > changed_ms:
            return int(stored.read_text())
    except (FileNotFoundError, ValueError):
        pass  # it was not measured yet, or a crash cut the file off
    fd = os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        size = measure(fd).bytes
    finally:
        os.close(fd)
    stored.write_text(str(size))
    return size


def last_used_ms(place: Path) -> int:
    """When a workspace was prepared, changed or had a snapshot taken. Blocks."""
    return max(path.lstat().st_mtime_ns for path in place.iterdir() if path.name != SIZE) // 1_000_000
