"""Tells whether the processes of commands have run, by the clocks that the kernel keeps for every thread.

A process that did not run has changed no file. The clock of a sleeping thread is exact, and counts its
time and how often it ran. That of a running one may be late, so a running thread has always run. Every
process that a command ever started is below its reaper, wherever it moved (`leftover_job_detection.py`).
"""

import os
from collections.abc import Callable, Iterable

from hutch.jail.command_process import Command
from hutch.jail.jail_processes import read

MAX_THREADS = 64  # of one command that are followed; a larger one always counts as running
DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
RUNNING = b"R"
Clocks = dict[str, bytes]  # by the path of the thread in /proc
FindCommands = Callable[[], Iterable[Command]]


class RunClock:
    """Follows all processes of some commands, which may change meanwhile.

    With `jobs_only`, the commands are shells, and only the jobs that they have count: neither the shell
    itself nor what it starts later, until `renew` is called.
    """

    def __init__(self, find_commands: FindCommands, *, jobs_only: bool = False) -> None:
        self._find_commands = find_commands
        self._jobs_only = jobs_only
        self._trees: dict[Command, _ProcessTree] = {}
        self._has_run = True

    def renew(self, *, has_run: bool) -> None:
        """Find the jobs anew at the next call, because the shell may have started more. `has_run` says
        whether these count already."""
        self._has_run |= has_run
        for tree in self._trees.values():
            tree.is_outdated = True

    def has_run(self) -> bool:
        """True if a process may have run since the last call, and for the first one. Blocks briefly."""
        commands = [command for command in self._find_commands() if not command.is_gone]
        has_run = self._has_run or not commands or self._trees.keys() != set(commands)
        self._has_run = False
        trees = {
            command: self._trees.get(command) or _ProcessTree(command, jobs_only=self._jobs_only)
            for command in commands
        }
        self._trees = trees
        results = [tree.has_run() for tree in trees.values()]  # each must be read
        return has_run or any(results)


class _ProcessTree:
    """The threads of one command."""

    def __init__(self, command: Command, *, jobs_only: bool) -> None:
        self._command = command
        self._jobs_only = jobs_only
        self._clocks: Clocks | None = None  # None: not all are known, or some are running
        self.is_outdated = False

    def has_run(self) -> bool:
        is_same = self._clocks is not None and all(
            _read_clock(self._command.proc, thread) == clock for thread, clock in self._clocks.items()
        )
        if not is_same or self.is_outdated:
            self._clocks, self.is_outdated = self._read_all(), False
        return not is_same

    def _read_all(self) -> Clocks | None:
        """The clocks of all threads; None if some are running, or not all can be found.

        Only if a second search finds the same, the first has missed none that started or moved meanwhile.
        """
        found = self._find_threads()
        is_whole = found is not None and all(found.values()) and found == self._find_threads()
        return found if is_whole else None

    def _find_threads(self) -> Clocks | None:
        proc, reaper, leader = self._command.proc, self._command.reaper, f"{self._command.pid}/"
        if not reaper or self._command.pid is None:
            return None
        found: Clocks = {}
        pending = _children(proc, f"{reaper}/task/{reaper}")
        while pending:
            for thread in _threads(proc, pending.pop()):
                if not (self._jobs_only and thread.startswith(leader)):
                    found[thread] = _read_clock(proc, thread)
                if len(found) > MAX_THREADS:
                    return None
                pending += _children(proc, thread)
        return found if found or self._jobs_only else None


def _children(proc: int, thread: str) -> list[int]:
    return [int(pid) for pid in read(f"{thread}/children", dir_fd=proc).split()]


def _threads(proc: int, pid: int) -> list[str]:
    try:
        fd = os.open(f"{pid}/task", DIRECTORY, dir_fd=proc)
    except OSError:
        return [f"{pid}/task/{pid}"]  # it has ended, so that its clock cannot be read
    try:
        return [f"{pid}/task/{name}" for name in os.listdir(fd)]  # noqa: PTH208
    except OSError:
        return [f"{pid}/task/{pid}"]
    finally:
        os.close(fd)


def _read_clock(proc: int, thread: str) -> bytes:
    """The clock of a thread that does not run; empty if it runs, has ended, or has no clock."""
    # The state first: a thread that wakes up in between has another clock when it sleeps again.
    state = read(f"{thread}/stat", dir_fd=proc).rpartition(b") ")[2][:1]
    if not state or state == RUNNING:
        return b""
    return read(f"{thread}/schedstat", dir_fd=proc)
