"""Reads directory entries that may have changed into a snapshot.

A file is opened without following links or blocking, checked again once it is open,
and read up to the size it had. If it changed during the read, it is read again. After
the last attempt it is stored as read, and the next scan reads it again.
"""

import os
import stat
from collections.abc import Callable, Iterable
from collections.abc import Set as AbstractSet

from hutch.snapshots.disk_walk import EntryVanished, StatKey, open_file, read_all, stat_key
from hutch.snapshots.pack_writer import FileShrunk, PackWriter
from hutch.snapshots.snapshot_tree_layout import IGNORED, PERMISSIONS, PRIVATE, Item, Leaf, OmittedEntry
from hutch.system.lazy_dataclass import dataclass

MAX_ATTEMPTS = 3
KINDS = {stat.S_IFIFO: "fifo", stat.S_IFSOCK: "socket", stat.S_IFCHR: "device", stat.S_IFBLK: "device"}


@dataclass(frozen=True, slots=True)
class SnapshotLimits:
    """Limits of a snapshot. Larger files are omitted; too many entries are an error."""

    entries: int = 1_000_000
    path_bytes: int = 1 << 28  # the sum of all directory paths
    file_bytes: int = 2 << 30
    new_bytes: int = 8 << 30  # read for one snapshot
    ignored_file_bytes: int = 16 << 20
    ignored_bytes: int = 512 << 20  # the sum of all ignored files
    large_bytes: int = 4 << 20  # from this size a file is stored as its own pack


class EntryReader:
    """Reads entries into a pack. `attributes` is the prefix of an overlay's extended attributes."""

    def __init__(
        self, writer: PackWriter, limits: SnapshotLimits, *, ignored_bytes: int, attributes: str | None
    ) -> None:
        self.writer = writer
        self.limits = limits
        self.attributes = attributes
        self._ignored_bytes = ignored_bytes  # the size of ignored files so far

    def read_entry(
        self,
        fd: int,
        name: str,
        found: os.stat_result,
        *,
        section: int,
        before: Item | None,
        known: AbstractSet[bytes],
    ) -> tuple[Item | None, StatKey | None]:
        """The item for a name, and its stat key; only the key if it is an overlay whiteout."""
        for _ in range(MAX_ATTEMPTS):
            mode = found.st_mode
            try:
                if stat.S_ISREG(mode):
                    return self._file(fd, name, section, before, known)
                if stat.S_ISLNK(mode):
                    target = os.fsencode(os.readlink(name, dir_fd=fd))
                    blob = self.writer.add("blob", target, known=known)
                    return Leaf(stat.S_IFLNK | 0o777, blob, section, len(target)), stat_key(found)
                if self.attributes and stat.S_ISCHR(mode) and found.st_rdev == 0:
                    return None, stat_key(found)
                if not stat.S_ISDIR(mode):
                    return OmittedEntry(KINDS.get(stat.S_IFMT(mode), "unknown"), 0), None
            except (EntryVanished, FileShrunk, FileNotFoundError):
                pass  # it was replaced: check it again
            except OSError as error:
                return OmittedEntry(error.strerror or "unreadable", found.st_size), None
            try:
                found = os.stat(name, dir_fd=fd, follow_symlinks=False)
            except FileNotFoundError:
                return None, None
        return OmittedEntry("changes too fast", found.st_size), None

    def store(self, chunks: Callable[[], Iterable[bytes]], *, mode: int, section: int) -> Leaf | OmittedEntry:
        """Store a content that need not be on disk, within the same limits."""
        size = sum(map(len, chunks()))
        if why := self._too_much(size, section, None):
            return OmittedEntry(why, size)
        if size >= self.limits.large_bytes:
            parts = iter(chunks())
            blob = self.writer.add_large(lambda _: next(parts, b""), size)
        else:
            blob = self.writer.add("blob", b"".join(chunks()))
        self._count(size, section, None)
        return Leaf(mode, blob, section, size)

    def has_overlay_mark(self, descriptor: int, what: str) -> bool:
        """True if overlayfs has set this attribute on a file or directory."""
        if self.attributes is None:
            return False
        try:
            os.getxattr(descriptor, f"{self.attributes}{what}")
        except OSError:
            return False
        return True

    def _file(
        self, fd: int, name: str, section: int, before: Item | None, known: AbstractSet[bytes]
    ) -> tuple[Item | None, StatKey | None]:
        for _ in range(MAX_ATTEMPTS):
            with open_file(fd, name) as (descriptor, found):
                key = stat_key(found)
                if found.st_size == 0 and self.has_overlay_mark(descriptor, "whiteout"):
                    return None, key
                if why := self._too_much(found.st_size, section, before):
                    return OmittedEntry(why, found.st_size), None
                if found.st_size >= self.limits.large_bytes:
                    size = found.st_size
                    blob = self._large(descriptor, size, section, known)
                    steady = stat_key(os.fstat(descriptor)) == key
                    break  # not repeated: what was read is stored
                data = read_all(descriptor, found.st_size)
                steady = stat_key(os.fstat(descriptor)) == key
            blob, size = b"", len(data)
            if steady:
                break
        if not blob:
            blob = self.writer.add("blob", data, known=known)
        self._count(size, section, before)
        return Leaf(stat.S_IFREG | found.st_mode & PERMISSIONS, blob, section, size), key if steady else None

    def _large(self, descriptor: int, size: int, section: int, known: AbstractSet[bytes]) -> bytes:
        return self.writer.add_large(
            lambda count: os.read(descriptor, count), size, known=known, private=section == PRIVATE
        )

    def _too_much(self, size: int, section: int, before: Item | None) -> str:
        """The reason for omitting a file of this size; empty if it fits."""
        if size > self.limits.file_bytes:
            return "larger than a file may be"
        if self.writer.bytes + size > self.limits.new_bytes:
            return "more than one snapshot takes in"
        if section == IGNORED and size > self.limits.ignored_file_bytes:
            return "ignored, and larger than an ignored file may be"
        if section == IGNORED and self._ignored_bytes + size - _ignored(before) > self.limits.ignored_bytes:
            return "ignored, and over the limit for all ignored files"
        return ""

    def _count(self, size: int, section: int, before: Item | None) -> None:
        if section == IGNORED:
            self._ignored_bytes += size - _ignored(before)


def _ignored(item: Item | None) -> int:
    return item.size if isinstance(item, Leaf) and item.section == IGNORED else 0
