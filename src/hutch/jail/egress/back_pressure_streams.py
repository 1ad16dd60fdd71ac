"""The two connections of one exchange, as streams with back-pressure.

Writers buffer nothing: `write` returns when the kernel has all data. A reader has one buffer,
which every receive uses again: a proxy that allocated memory for each chunk would need three
times the processor time, and installing packages would wait for it. So memory is bounded by one
chunk in each direction, and the slower side sets the pace.
"""

import asyncio
import contextlib
import socket
import struct
from collections.abc import Coroutine
from typing import Any, cast

from hutch.domain.errors import LimitReached

MAX_READ_BYTES = 256 * 1024
LINGER_S = 1.0
LINGER_BYTES = 1024 * 1024


class _Connection(asyncio.BufferedProtocol):
    """Receives into one buffer, and waits for the kernel to take what is sent."""

    transport: asyncio.Transport

    def __init__(self) -> None:
        self._buffer = memoryview(bytearray(MAX_READ_BYTES))
        self._received = self._buffer[:0]  # what nobody has read yet
        self._is_over = False  # the other end sends no more
        self._error: Exception | None = None
        self._arrived = asyncio.Event()
        self._drained = asyncio.Event()
        self._drained.set()
        self.lost = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        self._received = self._buffer[:nbytes]
        self.transport.pause_reading()  # until all of it was read
        self._arrived.set()

    def eof_received(self) -> bool:
        self._is_over = True
        self._arrived.set()
        return True  # the other direction stays open

    def connection_lost(self, exc: Exception | None) -> None:
        self._is_over, self._error = True, exc
        for event in (self._arrived, self._drained, self.lost):
            event.set()

    def pause_writing(self) -> None:
        self._drained.clear()

    def resume_writing(self) -> None:
        self._drained.set()

    async def receive(self, count: int) -> memoryview:
        while not self._received and not self._is_over:
            self._arrived.clear()
            self.transport.resume_reading()
            await self._arrived.wait()
        if self._error is not None:
            raise self._error
        data, self._received = self._received[:count], self._received[count:]
        return data

    async def drain(self) -> None:
        await self._drained.wait()
        if self.lost.is_set() or self.transport.is_closing():
            raise self._error or ConnectionResetError("The connection is closed")


class Side:
    """One connected socket, as streams."""

    def __init__(self, connection: _Connection) -> None:
        self._connection = connection
        self._transport = connection.transport
        self.received_bytes = 0
        self.sent_bytes = 0

    async def read(self, count: int = MAX_READ_BYTES) -> bytes:
        """Up to `count` bytes; empty when the other end sends no more."""
        return bytes(await self.receive(count))

    async def receive(self, count: int = MAX_READ_BYTES) -> memoryview:
        """The same without a copy: valid until the next read."""
        data = await self._connection.receive(count)
        self.received_bytes += len(data)
        return data

    async def write(self, data: bytes | memoryview) -> None:
        if data:
            self.sent_bytes += len(data)
            self._transport.write(data)
            await self._connection.drain()

    def end(self) -> None:
        """Signal that no more will be sent; the other direction stays open."""
        with contextlib.suppress(OSError):
            self._transport.write_eof()

    async def finish(self) -> None:
        """End, and wait briefly for the other end to close: closing with unread bytes would destroy the
        answer that is still on its way."""
        self.end()
        with contextlib.suppress(OSError, TimeoutError):
            async with asyncio.timeout(LINGER_S):
                remaining = LINGER_BYTES
                while remaining > 0 and (data := await self.receive()):
                    remaining -= len(data)

    def reset(self) -> None:
        """Abort the connection, so that the other end cannot take partial data for complete."""
        sock = self._transport.get_extra_info("socket")
        with contextlib.suppress(OSError):
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._transport.abort()

    async def close(self) -> None:
        self._transport.abort()
        await self._connection.lost.wait()


async def open_side(connection: socket.socket) -> Side:
    """Streams over a connected socket, which they own from now on."""
    loop = asyncio.get_running_loop()
    try:
        transport, protocol = await loop.create_connection(_Connection, sock=connection)
    except BaseException:
        connection.close()
        raise
    transport.pause_reading()  # until the first read: nothing is received before its reader is there
    transport.set_write_buffer_limits(high=0)
    return Side(protocol)


async def run_while_active(work: Coroutine[Any, Any, None], sides: tuple[Side, Side], idle_s: float) -> None:
    """Run `work` while bytes move; LimitReached when none moved for `idle_s`."""
    task = asyncio.create_task(work)
    try:
        moved = -1
        while not task.done():
            now = sum(side.received_bytes + side.sent_bytes for side in sides)
            if now == moved:
                raise LimitReached(
                    f"No byte was transferred for {idle_s:g} s. Send data more often, or try again.",
                    limit="idle_timeout_s",
                )
            moved = now
            await asyncio.wait({task}, timeout=idle_s)
        task.result()
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
