"""Forwards one HTTP request to a program in a jail, and parses both sides anew.

The program is untrusted. A response that is not HTTP becomes a 502, the size and time of
a head are limited, and a body is forwarded as fast as the browser reads.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import h11
import structlog

from hutch.domain.errors import HutchError
from hutch.gateway.http_error_table import OF_HTTP, ErrorStatus
from hutch.gateway.problem_json import problem
from hutch.gateway.stream.preview_headers import Header
from hutch.sessions.interface import Stream as JailStream
from hutch.system.task_cancellation import cancel_and_wait

HEAD_BYTES = 64 * 1024
HEAD_S = 120.0
BAD_REQUEST, BAD_GATEWAY, TOO_LATE = OF_HTTP[400], OF_HTTP[502], OF_HTTP[504]

Receive = Callable[[], Awaitable[Any]]
Put = Callable[[Any], Awaitable[None]]
logger = structlog.get_logger()


class BadAnswer(Exception):
    """The program failed to answer; `error_status` is for the browser."""

    def __init__(self, message: str, error_status: ErrorStatus = BAD_GATEWAY) -> None:
        super().__init__(message)
        self.error_status = error_status


class Exchange:
    """A request and its response."""

    def __init__(self, stream: JailStream, put: Put, fix: Callable[[list[Header]], list[Header]]) -> None:
        self.started = self.whole = False  # of the response to the browser
        self._stream, self._put, self._fix = stream, put, fix
        self._http = h11.Connection(h11.CLIENT, max_incomplete_event_size=HEAD_BYTES)

    async def run(self, method: str, target: bytes, headers: list[Header], receive: Receive) -> None:
        sending = asyncio.ensure_future(self._send(method, target, headers, receive))
        receiving = asyncio.ensure_future(self._receive())
        try:
            await asyncio.wait([sending, receiving], return_when=asyncio.FIRST_COMPLETED)
            if sending.done() and not receiving.done():
                sending.result()
            await receiving
        finally:
            await cancel_and_wait(sending, receiving)

    async def _send(self, method: str, target: bytes, headers: list[Header], receive: Receive) -> None:
        """Send the request. A program may answer before it has read all of it."""
        names = {name for name, _ in headers}
        first = await receive()
        more = first.get("more_body", False)
        if b"content-length" not in names and (more or first.get("body")):
            headers = [*headers, (b"transfer-encoding", b"chunked")]
        try:
            request = h11.Request(method=method, target=target, headers=[*headers, (b"connection", b"close")])
            data = self._http.send(request) or b""
        except h11.LocalProtocolError as error:
            raise BadAnswer(f"This request cannot be forwarded: {error}.", BAD_REQUEST) from None
        body = first.get("body", b"")
        try:
            while True:
                data += (self._http.send(h11.Data(data=body)) or b"") if body else b""
                if not more:
                    data += self._http.send(h11.EndOfMessage()) or b""
                if data:
                    await self._stream.write(data)
                if not more:
                    return
                message = await receive()
                if message["type"] != "http.request":
                    return
                data, body, more = b"", message.get("body", b""), message.get("more_body", False)
        except h11.LocalProtocolError as error:  # for example a wrong Content-Length
            raise BadAnswer(f"This request cannot be forwarded: {error}.", BAD_REQUEST) from None
        except HutchError as error:
            logger.debug("preview.not_sent", problem=str(error))  # the program may have answered anyway

    async def _receive(self) -> None:
        try:
            async with asyncio.timeout(HEAD_S):
                head = await self._next()
                while isinstance(head, h11.InformationalResponse):
                    head = await self._next()
        except TimeoutError:
            raise BadAnswer(f"The program did not answer within {HEAD_S:g} s.", TOO_LATE) from None
        if not isinstance(head, h11.Response):
            raise BadAnswer("The program closed the connection without a response.")
        fields = [(bytes(name).lower(), bytes(value)) for name, value in head.headers]
        names = [name for name, _ in fields]
        if not 200 <= head.status_code <= 599:
            raise BadAnswer(f"The program answered with the invalid status {head.status_code}.")
        if b"transfer-encoding" in names and b"content-length" in names:
            raise BadAnswer("The program's response has both Transfer-Encoding and Content-Length.")
        if head.status_code in (204, 304):  # these have no body
            fields = [(name, value) for name, value in fields if name != b"content-length"]
        headers = self._fix(fields)
        self.started = True
        await self._put({"type": "http.response.start", "status": head.status_code, "headers": headers})
        while True:
            event = await self._next()
            if isinstance(event, h11.Data):
                await self._put({"type": "http.response.body", "body": bytes(event.data), "more_body": True})
            elif isinstance(event, h11.EndOfMessage):
                self.whole = True
                await self._put({"type": "http.response.body", "body": b"", "more_body": False})
                return
            else:
                raise BadAnswer("The program closed the connection in the middle of its response.")

    async def _next(self) -> Any:
        try:
            while (event := self._http.next_event()) is h11.NEED_DATA:
                self._http.receive_data(await self._stream.read())
        except h11.RemoteProtocolError as error:
            raise BadAnswer(f"The program's response is not HTTP: {error}.") from None
        return event


def bad_gateway(error: BadAnswer) -> Any:
    """The response to the browser."""
    return problem(error.error_status, str(error)[:500])
