"""Detects what commands leave running: jobs with `&`, `nohup` or `setsid`.

All processes that a command ever started are below its reaper, wherever they moved. So
a shell that waits for its next command has jobs when its reaper has other processes
below it. In a terminal the foreground process group does not count, nor do the parents
of its members.
"""

import asyncio
import os
import time
from collections.abc import Callable
from dataclasses import dataclass

from hutch.jail.jail_processes import read

POLL_INTERVAL_S = 1.0
MAX_THREADS = 64  # that are inspected; where there are more, some belong to jobs
MAX_ATTEMPTS = 8  # at processes that start and end meanwhile
DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class _Process:
    is_alive: bool
    parent: int
    group: int
    foreground: int  # the foreground process group of its terminal


class _Changed(Exception):
    """A process ended while it was inspected; its children may have another parent by now."""


def has_jobs(proc: int, reaper: int, leader: int) -> bool:
    """True when a reaper has more below it than the process that it started. `proc` is a descriptor of the
    jail's /proc.

    A process that ends hands its children to the reaper, whose list may have been read before that. So the
    answer is False only when two checks find the same.
    """
    last: dict[int, _Process] | None = None
    for _ in range(MAX_ATTEMPTS):
        try:
            found = _below(proc, reaper)
        except _Changed:
            continue
        if found is None or _jobs_among(found, leader):
            return True
        if found == last:
            return False
        last = found
    return True


def _below(proc: int, reaper: int) -> dict[int, _Process] | None:
    """The processes below a reaper; None when they are too many to inspect."""
    found: dict[int, _Process] = {}
    threads = [f"{reaper}/task/{reaper}"]  # it has no other threads
    for task in threads:
        for pid in map(int, read(f"{task}/children", dir_fd=proc).split()):
            found[pid] = _read_process(proc, pid)
            threads += _threads(proc, pid)
            if len(threads) > MAX_THREADS:
                return None
    return found


def _jobs_among(found: dict[int, _Process], leader: int) -> bool:
    exempt = {leader}
    first = found.get(leader)
    if first is not None and first.foreground != first.group:  # else the leader itself waits for input
        for pid in [pid for pid, each in found.items() if each.group == first.foreground]:
            while pid in found:
                exempt.add(pid)
                pid = found[pid].parent
    return any(each.is_alive for pid, each in found.items() if pid not in exempt)


def _read_process(proc: int, pid: int) -> _Process:
    fields = read(f"{pid}/stat", dir_fd=proc).rpartition(b")")[2].split()
    if not fields:
        raise _Changed
    return _Process(fields[0] not in b"ZX", int(fields[1]), int(fields[2]), int(fields[5]))


def _threads(proc: int, pid: int) -> list[str]:
    """The /proc paths of a process's threads, each of which may have children."""
    try:
        fd = os.open(f"{pid}/task", DIRECTORY, dir_fd=proc)
    except OSError:
        raise _Changed from None
    try:
        return [f"{pid}/task/{name}" for name in os.listdir(fd)]  # noqa: PTH208
    except OSError:
        raise _Changed from None
    finally:
        os.close(fd)


class JobWatch:
    """Reports when jobs appear and when none remain."""

    def __init__(
        self,
        find_jobs: Callable[[], bool | None],
        report: Callable[[bool], None],
        *,
        min_interval_s: float = 0,
    ) -> None:
        self._find_jobs = find_jobs  # None: unknown at the moment
        self._report = report
        self._min_interval_s = min_interval_s  # between two checks; meanwhile jobs are assumed
        self._checked_at = 0.0
        self._found = False
        self._timer: asyncio.TimerHandle | None = None

    def check(self) -> None:
        """Check now, and repeatedly until there are no jobs."""
        self.close()
        now = time.monotonic()
        found = True if now - self._checked_at < self._min_interval_s else self._find_jobs()
        self._checked_at = now
        if found is not None and found != self._found:
            self._found = found
            self._report(found)
        if self._found:
            self._timer = asyncio.get_running_loop().call_later(POLL_INTERVAL_S, self.check)

    def end(self) -> None:
        """Report that no job is left, after all processes were killed."""
        self.close()
        if self._found:
            self._found = False
            self._report(False)

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
