"""What was refused because a page of somebody else sent it, in the audit, without a flood of rows.

Of one address a few are written each minute; the rest are counted, and the count is
written when the minute is over.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import structlog

from hutch.flows.users import Actor

WRITTEN = 5  # of one address, in a minute
MINUTE_S = 60.0
MAX_ADDRESSES = 256  # at one time; what comes from others is counted together
OTHERS = "other addresses"
ACTION = "request.refused"

Note = Callable[[Actor, str, str, str], Awaitable[None]]  # who, what was done, to what, and how
logger = structlog.get_logger()


@dataclass(slots=True)
class _Minute:
    """What came from an address since the first of it."""

    actor: Actor
    over: asyncio.TimerHandle
    count: int = 0


class Refusals:
    """Notes what was refused, and never holds up who refuses."""

    def __init__(self, note: Note, *, minute_s: float = MINUTE_S) -> None:
        self._note = note
        self._minute_s = minute_s
        self._minutes: dict[str, _Minute] = {}
        self._writing: set[asyncio.Task[None]] = set()

    def add(self, key: str, actor: Actor, path: str, why: str) -> None:
        """One more; `key` stands for the address, or for the network that it is in."""
        if key not in self._minutes and len(self._minutes) >= MAX_ADDRESSES:
            key, actor = OTHERS, Actor(address=OTHERS)
        minute = self._minutes.get(key)
        if minute is None:
            over = asyncio.get_running_loop().call_later(self._minute_s, self._end, key)
            minute = self._minutes[key] = _Minute(actor, over)
        minute.count += 1
        if minute.count <= WRITTEN:
            self._write(actor, path, why)

    async def close(self) -> None:
        """Write what was counted."""
        for key in list(self._minutes):
            self._minutes[key].over.cancel()
            self._end(key)
        if self._writing:
            await asyncio.wait(self._writing)

    def _end(self, key: str) -> None:
        minute = self._minutes.pop(key)
        if minute.count > WRITTEN:
            self._write(Actor(address=minute.actor.address), "", f"and {minute.count - WRITTEN} more")

    def _write(self, actor: Actor, path: str, why: str) -> None:
        task = asyncio.get_running_loop().create_task(self._written(actor, path, why))
        self._writing.add(task)
        task.add_done_callback(self._writing.discard)

    async def _written(self, actor: Actor, path: str, why: str) -> None:
        try:
            await self._note(actor, ACTION, path, why)
        except Exception as error:  # noqa: BLE001  it was refused all the same
            logger.warning("refusal.not_noted", problem=str(error))
