"""The protocol below all streams, with an application that only stores its messages."""

import asyncio
import socket as sockets
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
import uvicorn

from hutch.gateway.stream.abortable_uvicorn_protocols import options
from tests.deadline import DEADLINE_S
from tests.gateway.headless_browser import certificate
from tests.gateway.request_filter_server import serving
from tests.gateway.test_invalid_websocket_data import frame

pytestmark = pytest.mark.anyio

HELLO = [
    "GET / HTTP/1.1",
    "Host: localhost",
    "Upgrade: websocket",
    "Connection: Upgrade",
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
    "Sec-WebSocket-Version: 13",
]


class Noting:
    """Accepts every client, answers each message, and records all of them."""

    def __init__(self, *, accept_after_s: float = 0) -> None:
        self.received: list[dict[str, Any]] = []
        self.called, self.over = asyncio.Event(), asyncio.Event()
        self._accept_after_s = accept_after_s

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        await receive()
        self.called.set()
        await asyncio.sleep(self._accept_after_s)
        with suppress(OSError):
            await send({"type": "websocket.accept"})
        while True:
            message = await receive()
            self.received.append(message)
            if message["type"] == "websocket.disconnect":
                self.over.set()
                return
            with suppress(OSError):  # nobody is there any more
                await send({"type": "websocket.send", "bytes": b"received"})


@asynccontextmanager
async def server(app: Any, tls: Path | None = None) -> AsyncIterator[tuple[int, ssl.SSLContext | None]]:
    files, context = {}, None
    if tls:
        cert, key = certificate(tls)
        files = {"ssl_certfile": str(cert), "ssl_keyfile": str(key)}
        context = ssl.create_default_context(cafile=str(cert))
    listener = sockets.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(app, log_config=None, lifespan="off", **options(), **files)
    async with serving(config, listener):
        yield listener.getsockname()[1], context


async def opened(
    port: int, context: ssl.SSLContext | None, *more: str
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
    writer.write("\r\n".join([*HELLO, *more, "", ""]).encode())
    return reader, writer


@pytest.mark.parametrize("tls", [False, True])
async def test_frames_sent_before_a_disconnect_are_all_processed(tmp_path: Path, tls: bool) -> None:
    app = Noting()
    async with server(app, tmp_path / "tls" if tls else None) as (port, context):
        reader, writer = await opened(port, context)
        await reader.readuntil(b"\r\n\r\n")
        messages = [b"%04d" % number + b"." * 150 for number in range(200)]
        writer.write(b"".join(frame(0x82, each) for each in messages) + frame(0x88, b"\x03\xe8"))
        writer.close()
        async with asyncio.timeout(DEADLINE_S):
            await app.over.wait()
    *received, last = app.received
    assert [each["bytes"] for each in received] == messages
    assert last["code"] == 1000


@pytest.mark.parametrize(
    "more", ["Content-Length: 5", "Transfer-Encoding: chunked", "X-Long: " + "x" * 20_000]
)
async def test_a_handshake_that_is_none_is_answered(more: str) -> None:
    async with server(Noting()) as (port, context):
        reader, writer = await opened(port, context, more)
        async with asyncio.timeout(DEADLINE_S):
            assert (await reader.read()).startswith(b"HTTP/1.1 400 ")
        writer.close()


async def test_a_protocol_error_ends_the_connection() -> None:
    app = Noting(accept_after_s=0.3)
    async with server(app) as (port, context):
        reader, writer = await opened(port, context)
        await app.called.wait()
        # Invalid UTF-8, after enough bytes to be decoded later, and before an error could be sent.
        writer.write(frame(0x82, b"x" * 5000) + frame(0x81, b"\xff\xff") + frame(0x82, b"x" * 3000))
        async with asyncio.timeout(DEADLINE_S):
            try:
                while await reader.read(65536):
                    pass
            except ConnectionError:
                pass
            await app.over.wait()
        writer.close()
