"""Extends uvicorn's protocols, so that connections of clients that do not read can be ended.

ASGI has no means for that: everything that is sent, even a close frame, waits until the
client reads. So each connection adds two functions to `scope["state"]`: one aborts it, one
closes it without waiting. Terminals get a direct channel, because queues and tasks take
longer than their few bytes.
"""

import asyncio
import struct
from asyncio import BaseTransport
from collections.abc import Callable
from typing import Any, cast

import structlog
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.exceptions import InvalidState

logger = structlog.get_logger()
ABORT, CLOSE, DIRECT = "hutch.abort", "hutch.close", "hutch.short"
MAX_FRAME_BYTES = 1 << 20  # of an incoming message
MAX_FRAGMENTS = 1024
MAX_UNREAD_MESSAGES = 4  # incoming messages that the application has not received
TURN_BYTES = 2048  # parsed in one turn of the event loop: they may be hundreds of messages
SHUTDOWN_S = 1.5  # for a stream to end by itself
NO_HANDSHAKE = (
    b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\nContent-Type: text/plain\r\nContent-Length: 39\r\n\r\n"
    b"This is no handshake for a WebSocket.\r\n"
)
CLOSE_LINGER_S = 5.0  # for a client to read sent data before the connection is aborted


class Http(HttpToolsProtocol):
    """HTTP/1.1 whose connections can be aborted."""

    def connection_made(self, transport: BaseTransport) -> None:
        self.app_state = {**self.app_state, ABORT: cast(asyncio.Transport, transport).abort}
        super().connection_made(transport)  # type: ignore[arg-type]


OnMessage = Callable[[bytes, bool], bool]  # (message, is text) -> whether it was handled


class WebSocket(WebSocketsSansIOProtocol):
    """A WebSocket that can be closed without waiting, and sends bytes without copying them twice."""

    on_message: OnMessage | None = None  # gets incoming messages first
    _rest = b""  # received, but not yet parsed
    _lost: tuple[Exception | None] | None = None  # set when the client has disconnected

    def connection_made(self, transport: BaseTransport) -> None:
        abort = cast(asyncio.Transport, transport).abort
        self.app_state = {**self.app_state, ABORT: abort, CLOSE: self.close_now, DIRECT: self}
        super().connection_made(transport)

    def shutdown(self) -> None:
        """The server stops. The stream closes with its position; if it does not in time, we close."""
        if self.handshake_complete and not self.close_sent:
            self.loop.call_later(SHUTDOWN_S, self._shut_down)
        else:
            super().shutdown()

    def _shut_down(self) -> None:
        if not self.transport.is_closing():
            super().shutdown()

    def close_now(self, code: int, reason: str) -> None:
        """Send a close frame after the data in the transport, and abort after a moment."""
        if self.close_sent or self.transport.is_closing():
            return
        try:
            self.conn.send_close(code, reason)
        except InvalidState:
            return
        self.transport.write(b"".join(self.conn.data_to_send()))
        self.close_sent = True
        self.queue.put_nowait({"type": "websocket.disconnect", "code": code, "reason": reason})
        self.close_timer = self.loop.call_later(CLOSE_LINGER_S, self.transport.abort)

    # Small messages take much longer to parse than to send, so a client with a great many must not block
    # the others. Received data is parsed even after the client has disconnected.

    def data_received(self, data: bytes) -> None:
        if self._rest or len(data) > TURN_BYTES:
            self.transport.pause_reading()
            waiting, self._rest = bool(self._rest), self._rest + data
            if not waiting:
                self._process_rest()
        else:
            self._take(data)

    def _process_rest(self) -> None:
        data, self._rest = self._rest[:TURN_BYTES], self._rest[TURN_BYTES:]
        try:
            self._take(data)
        except Exception:  # no caller would see it, and the client would wait for ever
            logger.exception("socket.failed")
            self._rest = b""
            self.transport.abort()
        if self._rest:
            self.loop.call_soon(self._process_rest)
        elif self._lost:
            super().connection_lost(*self._lost)
        else:
            self._resume_reading()

    def _take(self, data: bytes) -> None:
        super().data_received(data)
        if self.conn.handshake_exc is not None and not self.handshake_initiated:
            self.transport.write(NO_HANDSHAKE)
            self.transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._rest:
            self._lost = (exc,)
        else:
            super().connection_lost(exc)

    def _resume_reading(self) -> None:
        is_connected = not (self.disconnected or self._lost or self.transport.is_closing())
        if is_connected and not self._rest and not self.read_paused and self.writable.is_set():
            self.transport.resume_reading()

    # Pings are answered here. While a client does not read the pongs, we do not read from it: else pongs
    # would pile up.

    def pause_writing(self) -> None:
        super().pause_writing()
        self.transport.pause_reading()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._resume_reading()

    def handle_ping(self) -> None:
        if self._lost or self.transport.is_closing():
            self.conn.data_to_send()  # discarded: the client is gone
        else:
            super().handle_ping()

    def handle_close(self, event: Any) -> None:
        received = self.conn.close_rcvd
        if received and self.transport.is_closing() and not self.close_sent:
            self.queue.put_nowait(
                {"type": "websocket.disconnect", "code": received.code, "reason": received.reason}
            )
        else:
            super().handle_close(event)

    async def receive(self) -> Any:
        message = await self.queue.get()
        if self.read_paused and self.queue.empty():
            self.read_paused = False
            self._resume_reading()
        return message

    def send_receive_event_to_app(self) -> None:
        on_message = (
            self.on_message if len(self.frames) == 1 and self.queue.empty() and not self.close_sent else None
        )
        if on_message and on_message(self.frames[0], self.curr_msg_data_type == "text"):
            self.frames = []
            return
        if self.queue.qsize() >= MAX_UNREAD_MESSAGES:
            super().send_receive_event_to_app()  # stops reading until the application has received all
            return
        # Pausing and resuming for each message would take as long as handling a key.
        paused, self.read_paused = self.read_paused, True
        super().send_receive_event_to_app()
        self.read_paused = paused

    def handle_cont(self, event: Any) -> None:
        if len(self.frames) < MAX_FRAGMENTS:
            super().handle_cont(event)
        elif not self.close_sent:
            self.conn.fail(1009, "too many fragments")
            self.handle_parser_exception()

    def put(self, data: bytes) -> bool:
        """Send bytes in a frame at once, without a task. False if that is not possible now."""
        if self.conn.extensions or not self.handshake_complete or self.initial_response is not None:
            return False
        if self.disconnected or self.close_sent or not self.writable.is_set():
            return False
        self.transport.write(_head(len(data)) + data)
        return True

    async def send(self, message: Any) -> None:
        data = message.get("bytes")
        if data is not None and not self.writable.is_set():
            await self.writable.wait()
        if data is None or not self.put(data):
            await super().send(message)  # the general case


def _head(length: int) -> bytes:
    """The head of an unmasked frame with a binary message."""
    if length < 126:
        return struct.pack("!BB", 0x82, length)
    if length < 65536:
        return struct.pack("!BBH", 0x82, 126, length)
    return struct.pack("!BBQ", 0x82, 127, length)


def options() -> dict[str, Any]:
    """For `uvicorn.Config`."""
    return {
        "http": Http,
        "ws": WebSocket,
        "ws_max_size": MAX_FRAME_BYTES,
        "ws_per_message_deflate": False,  # compressing a terminal's bytes costs more than sending them
        "ws_ping_interval": 20.0,
        "ws_ping_timeout": 45.0,
    }


def abort_of(scope: Any) -> Callable[[], None] | None:
    """A function that aborts the connection, if the server has one."""
    return cast(Callable[[], None] | None, scope.get("state", {}).get(ABORT))


def direct_channel_of(scope: Any) -> WebSocket | None:
    """The direct channel to a WebSocket's client, if the server has one."""
    return cast(WebSocket | None, scope.get("state", {}).get(DIRECT))


def close_of(scope: Any) -> Callable[[int, str], None] | None:
    """A function that closes a WebSocket without waiting, if the server has one."""
    return cast(Callable[[int, str], None] | None, scope.get("state", {}).get(CLOSE))
