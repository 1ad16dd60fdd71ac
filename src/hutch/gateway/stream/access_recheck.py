"""Checks again whether a client has access, after a change that may have taken it away.

Until the check is done, nothing is sent to the client and nothing is taken from it.
"""

import asyncio
from collections.abc import Awaitable, Callable

from hutch.system.task_cancellation import cancel_and_wait


class AccessConfirmation:
    """The checks of one stream. `renew` reads the client's access; if it returns False, the stream ends."""

    def __init__(self, renew: Callable[[], Awaitable[bool]]) -> None:
        self._renew = renew
        self._changes = self._confirmed = 0
        self._checking: asyncio.Task[None] | None = None
        self._is_lost = False

    @property
    def is_confirmed(self) -> bool:
        return self._changes == self._confirmed

    def changed(self) -> None:
        """Start a check, which sees this change."""
        self._changes += 1
        if self._checking is None or self._checking.done():
            self._checking = asyncio.ensure_future(self._check())

    async def wait(self) -> None:
        """Wait for the check, if one is needed."""
        while not (self.is_confirmed or self._is_lost) and self._checking is not None:
            await asyncio.shield(self._checking)

    async def stop(self) -> None:
        if self._checking is not None:
            await cancel_and_wait(self._checking)

    async def _check(self) -> None:
        while not (self.is_confirmed or self._is_lost):
            changes = self._changes  # there may be more meanwhile
            if await self._renew():
                self._confirmed = changes
            else:
                self._is_lost = True
