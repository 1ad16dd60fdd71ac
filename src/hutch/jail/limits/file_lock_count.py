"""Counts locks on files: kernel memory that no cgroup counts and no rlimit bounds.

The kernel lists each lock with the process that took it. That process may have ended,
or may be missing from the list; such a lock counts for any jail that has the file open.

The list covers the whole machine and its cost grows with its length, so it is read once
for all jails and only up to a maximum. While it is read no process can lock a file, not
even a database, until the kernel has synchronised (20 ms and more). So it is read when
the kernel's memory has grown as much as many locks would make it grow, and rarely
otherwise.
"""

import os
import re
import stat
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Sequence

from hutch.jail.jail_processes import Member, read, tables
from hutch.system.lazy_dataclass import dataclass

LIST = "/proc/locks"
MAX_LIST_BYTES = 4 * 1024 * 1024  # some 70,000 locks
LIST_TIMEOUT_S = 0.5
MAX_AGE_S = 0.1
LIST_INTERVAL_S = 5.0  # between two reads without a sign of new locks
GROWTH_KIB = 512  # of the kernel's own memory: some 2,500 locks
UNRECLAIMABLE = re.compile(rb"^SUnreclaim: +(\d+)", re.MULTILINE)
LINE = re.compile(rb"^\d+: (?:-> )?\w+ +\S+ +\S+ +(-?\d+) (\w+):(\w+):(\d+) ", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class LockedFile:
    """A file, and the process that has locks on it; -1 if the kernel names none."""

    pid: int
    device: int
    inode: int


def list_locks(*, interval_s: float = LIST_INTERVAL_S) -> Counter[LockedFile]:
    """Count the locks on the machine, the newest first if there are too many to read. Blocks the thread."""
    global _list, _read_at, _baseline_kib
    with _reading:
        age_s = time.monotonic() - _read_at
        if age_s > MAX_AGE_S:
            kernel_kib = _kernel_kib()
            if age_s > interval_s or kernel_kib - _baseline_kib > GROWTH_KIB:
                _list = _read()
                _read_at, _baseline_kib = time.monotonic(), kernel_kib
            _baseline_kib = min(_baseline_kib, kernel_kib)
        return _list


def count_locks(
    jail: Sequence[Member],
    seen: Counter[LockedFile],
    *,
    limit: int,
    devices: Collection[int],
    may_hide_files: Callable[[], bool] = lambda: False,
) -> int:
    """Count the locks of a jail that alone uses the `devices`; a count above `limit` is exact.
    `may_hide_files` returns whether the jail may have open files that cannot be seen."""
    pids = {member.pid for member in jail}
    count, others = 0, Counter[LockedFile]()
    for key, number in seen.items():
        if key.pid in pids or key.device in devices:
            count += number
        else:
            others[key] = number
    if not count <= limit < count + others.total():  # the usual case: the owners of the others do not matter
        return count
    unclear: Counter[int] = Counter()
    for key, number in others.items():
        if key.pid < 0 or not _exists(key.pid):
            unclear[key.inode] += number
    if limit < count + unclear.total():
        open_inodes = unclear.keys() if may_hide_files() else _open_inodes(jail)
        count += sum(number for inode, number in unclear.items() if inode in open_inodes)
    return count


def _read() -> Counter[LockedFile]:
    seen: Counter[LockedFile] = Counter()
    remaining, deadline, rest = MAX_LIST_BYTES, time.monotonic() + LIST_TIMEOUT_S, b""
    fd = os.open(LIST, os.O_RDONLY | os.O_CLOEXEC)
    try:
        while remaining > 0 and time.monotonic() < deadline and (part := os.read(fd, 65536)):
            remaining -= len(part)
            whole, end, rest = (rest + part).rpartition(b"\n")
            seen.update(
                LockedFile(int(pid), os.makedev(int(major, 16), int(minor, 16)), int(inode))
                for pid, major, minor, inode in LINE.findall(whole + end)
            )
    finally:
        os.close(fd)
    return seen


def _kernel_kib() -> int:
    """Unreclaimable kernel memory, which includes locks."""
    found = UNRECLAIMABLE.search(read("/proc/meminfo"))
    return int(found[1]) if found else 0


def _open_inodes(jail: Sequence[Member]) -> set[int]:
    """The inodes of the files that a jail has open. Not their devices, since some file systems report
    others than the list does."""
    inodes = set()
    for member in jail:
        for thread in tables(member):
            directory = f"/proc/{member.pid}/task/{thread}/fd"
            try:
                names = os.listdir(directory)  # noqa: PTH208
            except OSError:
                continue
            for name in names:
                try:
                    status = os.stat(f"{directory}/{name}")  # noqa: PTH116
                except OSError:
                    continue
                if stat.S_ISREG(status.st_mode):
                    inodes.add(status.st_ino)
    return inodes


def _exists(pid: int) -> bool:
    return os.path.lexists(f"/proc/{pid}")


_reading = threading.Lock()
_list: Counter[LockedFile] = Counter()
_read_at = float("-inf")
_baseline_kib = 0
