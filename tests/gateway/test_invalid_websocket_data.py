"""Invalid and excessive WebSocket data."""

import asyncio
import hashlib
import json
import random
import socket as sockets
import struct
from pathlib import Path

import pytest

from hutch.gateway.stream.abortable_uvicorn_protocols import TURN_BYTES
from tests.deadline import DEADLINE_S
from tests.gateway.api_server import V1, Api, serving
from tests.gateway.stream_clients import screen

pytestmark = pytest.mark.anyio

MASK = bytes(4)


def frame(first: int, data: bytes, *, masked: bool = True, length: int | None = None) -> bytes:
    size = len(data) if length is None else length
    bit = 0x80 if masked else 0
    if size < 126:
        head = bytes([first, bit | size])
    elif size < 65536:
        head = struct.pack("!BBH", first, bit | 126, size)
    else:
        head = struct.pack("!BBQ", first, bit | 127, size)
    return head + (MASK if masked else b"") + data


WRONG = {
    "not masked": frame(0x82, b"x", masked=False),
    "reserved bits": frame(0xF2, b"x"),
    "unknown opcode": frame(0x83, b"x"),
    "a part of nothing": frame(0x80, b"x"),
    "a long ping": frame(0x89, b"x" * 126),
    "a ping in parts": frame(0x09, b"x"),
    "a huge length": frame(0x82, b"", length=2**63 - 1),
    "an impossible length": b"\x82\xff" + b"\xff" * 8 + MASK,
    "half a close": frame(0x88, b"\x03"),
    "a close that is none": frame(0x88, struct.pack("!H", 1005)),
    "no utf-8": frame(0x81, b"\xff\xff"),
    "parts that are too much": frame(0x02, b"x" * 600_000) + frame(0x80, b"x" * 600_000),
    "parts without end": frame(0x02, b"") + frame(0x00, b"") * 5000,
    "noise": random.Random(5).randbytes(5000),  # the same each time: other noise may be half a frame
    "http again": b"GET / HTTP/1.1\r\n\r\n" * 50,
}


async def raw(api: Api, path: str) -> sockets.socket:
    """A connection on which a WebSocket was agreed on, and nothing else."""
    loop = asyncio.get_running_loop()
    connection = sockets.socket()
    connection.setblocking(False)
    await loop.sock_connect(connection, (api.base_url.host, api.base_url.port))
    lines = [
        f"GET {V1}{path} HTTP/1.1",
        f"Host: {api.base_url.netloc.decode()}",
        f"Authorization: Bearer {api.token}",
        "Upgrade: websocket",
        "Connection: Upgrade",
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
        "Sec-WebSocket-Version: 13",
    ]
    await loop.sock_sendall(connection, "\r\n".join([*lines, "", ""]).encode())
    answer = b""
    while b"\r\n\r\n" not in answer:
        answer += await loop.sock_recv(connection, 1)
    assert answer.startswith(b"HTTP/1.1 101 "), answer
    return connection


async def test_a_terminal_outlives_whatever_is_sent(tmp_path: Path) -> None:
    async with serving(tmp_path) as api:
        loop = asyncio.get_running_loop()
        session_id = await api.ready_session(purpose="wire")
        terminal = (await api.post(f"{V1}/sessions/{session_id}/terminals", json={})).json()["id"]
        for name, data in WRONG.items():
            with await raw(api, f"/sessions/{session_id}/terminals/{terminal}/socket") as connection:
                await loop.sock_sendall(connection, data)
                async with asyncio.timeout(DEADLINE_S):
                    try:
                        while await loop.sock_recv(connection, 65536):
                            pass
                    except ConnectionResetError:
                        name = f"{name}, cut off"
        async with screen(api, session_id, terminal) as mine:
            await mine.type("echo alive-$((1 + 1))\n")
            await mine.see(r"alive-2\r\n")


async def test_a_client_that_pings_and_does_not_read_is_not_read(tmp_path: Path) -> None:
    async with serving(tmp_path) as api:
        loop = asyncio.get_running_loop()
        session_id = await api.ready_session(purpose="wire")
        before = _resident_bytes()
        with await raw(api, f"/sessions/{session_id}/events/socket") as connection:
            pings = frame(0x89, b"x" * 125) * 8000  # a megabyte
            sent = 0
            try:
                async with asyncio.timeout(5):
                    while sent < 200:
                        await loop.sock_sendall(connection, pings)
                        sent += 1
            except TimeoutError:
                pass
            assert sent < 100  # the rest waits on its side
            assert _resident_bytes() - before < 40_000_000
        answer = await api.get(f"{V1}/sessions/{session_id}")
        assert json.loads(answer.text)["id"] == session_id


@pytest.mark.parametrize("small", [frame(0x89, b""), frame(0x82, b""), frame(0x82, b"x"), frame(0x81, b"{}")])
async def test_many_small_messages_do_not_block_other_clients(tmp_path: Path, small: bytes) -> None:
    async with serving(tmp_path) as api:
        loop = asyncio.get_running_loop()
        session_id = await api.ready_session(purpose="wire")
        terminal = (await api.post(f"{V1}/sessions/{session_id}/terminals", json={})).json()["id"]
        with await raw(api, f"/sessions/{session_id}/terminals/{terminal}/socket") as connection:
            turns = 0

            def count() -> None:
                nonlocal turns
                turns += 1
                loop.call_soon(count)

            last = frame(0x81, b'{"type":"ping"}')
            data = small * (100_000 // len(small)) + last
            sending = asyncio.ensure_future(loop.sock_sendall(connection, data))
            count()
            answer = b""
            async with asyncio.timeout(DEADLINE_S):
                while b'"pong"' not in answer:
                    answer = answer[-100:] + await loop.sock_recv(connection, 65536)
            await sending
            assert turns >= len(data) // TURN_BYTES  # the server runs in this loop


async def test_a_message_parsed_in_parts_arrives_whole_and_in_order(tmp_path: Path) -> None:
    async with serving(tmp_path) as api:
        session_id = await api.ready_session(purpose="wire")
        terminal = (await api.post(f"{V1}/sessions/{session_id}/terminals", json={})).json()["id"]
        async with screen(api, session_id, terminal) as mine:
            await mine.type("stty -echo; echo now; cat > typed; sha256sum typed\n")
            await mine.see(r"now\r\n")
            text = "".join(f"{number:07}\n" for number in range(7500))  # 60 KB in one frame
            await mine.type(text)
            await mine.type(text[:8000])
            await mine.type("\x04")
            await mine.see(hashlib.sha256((text + text[:8000]).encode()).hexdigest())


def _resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096
