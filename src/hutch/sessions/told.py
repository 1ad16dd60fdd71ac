"""What the jail reports of commands and connections, on its way into the log.

It is written with the next event of its session, whoever writes that, or else by
itself after a moment.
"""

import asyncio
from collections.abc import Awaitable, Callable

import structlog

from hutch.domain.errors import HutchError
from hutch.domain.events import Event

DELAY_S = 0.02
logger = structlog.get_logger()


class Told(list[Event]):
    """Reported events; whoever writes to the log takes them along."""

    def __init__(self) -> None:
        super().__init__()
        self.write: Callable[[], Awaitable[object]] | None = None  # writes what is here
        self._writing: asyncio.Task[None] | None = None

    def report(self, event: Event) -> None:
        """Add an event, and see to it that it is written soon."""
        self.append(event)
        if self.write is not None and (self._writing is None or self._writing.done()):
            self._writing = asyncio.ensure_future(self._write_soon(self.write))

    async def settle(self) -> None:
        """Wait for what is being written."""
        if self._writing is not None:
            await asyncio.wait([self._writing])

    async def _write_soon(self, write: Callable[[], Awaitable[object]]) -> None:
        await asyncio.sleep(DELAY_S)
        try:
            await write()
        except HutchError as error:  # the log keeps it until it can be written, unless the session is over
            logger.warning("session.report_not_written", error=str(error))
