"""The transport of ACP: one JSON-RPC message per line on standard input and output.

Every request gets a response, also one that cannot be read: the library would drop it, and its sender would
wait forever.
"""

import asyncio
import json
from typing import Any

from hutch.cli.async_stdio import Inlet, Outlet

MAX_LINE_BYTES = 32 * 1024 * 1024
PARSE_ERROR, INVALID_REQUEST = -32700, -32600


class MessageLines:
    """The library's `Transport` over two descriptors."""

    def __init__(self, stdin: int, stdout: int) -> None:
        self._inlet, self._outlet = Inlet(stdin), Outlet(stdout)
        self._buffer = bytearray()
        self._writing = asyncio.Lock()

    async def send(self, message: dict[str, Any]) -> None:
        line = json.dumps(message, separators=(",", ":")).encode() + b"\n"
        async with self._writing:
            try:
                await self._outlet.write(line)
            except OSError:
                raise ConnectionError("The editor has closed its end.") from None

    async def receive(self) -> dict[str, Any] | None:
        """The next message; None at the end of input."""
        while (line := await self._read_line()) is not None:
            if not line.strip():
                continue
            try:
                message = json.loads(line)
            except (ValueError, RecursionError) as error:
                await self._refuse(PARSE_ERROR, f"The message is not JSON: {error}.")
                continue
            if isinstance(message, dict) and isinstance(message.get("method", ""), str):
                return message
            await self._refuse(INVALID_REQUEST, "A message is one JSON object with a method or an id.")
        return None

    async def close(self) -> None:
        """Do nothing: the descriptors live as long as the process."""

    async def _refuse(self, code: int, reason: str) -> None:
        await self.send({"jsonrpc": "2.0", "id": None, "error": {"code": code, "message": reason}})

    async def _read_line(self) -> bytes | None:
        """The next line; None at the end. One that is too long is refused, and read to its end."""
        searched, is_too_long = 0, False
        while (end := self._buffer.find(b"\n", searched)) < 0:
            if is_too_long or len(self._buffer) > MAX_LINE_BYTES:
                is_too_long = True
                self._buffer.clear()
            searched = len(self._buffer)
            if not (data := await self._inlet.read()):
                return None
            self._buffer += data
        line = bytes(self._buffer[:end])
        del self._buffer[: end + 1]
        if not is_too_long:
            return line
        await self._refuse(INVALID_REQUEST, f"A message has at most {MAX_LINE_BYTES >> 20} MiB.")
        return b""
