"""Desks that are opened before somebody asks for them, since it is known that they will.

A jail takes longer to start than all else before a run. It is started as soon as there
is a workspace, while what was made is still being written down.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field

import structlog

from hutch.domain.errors import HutchError
from hutch.sessions.desk import Desk

PATIENCE_S = 60.0  # after which nobody comes for it any more
logger = structlog.get_logger()

Opening = AbstractAsyncContextManager[Desk]


@dataclass(slots=True)
class Ahead:
    """What was begun, by workspace; whoever asks first gets it."""

    patience_s: float = PATIENCE_S
    _begun: dict[str, tuple[Opening, "asyncio.Task[Desk]"]] = field(default_factory=dict)
    _closing: set["asyncio.Task[None]"] = field(default_factory=set)

    def begin(self, workspace_id: str, opening: Opening) -> None:
        """Open a desk, for who comes soon; else it is closed again."""
        task = asyncio.ensure_future(opening.__aenter__())
        self._begun[workspace_id] = (opening, task)
        asyncio.get_running_loop().call_later(self.patience_s, self._give_up, workspace_id, task)

    @asynccontextmanager
    async def desk(self, workspace_id: str, otherwise: Callable[[], Opening]) -> AsyncIterator[Desk]:
        """The desk that was begun, or another."""
        found = self._begun.pop(workspace_id, None)
        if found is None:
            async with otherwise() as desk:
                yield desk
            return
        opening, task = found
        try:
            desk = await task
        except asyncio.CancelledError:
            await asyncio.shield(asyncio.ensure_future(_closed(opening, task)))
            raise
        try:
            yield desk
        finally:
            await opening.__aexit__(None, None, None)

    async def close(self) -> None:
        """Close what nobody came for."""
        begun, self._begun = list(self._begun.values()), {}
        await asyncio.gather(*self._closing, *(_closed(opening, task) for opening, task in begun))

    def _give_up(self, workspace_id: str, task: "asyncio.Task[Desk]") -> None:
        if self._begun.get(workspace_id, (None, None))[1] is task:
            opening, _ = self._begun.pop(workspace_id)
            closing = asyncio.ensure_future(_closed(opening, task))
            self._closing.add(closing)
            closing.add_done_callback(self._closing.discard)


async def _closed(opening: Opening, task: "asyncio.Task[Desk]") -> None:
    """Let it open, and close it."""
    try:
        await task
    except (asyncio.CancelledError, HutchError):  # then there is nothing to close
        return
    try:
        await opening.__aexit__(None, None, None)
    except HutchError as error:
        logger.warning("desk.not_closed", problem=str(error))
