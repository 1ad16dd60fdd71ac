"""The log of a session, read from the server that commands use."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx2

from hutch.cli.api_client import Client
from hutch.cli.server_requests import find_session
from hutch.domain.errors import Unavailable


@asynccontextmanager
async def open_served_log(session: str, resource: str) -> AsyncIterator[tuple[str, AsyncIterator[bytes]]]:
    """The id of a session, and one of its resources in chunks."""
    async with Client() as client:
        found = await find_session(client, session)
        try:
            async with client.stream(f"/sessions/{found['id']}/{resource}") as answer:
                yield found["id"], answer.aiter_bytes()
        except httpx2.TransportError as error:
            raise Unavailable(
                f"The server at {client.address.url} did not send the whole log: {error}. Try again."
            ) from error
