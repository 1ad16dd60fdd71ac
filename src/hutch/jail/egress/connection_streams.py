"""The two connections of one exchange, as streams with back-pressure.

Writers buffer nothing: `drain` returns when the kernel has all data. So memory is
bounded by one chunk in each direction, and the slower side sets the pace.
"""

import asyncio
import contextlib
import socket
import struct
from collections.abc import Coroutine
from typing import Any

from hutch.domain.errors import LimitReached

CHUNK_BYTES = 64 * 1024  # buffered before the sender is paused
MAX_READ_BYTES = 256 * 1024  # what a transport may have received at once: fewer and larger steps
LINGER_S = 1.0
LINGER_BYTES = 1024 * 1024


class Side:
    """One connected socket, as streams."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self.received_bytes = 0
        self.sent_bytes = 0

    async def read(self, count: int = MAX_READ_BYTES) -> bytes:
        """Up to `count` bytes; empty when the other end sends no more."""
        data = await self._reader.read(count)
        self.received_bytes += len(data)
        return data

    async def write(self, data: bytes) -> None:
        if data:
            self.sent_bytes += len(data)
            self._writer.write(data)
            await self._writer.drain()

    def end(self) -> None:
        """Signal that no more will be sent; the other direction stays open."""
        with contextlib.suppress(OSError):
            self._writer.write_eof()

    async def finish(self) -> None:
        """End, and wait briefly for the other end to close: closing with unread bytes would destroy the
        answer that is still on its way."""
        self.end()
        with contextlib.suppress(OSError, TimeoutError):
            async with asyncio.timeout(LINGER_S):
                remaining = LINGER_BYTES
                while remaining > 0 and (data := await self.read()):
                    remaining -= len(data)

    def reset(self) -> None:
        """Abort the connection, so that the other end cannot take partial data for complete."""
        sock = self._writer.get_extra_info("socket")
        with contextlib.suppress(OSError):
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._writer.transport.abort()

    async def close(self) -> None:
        self._writer.transport.abort()
        with contextlib.suppress(OSError):
            await self._writer.wait_closed()


async def open_side(connection: socket.socket) -> Side:
    """Streams over a connected socket, which they own from now on."""
    try:
        reader, writer = await asyncio.open_connection(sock=connection, limit=CHUNK_BYTES)
    except BaseException:
        connection.close()
        raise
    writer.transport.set_write_buffer_limits(high=0)
    return Side(reader, writer)


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
