"""MCP at /mcp of the server, with the same tokens as everything else.

The library takes a second to load, and many servers need it never. The first request
loads it in a thread.
"""

import asyncio
from contextlib import suppress
from typing import Any

from starlette.requests import HTTPConnection
from starlette.types import Receive, Scope, Send

from hutch.gateway.auth.caller_dependency import authenticator_of
from hutch.gateway.gateway_context import Server

PATH = "/mcp"


class McpMount:
    """The route, as plain ASGI."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._manager: Any = None
        self._running: asyncio.Task[None] | None = None
        self._ready: asyncio.Future[Any] | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        caller = await authenticator_of(HTTPConnection(scope)).recognise(scope)
        caller.need("read")
        if self._ready is None:
            self._ready = asyncio.get_running_loop().create_future()
            self._running = asyncio.ensure_future(self._run(self._ready))
        manager = await asyncio.shield(self._ready)
        await manager.handle_request({**scope, "hutch.caller": caller}, receive, send)

    async def close(self) -> None:
        """End all calls in progress."""
        if self._running is not None:
            self._running.cancel()
            with suppress(asyncio.CancelledError):
                await self._running

    async def _run(self, ready: "asyncio.Future[Any]") -> None:
        """Hold the task group of all calls: the task that enters it must also leave it."""
        try:
            manager = (await asyncio.to_thread(_load))(self._server)
            async with manager.run():
                ready.set_result(manager)
                await asyncio.Event().wait()
        except Exception as error:
            if ready.done():
                raise
            ready.set_exception(error)


def _load() -> Any:
    from hutch.gateway.mcp import all_sessions_server

    return all_sessions_server.make_manager
