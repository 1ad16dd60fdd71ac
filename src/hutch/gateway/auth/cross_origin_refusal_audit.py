"""Audit rows for refused cross-site requests, limited in number.

A few rows per address are written each minute. Further refusals are counted, and the
count is written when the minute has passed.
"""

import asyncio
from collections.abc import Awaitable, Callable

import structlog

from hutch.flows.user_accounts import Actor
from hutch.system.lazy_dataclass import dataclass

MAX_ROWS_PER_MINUTE = 5  # of one address, in a minute
WINDOW_S = 60.0
MAX_ADDRESSES = 256  # at one time; further addresses are counted together
OTHERS = "other addresses"
ACTION = "request.refused"

Note = Callable[[Actor, str, str, str], Awaitable[None]]  # actor, action, object and detail
logger = structlog.get_logger()


@dataclass(slots=True)
class _Window:
    """The refusals of one address in the present minute."""

    actor: Actor
    timer: asyncio.TimerHandle
    count: int = 0


class RefusalAudit:
    """Records refusals in the background."""

    def __init__(self, note: Note, *, window_s: float = WINDOW_S) -> None:
        self._note = note
        self._window_s = window_s
        self._windows: dict[str, _Window] = {}
        self._writing: set[asyncio.Task[None]] = set()

    def add(self, key: str, actor: Actor, path: str, why: str) -> None:
        """Record one refusal; `key` is the address or its network."""
        if key not in self._windows and len(self._windows) >= MAX_ADDRESSES:
            key, actor = OTHERS, Actor(address=OTHERS)
        window = self._windows.get(key)
        if window is None:
            timer = asyncio.get_running_loop().call_later(self._window_s, self._end, key)
            window = self._windows[key] = _Window(actor, timer)
        window.count += 1
        if window.count <= MAX_ROWS_PER_MINUTE:
            self._write(actor, path, why)

    async def close(self) -> None:
        """Write all pending rows and counts."""
        for key in list(self._windows):
            self._windows[key].timer.cancel()
            self._end(key)
        if self._writing:
            await asyncio.wait(self._writing)

    def _end(self, key: str) -> None:
        window = self._windows.pop(key)
        if window.count > MAX_ROWS_PER_MINUTE:
            self._write(
                Actor(address=window.actor.address), "", f"and {window.count - MAX_ROWS_PER_MINUTE} more"
            )

    def _write(self, actor: Actor, path: str, why: str) -> None:
        task = asyncio.get_running_loop().create_task(self._write_row(actor, path, why))
        self._writing.add(task)
        task.add_done_callback(self._writing.discard)

    async def _write_row(self, actor: Actor, path: str, why: str) -> None:
        try:
            await self._note(actor, ACTION, path, why)
        except Exception as error:  # noqa: BLE001  the request was refused regardless
            logger.warning("refusal.not_noted", problem=str(error))
