"""A connection to a program that listens in a jail."""

import asyncio
import socket

from hutch.domain.errors import Conflict


class SocketStream:
    """A `Stream` over a socket of the jail."""

    def __init__(self, connected: socket.socket) -> None:
        connected.setblocking(False)
        self._socket = connected
        self._loop = asyncio.get_running_loop()

    async def read(self, max_bytes: int = 65536) -> bytes:
        try:
            return await self._loop.sock_recv(self._socket, max_bytes)
        except ConnectionError:
            return b""

    async def write(self, data: bytes) -> None:
        try:
            await self._loop.sock_sendall(self._socket, data)
        except ConnectionError as error:
            raise Conflict(f"The program in the jail has closed the connection: {error.strerror}.") from None

    async def end(self) -> None:
        try:
            self._socket.shutdown(socket.SHUT_WR)
        except OSError:
            return  # closed by the other side already

    def close(self) -> None:
        self._socket.close()
