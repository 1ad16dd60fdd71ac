"""Limits the size of a request's head, and the time in which it must arrive.

Uvicorn waits for ever for a head, and reads one of any length. The request filter limits
the body.
"""

import asyncio

from hutch.gateway.auth.host_origin_and_rate_filter import Refusal
from hutch.gateway.stream.abortable_uvicorn_protocols import Http

HEAD_TIMEOUT_S = 20.0
HEAD_BYTES = 64 * 1024
REFUSAL_LINGER_S = 1.0  # for a client to read the refusal before the connection is closed
TOO_LONG = Refusal(
    431,
    "Request Header Fields Too Large",
    "limit_reached",
    f"The request line and all headers together have at most {HEAD_BYTES} bytes. Send less.",
    (("limit", "head_bytes"),),
)


class Protocol(Http):
    """A connection on which each head of a request must arrive in time."""

    head_timeout_s = HEAD_TIMEOUT_S
    _timer: asyncio.TimerHandle | None = None
    _head_bytes = 0
    _in_body = False  # the head of a request was received, but not all of its body
    _refused = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._wait_for_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._refused:
            return  # else closing would reset the connection before the client reads the refusal
        before, in_body = self.cycle, self._in_body
        super().data_received(data)
        if self.cycle is not before or not self._is_between_requests():
            self._stop_waiting()
            return
        if in_body:  # of a request that was answered early: the rest is dropped, within the time of a head
            if not self._in_body:
                self._stop_waiting()
        else:
            self._head_bytes += len(data)
        if self._head_bytes > HEAD_BYTES:
            self._refuse(TOO_LONG)
        elif self._timer is None:
            self._wait_for_head()

    def on_headers_complete(self) -> None:
        super().on_headers_complete()
        self._in_body = True

    def on_message_complete(self) -> None:
        super().on_message_complete()
        self._in_body = False

    def _is_between_requests(self) -> bool:
        return self.cycle is None or self.cycle.response_complete

    def _wait_for_head(self) -> None:
        self._timer = self.loop.call_later(self.head_timeout_s, self._give_up)

    def _stop_waiting(self) -> None:
        self._head_bytes = 0
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _refuse(self, refusal: Refusal) -> None:
        """Answer an incomplete request, and close the connection."""
        self._stop_waiting()
        if self.transport.is_closing():  # it was not HTTP, and was answered already
            return
        self._refused = True
        head = [f"HTTP/1.1 {refusal.status} {refusal.title}".encode()]
        head += [name + b": " + value for name, value in refusal.headers()]
        self.transport.write(b"\r\n".join([*head, b"", refusal.body()]))
        self._timer = self.loop.call_later(REFUSAL_LINGER_S, self.transport.close)

    def _give_up(self) -> None:
        self._timer = None
        # After an upgrade the connection belongs to the WebSocket.
        if self.transport.get_protocol() is self and self._is_between_requests():
            self.transport.close()
