"""The end of a shell's command, and the reports about it: results, chunks of output,
events for the audit.

Most commands end long before their timeout. So one timer serves many waits and is reset
only when it would fire too late; a wait costs neither a timer nor a task of its own.
"""

import asyncio
import math
from collections.abc import Callable
from pathlib import Path
from typing import Literal

from hutch.jail.interface import LimitHit, StreamName
from hutch.jail.output_buffer import NO_OUTPUT, StreamOutput
from hutch.system.lazy_dataclass import dataclass

# Why a shell has ended, where more is known than that.
REPLACED = "the command replaced it"
KILLED = "it was killed"
EXITED = "it ended by itself"
SIGNALLED = "a signal ended it"
SILENT = "it no longer reported the end of a command"


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """A command of a shell that has ended, or continues in the background."""

    exit_code: int | None  # None when the shell ended without reporting, or the command still runs
    signal: int | None = None  # the signal that ended the command's shell, or the command at its timeout
    stdout_output: StreamOutput = NO_OUTPUT
    stderr_output: StreamOutput = NO_OUTPUT
    timed_out: bool = False
    was_silent: bool = False  # at its timeout: it had printed nothing for as long as allowed
    cwd: str = ""  # where the next command will start
    duration_s: float = 0.0
    truncated: bool = False
    output_path: Path | None = None  # both streams in order of arrival, when memory was not enough
    output_cut: bool = False  # the file is incomplete too: there was not enough space
    limit_hit: LimitHit | None = None
    restarted: bool = False  # the next command gets a new shell: same directory and exported variables
    note: str = ""  # the reason, for people and models
    running: bool = False  # it continues in the background
    id: str | None = None  # of the background command, or of what it left running and may still print

    @property
    def stdout_bytes(self) -> bytes:
        """Head and tail, with a line in between that says how much was omitted."""
        return bytes(self.stdout_output)

    @property
    def stderr_bytes(self) -> bytes:
        return bytes(self.stderr_output)

    @property
    def stdout(self) -> str:
        return self.stdout_bytes.decode(errors="replace")

    @property
    def stderr(self) -> str:
        return self.stderr_bytes.decode(errors="replace")


OnEnd = Callable[[str | None], None]  # with the id of later output; None when there will be none


@dataclass(frozen=True, slots=True)
class Chunk:
    """A chunk of output; the last one has the result instead."""

    stream: StreamName | Literal["result"]
    data: bytes = b""
    result: Result | None = None


@dataclass(frozen=True, slots=True)
class CommandStarted:
    """For the audit: a command was sent to a shell."""

    shell: str
    command: str
    cwd: str
    by: str = ""
    call_id: str = ""


@dataclass(frozen=True, slots=True)
class CommandYielded:
    """For the audit: a command took longer than its caller waits, and continues under an id."""

    shell: str
    command: str
    id: str
    by: str = ""
    call_id: str = ""


@dataclass(frozen=True, slots=True)
class CommandEnded:
    """For the audit: a command ended by itself, by a signal or by its timeout."""

    shell: str
    command: str
    cwd: str  # where it started
    exit_code: int | None
    signal: int | None
    timed_out: bool
    duration_s: float
    id: str | None = None  # if it continued in the background
    by: str = ""
    call_id: str = ""


@dataclass(frozen=True, slots=True)
class JobsDetached:
    """For the audit: a command has ended, or is about to, and left processes running."""

    shell: str
    command: str = ""
    by: str = ""
    id: str | None = None  # of their output, if they may print


@dataclass(frozen=True, slots=True)
class JobsEnded:
    """For the audit: no process that commands had left is running any more, or with an `id`: none of one
    command can print any more."""

    shell: str
    id: str | None = None


ShellEvent = CommandStarted | CommandYielded | CommandEnded | JobsDetached | JobsEnded


@dataclass(frozen=True, slots=True)
class Ended:
    """How a command ended."""

    exit_code: int | None
    signal: int | None = None
    lost: str = ""  # why the shell has ended, if it has


class SharedTimer:
    """Wakes the waiters whose timeout has passed, with one timer."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._fires_at = math.inf
        self._timer: asyncio.TimerHandle | None = None
        self._waiters: dict[asyncio.Future[None], float] = {}

    def set(self, waiter: asyncio.Future[None], max_s: float) -> None:
        at = self._waiters[waiter] = self._loop.time() + max_s
        if at < self._fires_at:
            self._fire_at(at)

    def forget(self, waiter: asyncio.Future[None]) -> None:
        """Remove a waiter. The timer stays: the next wait will mostly end later."""
        self._waiters.pop(waiter, None)

    def close(self) -> None:
        if self._timer is not None and not self._waiters:
            self._timer.cancel()
            self._timer, self._fires_at = None, math.inf

    def _fire_at(self, at: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer, self._fires_at = self._loop.call_at(at, self._fire), at

    def _fire(self) -> None:
        due_at = self._fires_at  # the loop may fire early, within its clock's resolution
        self._timer, self._fires_at = None, math.inf
        for waiter, at in self._waiters.items():
            if at <= due_at:
                wake(waiter)
        later = [at for at in self._waiters.values() if at > due_at]
        if later:
            self._fire_at(min(later))


class CommandEnd:
    """The end of one command, for any number of waiters; cancelling one does not affect the others."""

    def __init__(self, loop: asyncio.AbstractEventLoop, shared_timer: SharedTimer) -> None:
        self.ended: Ended | None = None
        self._loop = loop
        self._shared_timer = shared_timer
        self._waiters: list[asyncio.Future[None]] = []

    def set(self, ended: Ended) -> None:
        """Set the end; only the first call counts."""
        if self.ended is None:
            self.ended = ended
            for waiter in self._waiters:
                wake(waiter)

    async def wait(self, max_s: float | None) -> Ended | None:
        """Wait for the end; None after the timeout."""
        if self.ended is None:
            waiter: asyncio.Future[None] = self._loop.create_future()
            self._waiters.append(waiter)
            if max_s is not None:
                self._shared_timer.set(waiter, max_s)
            try:
                await waiter
            finally:
                self._waiters.remove(waiter)
                self._shared_timer.forget(waiter)
        return self.ended


def wake(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)
