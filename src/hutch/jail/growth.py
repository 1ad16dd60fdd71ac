"""How much a directory has grown while a jail works on it.

Measuring is a walk, and a walk costs; asking the file system how full it is
costs nothing. So the walk is made only when the file system has filled up by
enough to matter, and now and then besides, since somebody else may have freed
what the jail has taken. The tree is the jail's and hostile: links are never
followed, and depth is bounded. What fills the disk and is not in the tree may
be in files without a name; those are asked for.
"""

import os
import stat
import time
from collections.abc import Callable
from dataclasses import dataclass

from hutch.jail.watch import Nameless

DEEPEST = 200  # a deeper tree is counted as over any limit: who needs one?
REST_S = 10.0  # between walks that nothing calls for
QUICK_S, QUICK_REST_S = 0.02, 1.0  # a quick walk may be made more often: frees by others hide what was taken
SHARE = 50  # a walk that takes a second is made at most every 50 seconds


@dataclass(frozen=True, slots=True)
class Measure:
    """What a walk found."""

    bytes: int
    files: int
    whole: bool  # False when some directory could not be read
    too_deep: bool


def measure(directory: int) -> Measure:
    """Walk below a directory descriptor; counts what files take on disk."""
    total, files, whole, too_deep = 0, 0, True, False
    stack = [os.scandir(directory)]
    fds: list[int] = []
    try:
        while stack:
            entry = next(stack[-1], None)
            if entry is None:
                stack.pop().close()
                if fds:
                    os.close(fds.pop())
                continue
            try:
                found = entry.stat(follow_symlinks=False)
                files += 1
                total += found.st_blocks * 512 // (1 if stat.S_ISDIR(found.st_mode) else found.st_nlink or 1)
                if not stat.S_ISDIR(found.st_mode):
                    continue
                if len(stack) > DEEPEST:
                    too_deep = True
                    continue
                parent = fds[-1] if fds else directory
                flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
                fd = os.open(entry.name, flags, dir_fd=parent)
            except FileNotFoundError:
                continue
            except OSError:
                whole = False
                continue
            fds.append(fd)
            stack.append(os.scandir(fd))
    finally:
        for scan in stack:
            scan.close()
        for fd in fds:
            os.close(fd)
    return Measure(total, files, whole, too_deep)


class Growth:
    """Compares a directory with what it was at the start."""

    def __init__(
        self,
        directory: int,
        *,
        most_bytes: int,
        most_files: int,
        nameless: Callable[[], Nameless] = lambda: Nameless(0, maybe_more=False),
    ) -> None:
        self._directory = directory
        self._nameless = nameless
        self._most_bytes = most_bytes
        self._most_files = most_files
        self._full = _full(directory)
        self._others: int | None = None  # the least that others were seen to take of the file system
        self._inodes = _inodes(directory)
        self._walked = time.monotonic()
        self._base: Measure | None = None
        self._grown_bytes = 0
        self._took_s = 0.0

    def grown(self) -> tuple[int, int]:
        """Bytes and files by which it has grown, as far as known; walks only when it must."""
        now = time.monotonic()
        if self._base is None:
            self._base = self._walk()
            self._unexplained(self._base)
        room = self._most_bytes - self._grown_bytes
        filled = _full(self._directory) - self._full
        rest_s = QUICK_REST_S if self._took_s < QUICK_S else max(REST_S, SHARE * self._took_s)
        due = now - self._walked > rest_s
        made = _inodes(self._directory) - self._inodes
        urgent = (filled > room // 2 or made > self._most_files // 2) and now - self._walked > min(
            1.0, SHARE * self._took_s
        )
        if due or urgent or self._grown_bytes > self._most_bytes:
            seen = self._walk()
            self._grown_bytes = seen.bytes - self._base.bytes
            unexplained = self._unexplained(seen)
            if unexplained > self._most_bytes // 4:
                hidden = self._nameless()
                self._grown_bytes += hidden.bytes
                if not seen.whole or (hidden.maybe_more and unexplained > self._most_bytes):
                    self._grown_bytes = max(self._grown_bytes, unexplained)
            if seen.too_deep:
                self._grown_bytes = max(self._grown_bytes, self._most_bytes + 1)
            return self._grown_bytes, seen.files - self._base.files
        return self._grown_bytes, 0

    def _unexplained(self, seen: Measure) -> int:
        """How much fuller the file system is by something that is not in the tree."""
        others = self._full - seen.bytes
        self._others = others if self._others is None else min(self._others, others)
        return others - self._others

    def _walk(self) -> Measure:
        began = time.monotonic()
        self._full, self._inodes = _full(self._directory), _inodes(self._directory)
        seen = measure(self._directory)
        self._walked = time.monotonic()
        self._took_s = self._walked - began
        return seen


def _full(directory: int) -> int:
    """Bytes in use on the file system that a directory is on."""
    about = os.fstatvfs(directory)
    return (about.f_blocks - about.f_bfree) * about.f_frsize


def _inodes(directory: int) -> int:
    about = os.fstatvfs(directory)
    return about.f_files - about.f_ffree
