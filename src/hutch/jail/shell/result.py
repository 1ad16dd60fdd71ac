"""The end of a shell's command, and the reports about it: results, pieces of output, events for the audit.

Most commands end long before anybody loses patience. So there is one timer for
many waits, set anew only when it would ring too late, and a wait costs neither
a timer nor a task of its own.
"""

import asyncio
import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from hutch.jail.interface import LimitHit, StreamName
from hutch.jail.stream_output import AROUND_BYTES, NO_OUTPUT, StreamOutput

# Why a shell is not there any more, where there is more to say than that.
REPLACED = "the command replaced it"
KILLED = "it was killed"
LEFT = "it ended by itself"
SIGNALLED = "a signal ended it"


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """A command of a shell that has ended, or goes on in the background."""

    exit_code: int | None  # None when the shell did not live to tell, or the command still runs
    signal: int | None = None  # that ended the command's shell, or the command at its timeout
    stdout_output: StreamOutput = NO_OUTPUT
    stderr_output: StreamOutput = NO_OUTPUT
    timed_out: bool = False
    cwd: str = ""  # where the next command will start
    duration_s: float = 0.0
    truncated: bool = False
    output_path: Path | None = None  # both streams as they came, when memory was not enough
    output_cut: bool = False  # there was not enough room for all of it there either
    limit_hit: LimitHit | None = None
    restarted: bool = False  # the next command gets a new shell: same directory and exported variables
    note: str = ""  # why, for people and models
    running: bool = False  # it goes on in the background
    id: str | None = None  # under which it does

    @property
    def stdout_bytes(self) -> bytes:
        """Head and tail, with a line between that tells what was left out."""
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


@dataclass(frozen=True, slots=True)
class Lost:
    """Output that was not kept."""

    total_bytes: int = 0
    end: bytes = b""  # the last of it: not to be shown, but to understand what follows

    def more(self, data: bytes) -> "Lost":
        return Lost(self.total_bytes + len(data), (self.end + data)[-AROUND_BYTES:])


OnLost = Callable[[StreamName, Lost], None]


@dataclass(frozen=True, slots=True)
class Chunk:
    """A piece of output as it came; the last one has none, but the result."""

    stream: StreamName | Literal["result"]
    data: bytes = b""
    result: Result | None = None


@dataclass(frozen=True, slots=True)
class CommandStarted:
    """For the audit: a command was given to a shell."""

    shell: str
    command: str
    cwd: str


@dataclass(frozen=True, slots=True)
class CommandYielded:
    """For the audit: it took longer than its caller would wait, and goes on under an id."""

    shell: str
    command: str
    id: str


@dataclass(frozen=True, slots=True)
class CommandEnded:
    """For the audit: it ended by itself, by a signal or by its timeout."""

    shell: str
    command: str
    cwd: str  # where it began
    exit_code: int | None
    signal: int | None
    timed_out: bool
    duration_s: float
    id: str | None = None  # if it had gone on in the background


@dataclass(frozen=True, slots=True)
class JobsLeft:
    """For the audit: a command has ended, or is about to, and something that it started goes on."""

    shell: str


@dataclass(frozen=True, slots=True)
class JobsEnded:
    """For the audit: nothing goes on any more that commands had left."""

    shell: str


ShellEvent = CommandStarted | CommandYielded | CommandEnded | JobsLeft | JobsEnded


@dataclass(frozen=True, slots=True)
class Ended:
    """How a command came to its end."""

    exit_code: int | None
    signal: int | None = None
    lost: str = ""  # why the shell is not there any more, if it is not


class Alarm:
    """Wakes those whose time is over."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._rings_at = math.inf
        self._timer: asyncio.TimerHandle | None = None
        self._waiters: dict[asyncio.Future[None], float] = {}

    def set(self, waiter: asyncio.Future[None], most_s: float) -> None:
        at = self._waiters[waiter] = self._loop.time() + most_s
        if at < self._rings_at:
            self._ring_at(at)

    def forget(self, waiter: asyncio.Future[None]) -> None:
        """It has been woken, or waits no more. The timer stays: the next wait will mostly end later."""
        self._waiters.pop(waiter, None)

    def close(self) -> None:
        if self._timer is not None and not self._waiters:
            self._timer.cancel()
            self._timer, self._rings_at = None, math.inf

    def _ring_at(self, at: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer, self._rings_at = self._loop.call_at(at, self._ring), at

    def _ring(self) -> None:
        late = self._rings_at  # the loop rings within its clock's resolution, be it a little early
        self._timer, self._rings_at = None, math.inf
        for waiter, at in self._waiters.items():
            if at <= late:
                wake(waiter)
        later = [at for at in self._waiters.values() if at > late]
        if later:
            self._ring_at(min(later))


class Ending:
    """The end of one command, for any number who wait; one who is cancelled waiting cancels nobody else."""

    def __init__(self, loop: asyncio.AbstractEventLoop, alarm: Alarm) -> None:
        self.ended: Ended | None = None
        self._loop = loop
        self._alarm = alarm
        self._waiters: list[asyncio.Future[None]] = []

    def set(self, ended: Ended) -> None:
        """Only the first word counts."""
        if self.ended is None:
            self.ended = ended
            for waiter in self._waiters:
                wake(waiter)

    async def until(self, most_s: float | None) -> Ended | None:
        """The end, or None when it takes too long."""
        if self.ended is None:
            waiter: asyncio.Future[None] = self._loop.create_future()
            self._waiters.append(waiter)
            if most_s is not None:
                self._alarm.set(waiter, most_s)
            try:
                await waiter
            finally:
                self._waiters.remove(waiter)
                self._alarm.forget(waiter)
        return self.ended


def wake(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)
