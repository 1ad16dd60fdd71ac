"""How a command of a shell came to its end, and the wait for it."""

import asyncio
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Ended:
    """How a command came to its end."""

    exit_code: int | None
    signal: int | None = None
    lost: str = ""  # why the shell is not there any more, if it is not


class Ending(asyncio.Future[Ended]):
    """The end of a command. Whoever waits by `until` hears of it one round of the loop earlier than by a
    callback, and may be cancelled without cancelling it."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(loop=loop)
        self._waiters: set[asyncio.Future[None]] = set()

    def set_result(self, result: Ended) -> None:
        super().set_result(result)
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)

    async def until(self, most_s: float | None) -> Ended | None:
        """The end, or None when it takes too long."""
        if not self.done():
            loop = self.get_loop()
            waiter: asyncio.Future[None] = loop.create_future()
            self._waiters.add(waiter)
            timer = loop.call_later(most_s, _wake, waiter) if most_s is not None else None
            try:
                await waiter
            finally:
                self._waiters.discard(waiter)
                if timer is not None:
                    timer.cancel()
        return self.result() if self.done() else None


def _wake(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)
