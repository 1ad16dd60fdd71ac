"""Opens sandboxes before they are requested.

Starting a jail is the slowest step before a run. It is started as soon as there is a workspace,
while the session is still being recorded as prepared.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import field

import structlog

from hutch.domain.errors import HutchError
from hutch.sessions.sandbox import Sandbox
from hutch.system.lazy_dataclass import dataclass

MAX_UNUSED_S = 60.0
logger = structlog.get_logger()

Opening = AbstractAsyncContextManager[Sandbox]


@dataclass(slots=True)
class WarmPool:
    """Sandboxes that are being opened, by workspace. The first caller gets the sandbox."""

    max_unused_s: float = MAX_UNUSED_S
    _opening: dict[str, tuple[Opening, "asyncio.Task[Sandbox]"]] = field(default_factory=dict)
    _closing: set["asyncio.Task[None]"] = field(default_factory=set)
    _is_closed: bool = False

    def warm(self, workspace_id: str, opening: Opening) -> None:
        """Start to open a sandbox. It is closed again when it is not taken in time."""
        if self._is_closed:
            return
        task = asyncio.ensure_future(opening.__aenter__())
        self._opening[workspace_id] = (opening, task)
        asyncio.get_running_loop().call_later(self.max_unused_s, self._expire, workspace_id, task)

    @asynccontextmanager
    async def take(self, workspace_id: str, otherwise: Callable[[], Opening]) -> AsyncIterator[Sandbox]:
        """The sandbox that is being opened for a workspace, or else a new one."""
        found = self._opening.pop(workspace_id, None)
        if found is None:
            async with otherwise() as sandbox:
                yield sandbox
            return
        opening, task = found
        try:
            sandbox = await task
        except asyncio.CancelledError:
            await asyncio.shield(asyncio.ensure_future(_close(opening, task)))
            raise
        try:
            yield sandbox
        finally:
            await opening.__aexit__(None, None, None)

    async def close(self) -> None:
        """Close the sandboxes that were not taken, and open no more."""
        self._is_closed = True
        unused, self._opening = list(self._opening.values()), {}
        await asyncio.gather(*self._closing, *(_close(opening, task) for opening, task in unused))

    def _expire(self, workspace_id: str, task: "asyncio.Task[Sandbox]") -> None:
        if self._opening.get(workspace_id, (None, None))[1] is task:
            opening, _ = self._opening.pop(workspace_id)
            closing = asyncio.ensure_future(_close(opening, task))
            self._closing.add(closing)
            closing.add_done_callback(self._closing.discard)


async def _close(opening: Opening, task: "asyncio.Task[Sandbox]") -> None:
    """Close a sandbox as soon as it is open."""
    try:
        await task
    except (asyncio.CancelledError, HutchError):  # then there is nothing to close
        return
    try:
        await opening.__aexit__(None, None, None)
    except HutchError as error:
        logger.warning("sandbox.not_closed", problem=str(error))
