"""Walks a tree that other processes are changing.

One name at a time, by descriptor, and never through a link: a swapped directory is at
worst another part of the same workspace. Depth costs neither stack nor descriptors.
Directories and files without read permission (mode 000) are opened by changing the
mode through an open descriptor, and the mode is restored afterwards.
"""

import errno
import os
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

from hutch.snapshots.confined_directory import Directory
from hutch.system.lazy_dataclass import dataclass

READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
OPEN_ALWAYS, OPEN_EVERY, OPEN_LAST = (
    64,
    64,
    64,
)  # levels that stay open: the first ones, every n-th, the last ones
MAX_LEASE_ATTEMPTS, LEASE_RETRY_DELAY_S = 5, 0.01
CLOCK = 5  # CLOCK_REALTIME_COARSE, the clock of file time stamps; not defined in `time`
TICK_NS = int(time.clock_getres(CLOCK) * 1e9)
WHOLE_SECONDS_NS = 2_000_000_000

StatKey = tuple[int, int, int, int]  # ctime, inode, mtime, size: equal only for equal content


class EntryVanished(Exception):
    """An entry was removed or replaced after it was found."""


def stat_key(found: os.stat_result) -> StatKey:
    return (found.st_ctime_ns, found.st_ino, found.st_mtime_ns, found.st_size)


class Clock(NamedTuple):
    """The start of a scan. A file that changed later may change again with the same time stamp."""

    began_ns: int

    @classmethod
    def now(cls) -> Self:
        return cls(time.clock_gettime_ns(CLOCK))

    def is_settled(self, key: StatKey) -> bool:
        """True if the next change will show in the key."""
        changed_ns = key[0]
        slack_ns = (
            TICK_NS if changed_ns % 1_000_000_000 else WHOLE_SECONDS_NS
        )  # some file systems store whole seconds
        return changed_ns < self.began_ns - slack_ns


@dataclass(slots=True)
class _Level:
    name: str
    fd: int  # -1: closed for now
    locked_mode: int | None  # the mode to restore


class Descent:
    """The open directories from a root to the current path. Use it with `with`."""

    def __init__(self, root: Directory, *, need: int = 0o500) -> None:
        self.need = need  # required permissions in a directory
        self._levels = [_Level("", root.open("", os.O_RDONLY | os.O_DIRECTORY), None)]

    def at(self, path: str) -> int:
        """A descriptor of the directory at `path`, valid until the next call."""
        names = path.split("/") if path else []
        common = 0
        while (
            common < min(len(names), len(self._levels) - 1) and self._levels[common + 1].name == names[common]
        ):
            common += 1
        while len(self._levels) > common + 1:
            self._close(self._levels.pop())
        self._reopen()
        for name in names[common:]:
            self._push(name)
        return self._levels[-1].fd

    def _push(self, name: str) -> None:
        level = _Level(name, -1, None)
        self._open(level, self._levels[-1].fd)
        self._levels.append(level)
        old = len(self._levels) - 1 - OPEN_LAST
        if old > OPEN_ALWAYS and old % OPEN_EVERY:
            self._close(self._levels[old])

    def _reopen(self) -> None:
        """Reopen closed levels up to the last one."""
        first = len(self._levels) - 1
        while self._levels[first].fd < 0:
            first -= 1
        for above, level in zip(self._levels[first:], self._levels[first + 1 :], strict=False):
            self._open(level, above.fd)

    def _open(self, level: _Level, above: int) -> None:
        try:
            found = os.stat(level.name, dir_fd=above, follow_symlinks=False) if os.geteuid() else None
            if found and stat.S_ISDIR(found.st_mode) and found.st_mode & self.need != self.need:
                path_fd = os.open(level.name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=above)
                try:
                    mode = stat.S_IMODE(os.fstat(path_fd).st_mode)
                    Path(f"/proc/self/fd/{path_fd}").chmod(mode | self.need)
                    level.locked_mode = mode
                finally:
                    os.close(path_fd)
            level.fd = os.open(level.name, READ | os.O_DIRECTORY, dir_fd=above)
        except OSError as error:
            if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP):
                raise EntryVanished from None
            raise

    def _close(self, level: _Level) -> None:
        if level.fd >= 0:
            if level.locked_mode is not None:
                with suppress(OSError):  # the owner may have removed it
                    os.fchmod(level.fd, level.locked_mode)
                level.locked_mode = None
            os.close(level.fd)
            level.fd = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for level in reversed(self._levels):
            self._close(level)


@contextmanager
def open_file(fd: int, name: str) -> Iterator[tuple[int, os.stat_result]]:
    """Open a regular file for reading; yields its descriptor and its stat at that moment."""
    descriptor = _open_file(fd, name)
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise EntryVanished
        yield descriptor, found
    finally:
        os.close(descriptor)


def read_all(descriptor: int, size: int) -> bytes:
    """The content of the file, up to `size` bytes."""
    data = os.read(descriptor, size + 1)
    if len(data) < size:
        parts = [data]
        left = size - len(data)
        while left > 0 and (data := os.read(descriptor, left)):
            parts.append(data)
            left -= len(data)
        data = b"".join(parts)
    return data[:size]


def _open_file(fd: int, name: str) -> int:
    for left in reversed(range(MAX_LEASE_ATTEMPTS)):
        try:
            return os.open(name, READ, dir_fd=fd)
        except PermissionError:
            return _open_locked(fd, name)
        except OSError as error:
            if error.errno in (errno.ENOENT, errno.ELOOP, errno.ENXIO, errno.ENODEV):
                raise EntryVanished from None
            if error.errno != errno.EAGAIN or not left:  # another process's lease on it is being broken
                raise
            time.sleep(LEASE_RETRY_DELAY_S)
    raise AssertionError("the last attempt returns or raises")


def _open_locked(fd: int, name: str) -> int:
    path_fd = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=fd)
    try:
        mode = os.fstat(path_fd).st_mode
        if not stat.S_ISREG(mode):
            raise EntryVanished
        here = Path(f"/proc/self/fd/{path_fd}")
        here.chmod(stat.S_IMODE(mode) | stat.S_IRUSR)
        try:
            return os.open(here, (READ & ~os.O_NOFOLLOW))
        finally:
            here.chmod(stat.S_IMODE(mode))
    finally:
        os.close(path_fd)
