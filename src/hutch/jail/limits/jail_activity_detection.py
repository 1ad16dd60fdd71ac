"""Cheap detection of whether anything in a jail has run.

The kernel keeps a clock for every thread. While none of them has advanced, no process
has allocated, written or forked, and the watcher may sleep on.
"""

import os
from collections.abc import Iterable

MAX_THREADS = 64  # threads to follow; a larger jail is always inspected in full


class ThreadActivity:
    """Follows the clocks of a jail's threads."""

    def __init__(self) -> None:
        self._clocks: dict[tuple[int, int], int] = {}  # (process, thread): descriptor of its schedstat
        self._spent_ns: int | None = None

    def follow(self, threads: Iterable[tuple[int, int]]) -> None:
        """Follow exactly these threads, which must be all threads of the jail."""
        current = set(threads)
        if len(current) > MAX_THREADS:
            self.close()
            return
        for gone in self._clocks.keys() - current:
            os.close(self._clocks.pop(gone))
        try:
            for pid, thread in current - self._clocks.keys():
                fd = os.open(f"/proc/{pid}/task/{thread}/schedstat", os.O_RDONLY | os.O_CLOEXEC)
                self._clocks[pid, thread] = fd
        except OSError:
            self.close()
            return
        self._spent_ns = self._read()

    def cpu_time_ns(self) -> int | None:
        """Processor time since the last call; None when it is unknown."""
        before, self._spent_ns = self._spent_ns, self._read()
        return None if before is None or self._spent_ns is None else self._spent_ns - before

    def close(self) -> None:
        while self._clocks:
            os.close(self._clocks.popitem()[1])
        self._spent_ns = None

    def _read(self) -> int | None:
        try:
            return sum(int(os.pread(fd, 64, 0).split()[0]) for fd in self._clocks.values()) or None
        except (OSError, ValueError, IndexError):  # a thread has ended
            return None
