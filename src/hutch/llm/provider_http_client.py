"""The HTTP client for providers: it sends JSON and receives server-sent events or JSON."""

import asyncio
import json
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing, asynccontextmanager
from typing import Any

import httpx2

from hutch import __version__
from hutch.domain.errors import Unavailable
from hutch.llm.batched_reply_reading import Pacing
from hutch.llm.json_fields import as_json
from hutch.llm.provider_account import Account
from hutch.llm.reply_limits import MAX_EVENT_BYTES, REPORTED
from hutch.system.trusted_certificates import trusted_certificates

CONNECT_TIMEOUT_S = 15.0
READ_TIMEOUT_S = 600.0  # a last resort: `retry` bounds the silence in a stream
END_TIMEOUT_S = 0.2  # for a server to end a stream after its last event
DONE = "[DONE]"
LAST_EVENTS = ("response.completed", "response.incomplete")


class ApiError(Exception):
    """A server reports an error: by its status, or inside a stream with status 200."""

    def __init__(
        self, body: object, *, status: int | None = None, headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(body)
        self.body = body
        self.status = status
        self.headers = headers or {}


class ApiClient:
    """Sends requests to one account. It retries nothing and follows no redirect, which would send the key
    to another host."""

    def __init__(self, account: Account, headers: Mapping[str, str]) -> None:
        self._base_url = account.base_url.rstrip("/")
        self._client = httpx2.AsyncClient(
            headers={
                "User-Agent": f"hutch/{__version__}",
                "Content-Type": "application/json",
                **account.headers,
                **headers,
            },
            timeout=httpx2.Timeout(READ_TIMEOUT_S, connect=CONNECT_TIMEOUT_S),
            verify=_certificates(self._base_url),
        )

    async def get(self, path: str) -> Any:
        async with self._send("GET", path, None) as response:
            return json.loads(await _read(response))

    async def post(self, path: str, body: dict[str, Any]) -> Any:
        async with self._send("POST", path, as_json(body)) as response:
            return json.loads(await _read(response))

    @asynccontextmanager
    async def stream(self, path: str, body: dict[str, Any]) -> AsyncIterator[AsyncIterator[Any]]:
        """The events of a reply as JSON. Leaving the block early closes the connection."""
        async with self._send("POST", path, as_json(body)) as response, aclosing(_events(response)) as events:
            yield events

    async def close(self) -> None:
        await self._client.aclose()

    @asynccontextmanager
    async def _send(self, method: str, path: str, content: bytes | None) -> AsyncIterator[httpx2.Response]:
        request = self._client.build_request(method, f"{self._base_url}{path}", content=content)
        response = await self._client.send(request, stream=True)
        try:
            if response.status_code != 200:
                raise await _error(response)
            yield response
        finally:
            await response.aclose()


def _certificates(base_url: str) -> ssl.SSLContext:
    """The trusted certificates; none for plain HTTP, because loading them takes 20 ms of processor time."""
    if base_url.lower().startswith("http://"):
        return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    return trusted_certificates()


async def _error(response: httpx2.Response) -> ApiError:
    body: object
    if target := response.headers.get("location"):
        body = f"It redirects to {target}."
    else:
        text = (await _read(response)).decode(errors="replace")
        try:
            body = json.loads(text)
        except (ValueError, RecursionError):
            body = text
    return ApiError(body, status=response.status_code, headers=response.headers)


async def _read(response: httpx2.Response) -> bytes:
    body = bytearray()
    async for part in response.aiter_bytes():
        body += part
        if len(body) > MAX_EVENT_BYTES:
            raise Unavailable(f"The server sends a line without end: {REPORTED}")
    return bytes(body)


async def _events(response: httpx2.Response) -> AsyncGenerator[Any]:
    # Self-hosted servers declare other types and encodings, but still send events in UTF-8.
    kind = response.headers.get("content-type", "").partition(";")[0].strip() or "an unknown type"
    response.headers["content-type"] = "text/event-stream; charset=utf-8"
    received = False
    source = aiter(httpx2.EventSource(response, MAX_EVENT_BYTES))
    pacing = Pacing()
    try:
        async for event in source:
            received = True
            pacing.receive()
            if event.data == DONE:
                await _read_end(source)
                return
            if not event.data:
                continue
            data = json.loads(event.data)
            if isinstance(data, dict):
                if data.get("error"):
                    raise ApiError(data)
                if data.get("type") in LAST_EVENTS:
                    await _read_end(source)
            yield data
            await pacing.pause()
        if not received and kind != "text/event-stream":
            raise ApiError(
                f"It sent {kind} where a stream of events was expected.", status=response.status_code
            )
    except httpx2.SSEError as error:
        raise Unavailable(f"The server sends a line without end: {REPORTED}") from error


async def _read_end(source: AsyncIterator[Any]) -> None:
    """Read the response to its end, so that the connection can be reused."""
    try:
        async with asyncio.timeout(END_TIMEOUT_S):
            await anext(source, None)
    except (TimeoutError, httpx2.HTTPError):
        return  # the reply is complete; the connection is closed
