"""A local server that plays a provider's responses and stores the requests."""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Literal

REASONS = {200: "OK", 429: "Too Many Requests"}


@dataclass(frozen=True)
class Act:
    """One answer. `cut` drops the connection, `stall` stops sending, `silent` sends nothing at all."""

    chunks: Sequence[bytes] = ()
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    ending: Literal["whole", "cut", "stall", "silent", "raw"] = "whole"
    type: str = "text/event-stream"


@dataclass(frozen=True)
class ReceivedRequest:
    """One received request."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: Any
    text: bytes = b""


def event(data: object, name: str | None = None) -> bytes:
    """A server-sent event."""
    text = data if isinstance(data, str) else json.dumps(data)
    return (f"event: {name}\n" if name else "").encode() + f"data: {text}\n\n".encode()


def answer(status: int, body: object, **headers: str) -> Act:
    """An answer other than a stream."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    text = body if isinstance(body, bytes) else json.dumps(body).encode()
    return Act([text], status, named, type="application/json" if not isinstance(body, bytes) else "text/html")


class Wire:
    """Plays acts in turn; GET requests are answered with `lists`."""

    def __init__(self, *acts: Act, lists: Mapping[str, object] | None = None) -> None:
        self.acts = list(acts)
        self.lists = lists or {}
        self.requests: list[ReceivedRequest] = []
        self.sent = asyncio.Event()  # an act has sent everything
        self.gone = asyncio.Event()  # the client hung up on an act
        self.url = ""
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def bodies(self) -> list[Any]:
        return [request.body for request in self.requests if request.method == "POST"]

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task
        self._tasks.add(task)
        with suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            while await self._answer(reader, writer):
                pass
        writer.transport.abort()
        self._tasks.discard(task)

    async def stop(self) -> None:
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        request = await _read(reader)
        if request is None:
            return False
        self.requests.append(request)
        act = self._act(request)
        if act.ending != "silent":
            await _write(writer, act)
        self.sent.set()
        if act.ending in ("stall", "silent"):
            if not await reader.read(1):
                self.gone.set()
            return False
        return act.ending == "whole"

    def _act(self, request: ReceivedRequest) -> Act:
        if request.method == "GET":
            path = request.path.partition("?")[0]
            found = self.lists.get(path)
            return (
                answer(404, {"error": {"message": "nothing here"}}) if found is None else answer(200, found)
            )
        return self.acts.pop(0) if self.acts else answer(418, {"error": {"message": "The play is over."}})


@asynccontextmanager
async def playing(
    *acts: Act, lists: Mapping[str, object] | None = None, kind: type[Wire] = Wire
) -> AsyncIterator[Wire]:
    wire = kind(*acts, lists=lists)
    server = await asyncio.start_server(wire.serve, "127.0.0.1", 0)
    wire.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield wire
    finally:
        server.close()
        await wire.stop()


async def _read(reader: asyncio.StreamReader) -> ReceivedRequest | None:
    try:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
    except asyncio.IncompleteReadError:
        return None
    first, *lines = head.strip().split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    text = await reader.readexactly(int(headers.get("content-length", 0)))
    method, path, _ = first.split(" ")
    return ReceivedRequest(method, path, headers, json.loads(text) if text else None, text)


async def _write(writer: asyncio.StreamWriter, act: Act) -> None:
    if act.ending == "raw":
        writer.write(b"".join(act.chunks))
        await writer.drain()
        return
    headers = {"Content-Type": act.type, "Transfer-Encoding": "chunked", **act.headers}
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    writer.write(f"HTTP/1.1 {act.status} {REASONS.get(act.status, 'Some')}\r\n{lines}\r\n".encode())
    for chunk in act.chunks:
        writer.write(f"{len(chunk):x}\r\n".encode() + chunk + b"\r\n")
        await writer.drain()
    if act.ending == "whole":
        writer.write(b"0\r\n\r\n")
    await writer.drain()
