"""Forwards an authorised request to a port of a jail."""

import asyncio
from typing import Any

from starlette.responses import Response
from starlette.types import Receive, Scope

from hutch.domain.errors import HutchError, NotFound
from hutch.domain.session import Session
from hutch.gateway.gateway_context import Server
from hutch.gateway.problem_json import error_response
from hutch.gateway.stream.open_streams import DISCONNECTED, SLOW, Ending, Stream
from hutch.gateway.stream.preview_headers import Header, request_headers, response_headers
from hutch.gateway.stream.preview_http import BadAnswer, Exchange, bad_gateway
from hutch.gateway.stream.preview_websocket import SocketToJail
from hutch.sessions.interface import Stream as JailStream
from hutch.system.lazy_dataclass import dataclass

DONE = Ending("end", 1000, "")


@dataclass(frozen=True, slots=True)
class Target:
    """The port, path and client of a request."""

    session: Session
    port: int
    path: str  # with its query, as the program gets it
    own_origin: str
    client: str
    prefix: str = ""  # of paths, where the name is our own
    token: bool = False


async def serve(server: Server, stream: Stream, scope: Scope, receive: Receive, target: Target) -> None:
    """Forward the request, and return the response."""
    receive = stream.confirmed(receive)
    headers = request_headers(
        scope["headers"],
        port=target.port,
        own_origin=target.own_origin,
        forwarded_for=target.client,
        token=target.token,
    )
    try:
        jail = await server.host.connect(target.session.id, target.port)
    except NotFound as error:
        await answer(scope, receive, stream.put, bad_gateway(BadAnswer(str(error))))
        return
    except HutchError as error:
        await answer(scope, receive, stream.put, error_response(error, server.redactor))
        return
    try:
        if scope["type"] == "websocket":
            await _socket(stream, scope, receive, target, headers, jail)
        else:
            await _exchange(stream, scope, receive, target, headers, jail)
    finally:
        jail.close()


async def _exchange(
    stream: Stream,
    scope: Scope,
    receive: Receive,
    target: Target,
    headers: list[Header],
    jail: JailStream,
) -> None:
    def fix(answered: list[Header]) -> list[Header]:
        return response_headers(answered, port=target.port, prefix=target.prefix, sandbox=target.token)

    exchange = Exchange(jail, stream.put, fix)
    body = _Body(receive)
    bad: BadAnswer | None = None

    async def work() -> Ending:
        nonlocal bad
        try:
            await exchange.run(scope["method"], target.path.encode("latin-1"), headers, body.receive)
        except BadAnswer as error:
            bad = error
        return DONE

    await stream.run(work(), body.gone())
    if bad is not None and not exchange.started:
        await answer(scope, receive, stream.put, bad_gateway(bad))
    elif not exchange.whole and (exchange.started or not body.left):
        stream.cut()  # a truncated response must not look complete


async def _socket(
    stream: Stream,
    scope: Scope,
    receive: Receive,
    target: Target,
    headers: list[Header],
    jail: JailStream,
) -> None:
    try:
        within = SocketToJail(jail, target.port, target.path, list(scope.get("subprotocols", [])))
        agreed = await within.open(headers)
    except BadAnswer as error:
        await answer(scope, receive, stream.put, bad_gateway(error))
        return
    await receive()
    await stream.put({"type": "websocket.accept", "subprotocol": agreed})
    ending = await stream.run(within.forward_from_jail(stream.put), within.forward_to_jail(receive))
    if ending is SLOW:
        stream.cut()
    elif ending is not DISCONNECTED:
        code, reason = within.closed if ending.code == DONE.code else (ending.code, ending.reason)
        usable = code in (1000, 1001, 1003, 1011, 1012) or 3000 <= code < 5000
        await stream.put(
            {"type": "websocket.close", "code": code if usable else 1011, "reason": reason[:100]}
        )


class _Body:
    """A request's body, and then its disconnect: only one reader at a time."""

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._whole = asyncio.Event()
        self.left = False

    async def receive(self) -> Any:
        message = await self._receive()
        if message["type"] != "http.request" or not message.get("more_body", False):
            self.left = message["type"] == "http.disconnect"
            self._whole.set()
        return message

    async def gone(self) -> Ending:
        await self._whole.wait()
        while not self.left:
            self.left = (await self._receive())["type"] == "http.disconnect"
        return DISCONNECTED


async def answer(scope: Scope, receive: Receive, send: Any, response: Response) -> None:
    """Send a response of our own, over HTTP or as a rejected handshake."""
    if scope["type"] == "http":
        await response(scope, receive, send)
        return
    start = {"type": "websocket.http.response.start", "status": response.status_code}
    await send({**start, "headers": response.raw_headers})
    await send({"type": "websocket.http.response.body", "body": response.body})
