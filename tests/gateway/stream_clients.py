"""Clients of streams: SSE as a browser reads it, WebSockets by a library, terminals as on a screen."""

import asyncio
import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from tests.gateway.api_server import TIMEOUT_S, V1, Api


@dataclass
class SseEvent:
    """One event of an SSE stream."""

    kind: str = "message"
    id: int | None = None
    data: Any = None


@dataclass
class Sse:
    """A stream that is being read."""

    lines: AsyncIterator[str]
    comments: list[str] = field(default_factory=list)
    retry_ms: int | None = None

    async def next(self) -> SseEvent | None:
        """The next event; None at the end."""
        async with asyncio.timeout(TIMEOUT_S):
            event = SseEvent()
            async for line in self.lines:
                name, _, value = line.partition(": ")
                if line == "" and event != SseEvent():
                    return event
                if line.startswith(":"):
                    self.comments.append(line[1:].strip())
                elif name == "retry":
                    self.retry_ms = int(value)
                elif name == "id":
                    event.id = int(value)
                elif name == "event":
                    event.kind = value
                elif name == "data":
                    event.data = json.loads(value)
            return None

    async def until(self, kind: str) -> list[SseEvent]:
        """All events up to the first of a kind, with it."""
        found: list[SseEvent] = []
        while not found or found[-1].kind != kind:
            event = await self.next()
            assert event is not None, f"no {kind} after {[each.kind for each in found]}"
            found.append(event)
        return found


@asynccontextmanager
async def sse(api: Api, session_id: str, *, last: int | None = None, **query: Any) -> AsyncIterator[Sse]:
    headers = {} if last is None else {"Last-Event-ID": str(last)}
    path = f"{V1}/sessions/{session_id}/events/stream"
    async with api.stream("GET", path, headers=headers, params=query) as response:
        assert response.status_code == 200, await response.aread()
        assert response.headers["content-type"] == "text/event-stream; charset=utf-8"
        yield Sse(response.aiter_lines())


@asynccontextmanager
async def socket(
    api: Api, path: str, *, headers: dict[str, str] | None = None, **options: Any
) -> AsyncIterator[ClientConnection]:
    """A WebSocket below /api/v1."""
    given = {"Authorization": f"Bearer {api.token}"} if api.token else {}
    url = api.url.replace("http", "ws", 1) + V1 + path
    async with connect(
        url, additional_headers={**given, **(headers or {})}, compression=None, proxy=None, **options
    ) as connection:
        yield connection


async def next_frame(connection: ClientConnection) -> dict[str, Any]:
    """The next text frame."""
    async with asyncio.timeout(TIMEOUT_S):
        return dict(json.loads(await connection.recv()))


async def frames_until(connection: ClientConnection, kind: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    while not found or found[-1]["type"] != kind:
        found.append(await next_frame(connection))
    return found


async def say(connection: ClientConnection, **frame: Any) -> None:
    await connection.send(json.dumps(frame))


async def ended(connection: ClientConnection) -> tuple[int, str]:
    """How it was closed, whatever was sent before."""
    async with asyncio.timeout(TIMEOUT_S):
        try:
            while True:
                await connection.recv()
        except ConnectionClosed as closed:
            return (closed.rcvd.code, closed.rcvd.reason) if closed.rcvd else (1006, "")


class Screen:
    """A person at a terminal over a WebSocket: acknowledges shown output, keeps received messages."""

    def __init__(self, connection: ClientConnection, *, acknowledges: bool = True) -> None:
        self.connection = connection
        self.printed = b""
        self.frames: list[dict[str, Any]] = []
        self._acknowledges = acknowledges
        self._seen = 0
        self._news = asyncio.Event()
        self._task = asyncio.ensure_future(self._follow())

    async def _follow(self) -> None:
        try:
            async for frame in self.connection:
                if isinstance(frame, str):
                    self.frames.append(json.loads(frame))
                else:
                    self.printed += frame
                    if self._acknowledges:
                        await say(self.connection, type="ack", bytes=len(frame))
                self._news.set()
        except ConnectionClosed:
            pass
        finally:
            self._news.set()

    async def type(self, line: str) -> None:
        await self.connection.send(line.encode())

    async def see(self, pattern: str) -> "re.Match[bytes]":
        """Wait for something that was not seen yet."""
        async with asyncio.timeout(TIMEOUT_S):
            while not (found := re.search(pattern.encode(), self.printed[self._seen :], re.S)):
                self._news.clear()
                assert not self._task.done(), f"{pattern} is not in {self.printed[self._seen :][-500:]!r}"
                await self._news.wait()
            self._seen += found.end()
            return found

    async def receive(self, kind: str) -> dict[str, Any]:
        """The oldest frame of a kind that was not received yet."""
        async with asyncio.timeout(TIMEOUT_S):
            while True:
                for frame in self.frames:
                    if frame["type"] == kind:
                        self.frames.remove(frame)
                        return frame
                self._news.clear()
                assert not self._task.done(), f"no {kind} in {self.frames}"
                await self._news.wait()

    async def closed(self) -> tuple[int, str]:
        async with asyncio.timeout(TIMEOUT_S):
            await self._task
            await self.connection.wait_closed()
        return self.connection.close_code or 0, self.connection.close_reason or ""


@asynccontextmanager
async def screen(
    api: Api, session_id: str, terminal: str, query: str = "", *, acknowledges: bool = True
) -> AsyncIterator[Screen]:
    path = f"/sessions/{session_id}/terminals/{terminal}/socket{query}"
    async with socket(api, path) as connection:
        yield Screen(connection, acknowledges=acknowledges)
