"""How much a directory has grown while a jail works on it.

Measuring is a walk, and a walk costs; asking the file system how full it is
costs nothing. So the walk is made only when the file system has filled up by
enough to matter, and now and then besides, since somebody else may have freed
what the jail has taken. The tree is the jail's and hostile: links are never
followed, and depth is bounded. Files without a name are not in the tree, and
are asked for.

Who is measured can see the walk go by, and move things behind it. What was moved
was changed after the walk began; if that may matter, the walk is made once more
while the jail stands still.
"""

import os
import stat
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

from hutch.jail.limits.unlinked_files import UnlinkedFiles

MAX_DEPTH = 200  # a deeper tree is counted as over any limit: who needs one?
REST_S = 1.0  # between walks that nothing calls for: frees by others hide what was taken
CONFIRM, CONFIRM_S = 5, 0.02  # how often something is looked at again that may pass, and after how long
MAX_LINKED = 200_000  # files with several names to remember
COARSE = 5  # CLOCK_REALTIME_COARSE, by which files are stamped
SHARE = 50  # a walk that costs a second of a processor is made at most every 50 seconds


@dataclass(frozen=True, slots=True)
class Measure:
    """What a walk found."""

    bytes: int
    files: int
    whole: bool  # False when some directory could not be read
    too_deep: bool
    steady: bool  # False when something was changed before the walk came to it
    linked_out: int = 0  # files that have more names than were found, if asked for


def measure(directory: int, *, links: bool = False) -> Measure:
    """Walk below a directory descriptor; counts what files take on disk, and `links` that lead out."""
    total, files, whole, too_deep, steady = 0, 0, True, False, True
    began_ns = time.clock_gettime_ns(COARSE)
    missing: dict[tuple[int, int], int] = {}  # names of a file that were not found yet
    stack = [os.scandir(directory)]
    fds: list[int] = []
    try:
        while stack:
            entry = next(stack[-1], None)
            if entry is None:
                stack.pop().close()
                steady &= os.fstat(fds[-1] if fds else directory).st_ctime_ns < began_ns
                if fds:
                    os.close(fds.pop())
                continue
            try:
                found = entry.stat(follow_symlinks=False)
                files += 1
                steady &= found.st_ctime_ns < began_ns
                total += found.st_blocks * 512 // (1 if stat.S_ISDIR(found.st_mode) else found.st_nlink or 1)
                if not stat.S_ISDIR(found.st_mode):
                    key = (found.st_dev, found.st_ino)
                    if links and found.st_nlink > 1 and (len(missing) < MAX_LINKED or key in missing):
                        missing[key] = missing.get(key, found.st_nlink) - 1
                    continue
                if len(stack) > MAX_DEPTH:
                    too_deep = True
                    continue
                parent = fds[-1] if fds else directory
                flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
                fd = os.open(entry.name, flags, dir_fd=parent)
            except FileNotFoundError:
                steady = False
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
    linked_out = sum(names > 0 for names in missing.values())
    return Measure(total, files, whole, too_deep, steady, linked_out)


class Growth:
    """Compares a directory with what it was at the start."""

    def __init__(
        self,
        directory: int,
        *,
        most_bytes: int,
        most_files: int,
        find_unlinked_files: Callable[[], UnlinkedFiles] = lambda: UnlinkedFiles(0, maybe_more=False),
        standstill: Callable[[], AbstractContextManager[bool]] = lambda: nullcontext(True),
    ) -> None:
        self._directory = directory
        self._standstill = standstill
        self._unlinked_files = find_unlinked_files
        self._most_bytes = most_bytes
        self._most_files = most_files
        self._full = _full(directory)
        self._others: int | None = None  # the least that others were seen to take of the file system
        self._inodes = _inodes(directory)
        self._walked = time.monotonic()
        self._base: Measure | None = None
        self._grown = (0, 0)
        self._cost_s = 0.0
        self.linked_out = 0  # files that had other names outside at the start
        self.owed = False  # whether something may have been written since the last walk

    def grown(self) -> tuple[int, int]:
        """Bytes and files by which it has grown, as far as known; walks only when it must."""
        if self._base is None:
            self._base = self._walk(links=True)
            self.linked_out = self._base.linked_out
            self._unexplained(self._base)
            return self._grown
        since_s = time.monotonic() - self._walked
        is_due = since_s > max(REST_S, SHARE * self._cost_s)
        is_urgent = self._is_filling() and since_s > min(REST_S, SHARE * self._cost_s)
        self.owed = not (is_due or is_urgent)
        return self._grown if self.owed else self.measured()

    def measured(self) -> tuple[int, int]:
        """The same, from a walk that is made now."""
        began_s = time.thread_time()  # not the time of day: on a busy machine that says nothing of the cost
        seen, hidden = self._walk(), self._unlinked_files()
        base = self._base = self._base or seen
        if not seen.steady and (
            seen.bytes - base.bytes > self._most_bytes or self._unexplained(seen) > self._most_bytes // 4
        ):
            seen, hidden = self._walk_in_peace()
        grown = seen.bytes - base.bytes + hidden.bytes
        unexplained = self._unexplained(seen)
        if (unexplained > self._most_bytes // 4 and not seen.whole) or (
            unexplained > self._most_bytes and (not seen.steady or (hidden.maybe_more and self._is_hiding()))
        ):
            grown = max(grown, unexplained)
        if seen.too_deep:
            grown = max(grown, self._most_bytes + 1)
        self._grown, self._cost_s = (grown, seen.files - base.files), time.thread_time() - began_s
        return self._grown

    def _walk_in_peace(self) -> tuple[Measure, UnlinkedFiles]:
        """While the jail stands still. If all was seen, what the file system has besides is others'."""
        with self._standstill():
            for _ in range(CONFIRM):
                time.sleep(CONFIRM_S)  # the clock of files ticks slowly
                seen = self._walk()
                if seen.steady:
                    break
            hidden = self._unlinked_files()
        if seen.steady and seen.whole and not hidden.maybe_more:
            self._others = self._full - seen.bytes - hidden.bytes
        return seen, hidden

    def _is_hiding(self) -> bool:
        """Whether there is always something that cannot be looked into. A command that is about to start
        cannot either, for a moment, and is not to blame for what others write to the same disk."""
        for _ in range(CONFIRM):
            time.sleep(CONFIRM_S)
            if not self._unlinked_files().maybe_more:
                return False
        return True

    def _is_filling(self) -> bool:
        """Whether the file system tells of enough to matter, or too much was there already."""
        room = self._most_bytes - self._grown[0]
        filled = _full(self._directory) - self._full
        made = _inodes(self._directory) - self._inodes
        return room < 0 or filled > room // 2 or made > self._most_files // 2

    def _unexplained(self, seen: Measure) -> int:
        """How much fuller the file system is by something that is not in the tree."""
        others = self._full - seen.bytes
        if self._others is None or seen.steady:  # else something may have been counted twice
            self._others = others if self._others is None else min(self._others, others)
        return others - self._others

    def _walk(self, *, links: bool = False) -> Measure:
        began_s = time.thread_time()
        self._full, self._inodes = _full(self._directory), _inodes(self._directory)
        seen = measure(self._directory, links=links)
        self._walked, self._cost_s = time.monotonic(), time.thread_time() - began_s
        return seen


def _full(directory: int) -> int:
    """Bytes in use on the file system that a directory is on."""
    about = os.fstatvfs(directory)
    return (about.f_blocks - about.f_bfree) * about.f_frsize


def _inodes(directory: int) -> int:
    about = os.fstatvfs(directory)
    return about.f_files - about.f_ffree
