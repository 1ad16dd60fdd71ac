"""Sessions of MCP's older protocol, of which there is room for so many.

A client that vanishes says no word, and its session would stand for half an hour. So
whoever comes when all is full takes the place of the one that was idle for longest.
"""

from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import Any

from mcp.server.streamable_http import MCP_SESSION_ID_HEADER

App = Callable[[Any, Any, Any], Awaitable[None]]
SESSION, VERSION = MCP_SESSION_ID_HEADER.lower().encode(), b"mcp-protocol-version"


class Crowd:
    """Passes requests on, and knows which sessions are in use."""

    def __init__(self, app: App, most: int) -> None:
        self._app = app
        self._most = most
        self._busy: OrderedDict[bytes, int] = OrderedDict()  # requests under way; the longest idle first

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        headers = dict(scope["headers"])
        session: bytes | None = headers.get(SESSION)
        if session is None and VERSION not in headers:
            await self._make_room(scope)
        if session is not None and session in self._busy:
            self._busy[session] += 1

        async def told(message: Any) -> None:
            if message["type"] == "http.response.start" and session is None and message["status"] < 400:
                new = dict(message.get("headers") or ()).get(SESSION)
                if new is not None:
                    self._busy[new] = 0
            await send(message)

        try:
            await self._app(scope, receive, told)
        finally:
            if session is not None and session in self._busy:
                self._busy[session] -= 1
                self._busy.move_to_end(session)
                if scope["method"] == "DELETE":
                    del self._busy[session]

    async def _make_room(self, scope: Any) -> None:
        while len(self._busy) >= self._most:
            idle = next((session for session, busy in self._busy.items() if not busy), None)
            if idle is None:
                return  # who comes is told that all is full
            del self._busy[idle]
            kept = [(name, value) for name, value in scope["headers"] if name == b"host"]
            ending = {**scope, "method": "DELETE", "headers": [*kept, (SESSION, idle)]}
            await self._app(ending, _nothing, _unheard)


async def _nothing() -> Any:
    return {"type": "http.request", "body": b"", "more_body": False}


async def _unheard(message: Any) -> None:
    """Nobody waits for this answer."""
