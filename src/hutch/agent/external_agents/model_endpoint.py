"""The model endpoint of one jail: a socket inside, served by the host.

It exists in the network of its jail alone, and only while its run lasts. It has no routes but those of a
model. Every connection serves one request, so nothing can be smuggled behind it.
"""

import asyncio
import hmac
import json
import socket
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from dataclasses import field
from typing import Any

import h11
import structlog

from hutch.agent.external_agents.provider_format_replies import NAME, WRITERS, WireReply
from hutch.agent.external_agents.provider_format_requests import READERS, Conversation, Opaque, WireRequest
from hutch.domain.errors import BadRequest, HutchError, LimitReached, NotFound, Unauthenticated
from hutch.jail.egress.back_pressure_streams import MAX_READ_BYTES, Side, open_side
from hutch.jail.egress.egress_attempt_and_limit_types import EgressLimits
from hutch.jail.egress.proxy_connection_acceptor import Acceptor
from hutch.jail.interface import Jail
from hutch.llm.interface import Again, CallStarted, Delta, Request, Text
from hutch.llm.reply_builder import Reply
from hutch.system.lazy_dataclass import dataclass
from hutch.system.uncancellable_work import run_in_thread

HEAD_CHUNK_BYTES = 8 * 1024
MAX_BODY_BYTES = 32 * 1024 * 1024
MAX_VALUES = 1_000_000  # in the JSON of a body: each takes up to 80 bytes of memory
CHARS_PER_TOKEN = 4
LIMITS = EgressLimits(connections=16)
BODY_TIMEOUT_S = 60.0
logger = structlog.get_logger()
# The deltas of a reply, and then the whole reply.
Ask = Callable[[Request], AsyncGenerator[Delta | Reply]]


class BrokenOff(Exception):
    """A reply began anew after parts of it were sent."""


@dataclass(frozen=True, slots=True)
class ModelEndpoint:
    """The routes of a model, for the one holder of `token`."""

    ask: Ask
    token: str
    opaque_of: Opaque
    clean: Callable[[str], str]  # removes secrets
    reading: asyncio.Lock = field(default_factory=asyncio.Lock)  # one body is parsed at a time

    @asynccontextmanager
    async def serve(self, jail: Jail) -> AsyncIterator[int]:
        """Serve it inside a jail; yields its port."""
        listener = await jail.listen()
        serving: set[asyncio.Task[None]] = set()

        def start(connection: socket.socket) -> None:
            task = asyncio.create_task(self._serve(connection))
            serving.add(task)

            def ended(done: asyncio.Task[None]) -> None:
                connection.close()
                serving.discard(done)
                acceptor.release()
                if not done.cancelled() and (error := done.exception()):
                    logger.error("model_endpoint.failed", error=type(error).__name__)

            task.add_done_callback(ended)

        acceptor = Acceptor(listener, LIMITS, start)
        try:
            yield int(listener.getsockname()[1])
        finally:
            await acceptor.close()
            for task in serving:
                task.cancel()
            await asyncio.gather(*serving, return_exceptions=True)

    async def _serve(self, connection: socket.socket) -> None:
        side = await open_side(connection)
        try:
            await _Exchange(self, side).serve()
        except OSError:  # the program has closed its end
            logger.debug("model_endpoint.client_left")
        finally:
            await side.close()


class _Exchange:
    """One request and its response."""

    def __init__(self, endpoint: ModelEndpoint, side: Side) -> None:
        self._endpoint, self._side = endpoint, side
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=LIMITS.head_bytes)
        self._writer: WireReply | None = None
        self._has_begun = self._is_head = False

    async def serve(self) -> None:
        try:
            async with asyncio.timeout(BODY_TIMEOUT_S):
                head = await self._next(HEAD_CHUNK_BYTES)
                if not isinstance(head, h11.Request):
                    return
                path = self._admit(head)
                body = await self._body() if head.method == b"POST" else b""
            await self._answer(path, body)
        except (HutchError, BrokenOff, TimeoutError, h11.RemoteProtocolError) as error:
            await self._fail(_status(error), self._endpoint.clean(str(error)) or "The request took too long.")

    def _admit(self, head: h11.Request) -> str:
        """The route of a request with the token of this run."""
        headers, self._is_head = dict(head.headers), head.method == b"HEAD"
        if b"content-length" in headers and b"transfer-encoding" in headers:
            raise BadRequest("A request has one length: Content-Length or Transfer-Encoding.")
        given = headers.get(b"authorization", b"").removeprefix(b"Bearer ") or headers.get(b"x-api-key", b"")
        path = "/" + head.target.partition(b"?")[0].decode("ascii", "replace").lstrip("/")
        path = path.removeprefix("/v1")
        if path in WRITERS:
            self._writer = WRITERS[path](frozenset(), wants_usage=False)
        if not hmac.compare_digest(given, self._endpoint.token.encode()):
            raise Unauthenticated("The token is not that of this run. It is in OPENAI_API_KEY.")
        is_known = (head.method, path) == (b"GET", "/models") or (
            head.method == b"POST" and (path in WRITERS or path == "/messages/count_tokens")
        )
        if not is_known:
            raise NotFound(
                "There is no such route. A model answers at /v1/chat/completions, /v1/responses and "
                "/v1/messages."
            )
        return path

    async def _next(self, chunk_bytes: int = MAX_READ_BYTES) -> Any:
        while (event := self._http.next_event()) is h11.NEED_DATA:
            if self._http.they_are_waiting_for_100_continue:
                go_on = h11.InformationalResponse(status_code=100, headers=[])
                await self._side.write(self._http.send(go_on) or b"")
            self._http.receive_data(await self._side.read(chunk_bytes))
        return event

    async def _body(self) -> bytes:
        body = bytearray()
        while not isinstance(event := await self._next(), h11.EndOfMessage):
            if not isinstance(event, h11.Data):
                raise BadRequest("The request broke off.")
            body += event.data
            if len(body) > MAX_BODY_BYTES:
                raise LimitReached(f"A request has at most {MAX_BODY_BYTES >> 20} MiB.", limit="body_bytes")
        return bytes(body)

    async def _answer(self, path: str, body: bytes) -> None:
        if path == "/models":
            models = [{"id": NAME, "object": "model", "created": 0, "owned_by": NAME}]
            await self._send_json(200, {"object": "list", "data": models})
            return
        if path == "/messages/count_tokens":
            await self._send_json(200, {"input_tokens": len(body) // CHARS_PER_TOKEN})
            return
        endpoint = self._endpoint
        async with endpoint.reading:
            asked = await run_in_thread(_read, path, body, endpoint.opaque_of, endpoint.clean)
        body = b""  # it may be large, and the request may wait for others
        self._writer = WRITERS[path](asked.free_text_tools, wants_usage=asked.wants_usage)
        working = asyncio.ensure_future(self._reply(self._writer, asked))
        watching = asyncio.ensure_future(self._side.read(1))  # ends when the program has gone
        try:
            await asyncio.wait([working, watching], return_when=asyncio.FIRST_COMPLETED)
            if working.done():
                await working
        finally:
            working.cancel()
            watching.cancel()
            await asyncio.gather(working, watching, return_exceptions=True)

    async def _reply(self, writer: WireReply, asked: WireRequest) -> None:
        async with aclosing(self._endpoint.ask(asked.request)) as parts:
            async for part in parts:
                if isinstance(part, Reply):
                    await self._end(writer, part, streams=asked.streams)
                elif not asked.streams:
                    continue
                elif isinstance(part, Again):
                    if self._has_begun:
                        raise BrokenOff("The reply broke off. Send the request again.")
                else:
                    await self._stream(writer, part)

    async def _stream(self, writer: WireReply, delta: Delta) -> None:
        if not self._has_begun:
            if not isinstance(delta, Text | CallStarted):
                return
            await self._begin(writer)
        for frame in writer.add(delta):
            await self._send(h11.Data(data=frame))

    async def _begin(self, writer: WireReply) -> None:
        self._has_begun = True
        headers = [("Content-Type", "text/event-stream"), ("Connection", "close")]
        await self._send(h11.Response(status_code=200, headers=headers))
        for frame in writer.begin():
            await self._send(h11.Data(data=frame))

    async def _end(self, writer: WireReply, reply: Reply, *, streams: bool) -> None:
        if not streams:
            await self._send_json(200, writer.whole(reply))
            return
        if not self._has_begun:
            await self._begin(writer)
        for frame in writer.end(reply):
            await self._send(h11.Data(data=frame))
        await self._finish()

    async def _fail(self, status: int, message: str) -> None:
        if self._has_begun and self._writer is not None:  # the status has been sent
            await self._send(h11.Data(data=self._writer.failure(status, message)))
            await self._finish()
        elif self._http.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            writer = self._writer or WRITERS["/chat/completions"](frozenset(), wants_usage=False)
            await self._send_json(status, writer.error(status, message))

    async def _send_json(self, status: int, value: Any) -> None:
        body = json.dumps(value).encode()
        headers = [
            ("Content-Type", "application/json"),
            ("Content-Length", str(len(body))),
            ("Connection", "close"),
        ]
        await self._send(h11.Response(status_code=status, headers=headers))
        if not self._is_head:
            await self._send(h11.Data(data=body))
        await self._finish()

    async def _finish(self) -> None:
        await self._send(h11.EndOfMessage())
        await self._side.finish()

    async def _send(self, event: Any) -> None:
        await self._side.write(self._http.send(event) or b"")


def _read(path: str, body: bytes, opaque_of: Opaque, clean: Callable[[str], str]) -> WireRequest:
    if sum(body.count(mark) for mark in (b"{", b"[", b",")) > MAX_VALUES:
        raise BadRequest(f"The JSON of a request has at most {MAX_VALUES:,} values.")
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        raise BadRequest("The body is not JSON.") from None
    if not isinstance(value, dict):
        raise BadRequest("The body is not a JSON object.")
    return READERS[path](value, Conversation(opaque_of, clean))


def _status(error: Exception) -> int:
    match error:
        case Unauthenticated():
            return 401
        case NotFound():
            return 404
        case LimitReached(limit="body_bytes"):
            return 413
        case LimitReached():
            return 429
        case TimeoutError():
            return 408
        case BadRequest() | h11.RemoteProtocolError():
            return 400
    return 502
