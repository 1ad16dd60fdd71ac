"""Measures how much a directory has grown while a jail works on it.

Walking the directory is expensive; asking the file system how full it is costs nothing.
So the directory is walked only when the file system has filled up by enough to matter,
and from time to time, since other programs may have freed what the jail has taken. The
tree is the jail's and hostile: links are never followed, and depth is bounded. Unnamed
files are not in the tree; they are measured separately.

The jail's processes can see the walk, and move files behind it. Moved files were
changed after the walk began. If that may matter, the walk is repeated while the jail is
frozen. How full the file system is does not always show it, since others may free as
much as was hidden. So such a walk is repeated soon, and frozen after some seconds.
"""

import os
import stat
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

from hutch.jail.limits.unlinked_files import UnlinkedFiles
from hutch.system.lazy_dataclass import dataclass

MAX_DEPTH = 200  # a limit of its own: deeper files are not measured; no project needs them
WALK_INTERVAL_S = 1.0  # between walks without a reason: space freed by others hides growth
STEADY_INTERVAL_S = 5.0  # between walks during which nothing changed
CONFIRM_ATTEMPTS, CONFIRM_DELAY_S = 5, 0.02  # checks of a condition that may be temporary
MAX_LINKED = 200_000  # hard-linked files to remember
FILE_CLOCK = 5  # CLOCK_REALTIME_COARSE, which the kernel stamps files with
PAUSE_FACTOR = 50  # a walk that costs a second of processor time runs at most every 50 seconds


@dataclass(frozen=True, slots=True)
class Measure:
    """The result of a walk."""

    bytes: int
    files: int
    whole: bool  # False when some directory could not be read, or lies too deep
    too_deep: bool
    steady: bool  # False when a file changed before the walk reached it
    linked_outside: int = 0  # files with more names than were found, if requested


def measure(directory: int, *, links: bool = False) -> Measure:
    """Walk a directory descriptor and add up the disk space of its files; `links` counts hard links that
    lead out."""
    total, files, whole, too_deep, steady = 0, 0, True, False, True
    began_ns = time.clock_gettime_ns(FILE_CLOCK)
    missing: dict[tuple[int, int], int] = {}  # number of a file's names that were not found yet
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
                    too_deep, whole = True, False
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
    linked_outside = sum(names > 0 for names in missing.values())
    return Measure(total, files, whole, too_deep, steady, linked_outside)


class Growth:
    """Compares a directory with its state at the start."""

    def __init__(
        self,
        directory: int,
        *,
        max_bytes: int,
        max_files: int,
        find_unlinked_files: Callable[[], UnlinkedFiles] = lambda: UnlinkedFiles(0, maybe_more=False),
        freeze: Callable[[], AbstractContextManager[bool]] = lambda: nullcontext(True),
    ) -> None:
        self._directory = directory
        self._freeze = freeze
        self._unlinked_files = find_unlinked_files
        self._max_bytes = max_bytes
        self._max_files = max_files
        self._used_bytes = _used_bytes(directory)
        self._others: int | None = None  # the minimum that others used of the file system
        self._used_inodes = _used_inodes(directory)
        self._walked = time.monotonic()
        self._steady = self._walked  # the time of the last walk during which nothing changed
        self._base: Measure | None = None
        self._grown = (0, 0)
        self._cost_s = 0.0
        self.linked_outside = 0  # files that also had names outside at the start
        self.is_outdated = False  # whether the last walk may have missed files
        self.is_too_deep = False  # whether the last walk found directories deeper than MAX_DEPTH

    def change(self, *, max_bytes: int, max_files: int) -> None:
        """Apply other limits from the next walk on."""
        self._max_bytes, self._max_files = max_bytes, max_files

    @property
    def last_grown(self) -> tuple[int, int]:
        """Bytes and files as of the last walk."""
        return self._grown

    def grown(self) -> tuple[int, int]:
        """Bytes and files by which the directory has grown, as far as known. Walks only when necessary."""
        if self._base is None:
            self._base = self._walk(links=True)
            self.linked_outside = self._base.linked_outside
            self._unexplained(self._base)
            return self._grown
        since_s = time.monotonic() - self._walked
        is_due = since_s > max(WALK_INTERVAL_S, PAUSE_FACTOR * self._cost_s)
        is_urgent = self.is_filling() and since_s > min(WALK_INTERVAL_S, PAUSE_FACTOR * self._cost_s)
        self.is_outdated = not (is_due or is_urgent)
        return self._grown if self.is_outdated else self.measured()

    def measured(self) -> tuple[int, int]:
        """The same, from a walk that runs now."""
        began_s = time.thread_time()  # not real time, which does not show the cost on a busy machine
        frozen_at = self._steady + max(STEADY_INTERVAL_S, PAUSE_FACTOR * self._cost_s)
        seen, hidden = self._walk(), self._unlinked_files()
        base = self._base = self._base or seen
        if not seen.steady and (
            seen.bytes - base.bytes > self._max_bytes
            or self._unexplained(seen) > self._max_bytes // 4
            or time.monotonic() > frozen_at
        ):
            seen, hidden = self._walk_frozen()
            self._steady = time.monotonic()  # even if it was not: it is not worth another one at once
        self.is_outdated = not seen.steady
        grown = seen.bytes - base.bytes + hidden.bytes
        unexplained = self._unexplained(seen)
        if (unexplained > self._max_bytes // 4 and not seen.whole) or (
            unexplained > self._max_bytes and (not seen.steady or (hidden.maybe_more and self._is_hiding()))
        ):
            grown = max(grown, unexplained)
        self.is_too_deep = seen.too_deep
        self._grown, self._cost_s = (grown, seen.files - base.files), time.thread_time() - began_s
        return self._grown

    def _walk_frozen(self) -> tuple[Measure, UnlinkedFiles]:
        """Walk while the jail is frozen. If everything was seen, the rest of the file system belongs to
        others."""
        with self._freeze():
            for _ in range(CONFIRM_ATTEMPTS):
                time.sleep(CONFIRM_DELAY_S)  # the clock that stamps files ticks slowly
                seen = self._walk()
                if seen.steady:
                    break
            hidden = self._unlinked_files()
        if seen.steady and seen.whole and not hidden.maybe_more:
            self._others = self._used_bytes - seen.bytes - hidden.bytes
        return seen, hidden

    def _is_hiding(self) -> bool:
        """True if some process can never be inspected. A starting command cannot be inspected for a moment
        either, and is not to blame for what others write to the same disk."""
        for _ in range(CONFIRM_ATTEMPTS):
            time.sleep(CONFIRM_DELAY_S)
            if not self._unlinked_files().maybe_more:
                return False
        return True

    def is_filling(self) -> bool:
        """True if the file system has filled up by enough to matter, or the limit was already exceeded."""
        remaining = self._max_bytes - self._grown[0]
        filled = _used_bytes(self._directory) - self._used_bytes
        made = _used_inodes(self._directory) - self._used_inodes
        return remaining < 0 or filled > remaining // 2 or made > self._max_files // 2

    def _unexplained(self, seen: Measure) -> int:
        """Bytes by which the file system is fuller that are not in the tree."""
        others = self._used_bytes - seen.bytes
        if self._others is None or seen.steady:  # else files may have been counted twice
            self._others = others if self._others is None else min(self._others, others)
        return others - self._others

    def _walk(self, *, links: bool = False) -> Measure:
        began_s = time.thread_time()
        self._used_bytes, self._used_inodes = _used_bytes(self._directory), _used_inodes(self._directory)
        seen = measure(self._directory, links=links)
        self._walked, self._cost_s = time.monotonic(), time.thread_time() - began_s
        if seen.steady:
            self._steady = self._walked
        return seen


def _used_bytes(directory: int) -> int:
    """Bytes in use on the file system of a directory."""
    status = os.fstatvfs(directory)
    return (status.f_blocks - status.f_bfree) * status.f_frsize


def _used_inodes(directory: int) -> int:
    status = os.fstatvfs(directory)
    return status.f_files - status.f_ffree
