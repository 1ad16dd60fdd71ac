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

from hutch.jail.jail_processes import read
from hutch.system.lazy_dataclass import dataclass

POLL_INTERVAL_S = 1.0
MAX_THREADS = 64  # that are inspected; where there are more, some belong to jobs
MAX_ATTEMPTS = 8  # at processes that start and end meanwhile
DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class _Process:
    is_alive: bool
    started: int
    parent: int
    group: int
    foreground: int  # the foreground process group of its terminal


class _Changed(Exception):
    """A process ended while it was inspected; its children may have another parent by now."""


Jobs = frozenset[tuple[int, int]]  # the pid and start time of each process
NO_JOBS: Jobs = frozenset()


@dataclass(frozen=True, slots=True)
class FoundJobs:
    """The processes below a reaper, without the one that it started."""

    all: Jobs = NO_JOBS
    new: Jobs = NO_JOBS  # those that neither were known before nor have a known parent
    is_complete: bool = True  # False when there were too many to list, or they changed too often

    @property
    def any_new(self) -> bool:
        return bool(self.new) or not self.is_complete


def find_jobs(proc: int, reaper: int, leader: int, known: Jobs = NO_JOBS) -> FoundJobs:
    """List the processes below a reaper. `proc` is a descriptor of the jail's /proc.

    A process that ends hands its children to the reaper, whose list may have been read before that. So that
    none is new counts only when two checks find the same.
    """
    last: dict[int, _Process] | None = None
    for _ in range(MAX_ATTEMPTS):
        try:
            found = _below(proc, reaper)
        except _Changed:
            continue
        if found is None:
            break
        jobs = _jobs_among(found, leader)
        new = frozenset(job for job in jobs if not _has_known_parent(job[0], found, known))
        if found == last or new:
            return FoundJobs(jobs, new)
        last = found
    return FoundJobs(is_complete=False)


def has_jobs(proc: int, reaper: int, leader: int) -> bool:
    """True when a reaper has more below it than the process that it started."""
    return find_jobs(proc, reaper, leader).any_new


def _has_known_parent(pid: int, found: dict[int, _Process], known: Jobs) -> bool:
    """True when a process or one of its parents is known."""
    for _ in found:
        process = found.get(pid)
        if process is None:
            return False
        if (pid, process.started) in known:
            return True
        pid = process.parent
    return False


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


def _jobs_among(found: dict[int, _Process], leader: int) -> Jobs:
    exempt = {leader}
    first = found.get(leader)
    if first is not None and first.foreground != first.group:  # else the leader itself waits for input
        for pid in [pid for pid, each in found.items() if each.group == first.foreground]:
            while pid in found:
                exempt.add(pid)
                pid = found[pid].parent
    return frozenset(
        (pid, each.started) for pid, each in found.items() if each.is_alive and pid not in exempt
    )


def _read_process(proc: int, pid: int) -> _Process:
    fields = read(f"{pid}/stat", dir_fd=proc).rpartition(b")")[2].split()
    if not fields:
        raise _Changed
    return _Process(fields[0] not in b"ZX", int(fields[19]), int(fields[1]), int(fields[2]), int(fields[5]))


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
        self._min_interval_s = min_interval_s  # between two checks
        self._checked_at = 0.0
        self._found = False
        self._timer: asyncio.TimerHandle | None = None

    @property
    def found(self) -> bool:
        """True if the last check has found jobs."""
        return self._found

    def check(self) -> None:
        """Check now or as soon as allowed, and repeatedly until there are no jobs."""
        wait_s = self._checked_at + self._min_interval_s - time.monotonic()
        if wait_s <= 0:
            self.set_found(self._find_jobs())
            return
        self.close()
        self._timer = asyncio.get_running_loop().call_later(wait_s, self.check)

    def set_found(self, found: bool | None, *, is_reported: bool = False) -> None:
        """Note whether there are jobs; check again until there are none. `is_reported`: by the caller."""
        self.close()
        now = time.monotonic()
        self._checked_at = now
        if found is not None and found != self._found:
            self._found = found
            if not is_reported:
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
