"""Helpers for tests of GraphQL."""

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from websockets.asyncio.client import ClientConnection, connect

from tests.gateway.api_server import Api

URL = "/api/graphql"
PROTOCOL = "graphql-transport-ws"


async def ask(api: Api, query: str, **variables: Any) -> dict[str, Any]:
    """The whole answer."""
    answered = await api.post(URL, json={"query": query, "variables": variables})
    assert answered.status_code in (200, 400), answered.text
    return dict(answered.json())


async def data(api: Api, query: str, **variables: Any) -> dict[str, Any]:
    """The data of a response without errors."""
    result = await ask(api, query, **variables)
    assert "errors" not in result, result
    return dict(result["data"])


async def refusal(api: Api, query: str, **variables: Any) -> dict[str, Any]:
    """The extensions of the only error."""
    result = await ask(api, query, **variables)
    (error,) = result["errors"]
    return dict(error["extensions"])


@asynccontextmanager
async def socket(api: Api, *, greeted: bool = True, **options: Any) -> AsyncIterator[ClientConnection]:
    given = {"subprotocols": [PROTOCOL], "additional_headers": {"Authorization": f"Bearer {api.token}"}}
    async with connect(f"{api.url.replace('http', 'ws')}{URL}", **{**given, **options}) as opened:
        if greeted:
            await say(opened, type="connection_init")
            assert await receive(opened) == {"type": "connection_ack"}
        yield opened


async def say(socket: ClientConnection, **message: Any) -> None:
    await socket.send(json.dumps(message))


async def subscribe(
    socket: ClientConnection, query: str, id: str, variables: Mapping[str, Any] | None = None
) -> None:
    payload = {"query": query, "variables": dict(variables or {})}
    await say(socket, id=id, type="subscribe", payload=payload)


async def receive(socket: ClientConnection) -> dict[str, Any]:
    return dict(json.loads(await socket.recv()))
