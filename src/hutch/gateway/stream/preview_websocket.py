"""A WebSocket between a browser and a program in a jail, message by message."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from websockets.client import ClientProtocol
from websockets.datastructures import Headers
from websockets.exceptions import InvalidState, InvalidURI, WebSocketException
from websockets.frames import Frame, Opcode
from websockets.http11 import Response
from websockets.typing import Subprotocol
from websockets.uri import parse_uri

from hutch.domain.errors import HutchError
from hutch.gateway.stream.abortable_uvicorn_protocols import TURN_BYTES
from hutch.gateway.stream.open_streams import DISCONNECTED, Ending
from hutch.gateway.stream.preview_headers import Header
from hutch.gateway.stream.preview_http import BAD_REQUEST, HEAD_S, TOO_LATE, BadAnswer
from hutch.sessions.interface import Stream as JailStream

MAX_BYTES = 16 * 1024 * 1024  # of a message from the program
GONE = Ending("end", 1000, "")

Receive = Callable[[], Awaitable[Any]]
Put = Callable[[Any], Awaitable[None]]


class SocketToJail:
    """The WebSocket to the program in the jail."""

    def __init__(self, stream: JailStream, port: int, target: str, subprotocols: list[str]) -> None:
        offered = [Subprotocol(each) for each in subprotocols] or None
        try:
            uri = parse_uri(f"ws://localhost:{port}{target}")
        except InvalidURI as error:
            raise BadAnswer(f"This URL cannot be forwarded: {error}.", BAD_REQUEST) from None
        self._protocol = ClientProtocol(uri, subprotocols=offered, max_size=MAX_BYTES)
        self._stream = stream
        self._parts: list[bytes] = []
        self._text = False
        self._early: list[Any] = []  # frames that arrived with the handshake
        self.closed: tuple[int, str] = (1006, "")

    async def open(self, headers: list[Header]) -> str | None:
        """Perform the handshake. Returns the negotiated subprotocol."""
        request = self._protocol.connect()
        request.headers.update(
            Headers(
                [
                    (name.decode("latin-1"), value.decode("latin-1"))
                    for name, value in headers
                    if name != b"host"
                ]
            )
        )
        self._protocol.send_request(request)
        try:
            async with asyncio.timeout(HEAD_S):
                await self._flush()
                while not (events := await self._events()):
                    if self._protocol.handshake_exc is not None:
                        break
        except TimeoutError:
            raise BadAnswer(f"The program did not answer within {HEAD_S:g} s.", TOO_LATE) from None
        except (HutchError, WebSocketException) as error:
            raise BadAnswer(f"The program does not accept a WebSocket here: {error}.") from None
        if self._protocol.handshake_exc is not None or not isinstance(events[0], Response):
            raise BadAnswer(f"The program does not accept a WebSocket here: {self._protocol.handshake_exc}.")
        self._early = events[1:]
        return self._protocol.subprotocol

    async def forward_from_jail(self, put: Put) -> Ending:
        """Forward messages of the program until it closes."""
        events = self._early
        while True:
            for frame in events:
                await self._take(frame, put)
            await self._flush()
            if self._protocol.close_rcvd is not None:
                self.closed = (self._protocol.close_rcvd.code, self._protocol.close_rcvd.reason)
                return GONE
            if self._protocol.eof_sent or self._protocol.parser_exc is not None:
                return GONE
            events = await self._events()

    async def forward_to_jail(self, receive: Receive) -> Ending:
        """Forward messages of the browser."""
        while True:
            message = await receive()
            try:
                if message["type"] == "websocket.disconnect":
                    self._protocol.send_close(*_leaving(message))
                    await self._flush()
                    return DISCONNECTED
                if message.get("bytes") is not None:
                    self._protocol.send_binary(message["bytes"])
                else:
                    self._protocol.send_text(message["text"].encode())
                await self._flush()
            except (InvalidState, HutchError):
                return GONE

    async def _take(self, frame: Any, put: Put) -> None:
        if not isinstance(frame, Frame) or frame.opcode not in (Opcode.TEXT, Opcode.BINARY, Opcode.CONT):
            return
        if frame.opcode is not Opcode.CONT:
            self._parts, self._text = [], frame.opcode is Opcode.TEXT
        self._parts.append(bytes(frame.data))
        if not frame.fin:
            return
        data, self._parts = b"".join(self._parts), []
        content = {"text": data.decode(errors="replace")} if self._text else {"bytes": data}
        await put({"type": "websocket.send", **content})

    async def _events(self) -> list[Any]:
        data = await self._stream.read(TURN_BYTES)
        if len(data) == TURN_BYTES:
            await asyncio.sleep(0)  # let other tasks run: hundreds of messages may be waiting
        if data:
            self._protocol.receive_data(data)
        else:
            self._protocol.receive_eof()
        return self._protocol.events_received()

    async def _flush(self) -> None:
        for data in self._protocol.data_to_send():
            if data:
                await self._stream.write(data)
            else:
                await self._stream.end()


def _leaving(message: Any) -> tuple[int, str]:
    code = message.get("code") or 1000
    usable = (1000 <= code <= 1014 and code not in (1004, 1005, 1006)) or 3000 <= code < 5000
    return (code, (message.get("reason") or "")[:100]) if usable else (1001, "")
