"""The GraphQL endpoint: `/api/graphql`, by POST and over a WebSocket.

The library takes half a second to load. The first request loads it in a thread, so the
server starts without it and other requests do not wait.
"""

import asyncio
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route, WebSocketRoute
from starlette.types import Receive, Scope, Send

from hutch.domain.errors import HutchError

URL = "/api/graphql"


async def graphql(request: Request) -> Response:
    """Answer one query. As usual in GraphQL, errors of the query are in the response."""
    caller = await request.app.state.authenticator.recognise(request.scope)
    caller.need("read")
    operation = await asyncio.to_thread(_operation)
    server = request.app.state.server
    try:
        parsed = operation.Operation.parse(await request.body())
    except HutchError as error:
        return _answer(operation.encoded(operation.refused(server, error)), 400)
    return _answer(operation.encoded(await operation.answer(server, caller, request.scope, parsed)), 200)


class Socket:
    """The route, as plain ASGI."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await (await asyncio.to_thread(_socket)).serve_socket(scope, receive, send)


def routes() -> list[BaseRoute]:
    return [Route(URL, graphql, methods=["POST"]), WebSocketRoute(URL, Socket())]


def _answer(body: bytes, status: int) -> Response:
    return Response(body, status, media_type="application/json")


def _operation() -> Any:
    from hutch.gateway.graphql import operation_execution

    return operation_execution


def _socket() -> Any:
    from hutch.gateway.graphql import graphql_websocket

    return graphql_websocket
