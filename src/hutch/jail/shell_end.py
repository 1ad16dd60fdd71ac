"""How a command of a shell came to its end, and the wait for it.

Most commands end long before anybody loses patience. So there is one timer for
many waits, set anew only when it would ring too late, and a wait costs neither
a timer nor a task of its own.
"""

import asyncio
import math
from dataclasses import dataclass

# Why a shell is not there any more, where there is more to say than that.
REPLACED = "the command replaced it"
KILLED = "it was killed"
LEFT = "it ended by itself"
SIGNALLED = "a signal ended it"


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
