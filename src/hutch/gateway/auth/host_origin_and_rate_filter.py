"""Middleware that checks every request and WebSocket before the application sees it.

It refuses requests for an unknown host name, from a page of another origin, with a body
that is too large or too slow, and in too great a number. It is plain ASGI, so it covers
every route and costs little.
"""

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, MutableMapping
from contextlib import suppress
from typing import Any

from hutch.gateway.auth.server_names_and_client_address import ServerNames, values
from hutch.gateway.auth.token_bucket_rate_limits import RateLimiter, address_key
from hutch.logs import current_trace_id
from hutch.settings.server_sections import Server
from hutch.system.lazy_dataclass import dataclass

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
ALWAYS = (
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
)
MAX_DRAINED_BYTES, DRAIN_TIMEOUT_S = 64 * 1024 * 1024, 1.0
HSTS = (b"strict-transport-security", b"max-age=31536000")


@dataclass(frozen=True, slots=True)
class Refusal:
    """The response of a check that failed."""

    status: int
    title: str
    code: str
    detail: str
    more: tuple[tuple[str, Any], ...] = ()

    def body(self) -> bytes:
        fields = {
            "type": "about:blank",
            "title": self.title,
            "status": self.status,
            "code": self.code,
            "detail": self.detail,
            "trace_id": current_trace_id(),
        }
        return json.dumps({**fields, **dict(self.more)}).encode()

    def headers(self) -> list[tuple[bytes, bytes]]:
        headers = [
            (b"content-type", b"application/problem+json"),
            (b"content-length", str(len(self.body())).encode()),
            (b"connection", b"close"),
            *ALWAYS,
        ]
        wait = dict(self.more).get("retry_after_s")
        return [*headers, (b"retry-after", str(wait).encode())] if wait else headers


Check = Callable[["RequestFilter", Scope], Refusal | None]


def check_host(request_filter: "RequestFilter", scope: Scope) -> Refusal | None:
    """Refuse host names that are not set for this server: DNS rebinding uses such names."""
    if scope["hutch.host"]:
        return None
    return Refusal(
        421,
        "Misdirected Request",
        "denied",
        "This server does not answer to that host name. Add it to server.hostnames if it should.",
    )


def check_origin(request_filter: "RequestFilter", scope: Scope) -> Refusal | None:
    """Refuse changes that a page of another origin sends, whatever credential they have."""
    if scope["hutch.preview"]:  # a preview has its own origin and checks it itself
        return None
    if scope["type"] == "http" and scope["method"] in SAFE_METHODS:
        return None
    if is_own_origin(request_filter.names, scope) is not False:
        return None
    return Refusal(403, "Forbidden", "denied", "This request was sent by a page of another site.")


def check_frequency(request_filter: "RequestFilter", scope: Scope) -> Refusal | None:
    """Limit requests by address until the caller is identified; then the credential is counted instead.

    Requests with a credential and requests without one are counted separately, so neither kind can use up
    the limit of the other. A cached credential always passes: it has its own bucket.
    """
    address, is_known_credential = address_key(scope["client"][0]), request_filter.is_known(scope)
    key = address if is_known_credential is None else f"{address} with a credential"
    wait_s = request_filter.buckets.take(key)
    if not wait_s:
        scope["hutch.counted"] = key
        return None
    if is_known_credential:
        return None
    return Refusal(
        429,
        "Too Many Requests",
        "too_many_requests",
        f"Too many requests from this address. Try again in {wait_s} s.",
        (("limit", "server.requests_per_minute"), ("retry_after_s", wait_s)),
    )


ALL_CHECKS: tuple[Check, ...] = (check_host, check_origin, check_frequency)


class RequestFilter:
    """Middleware around the whole application."""

    def __init__(
        self,
        app: App,
        *,
        server: Server,
        buckets: RateLimiter,
        checks: tuple[Check, ...] = ALL_CHECKS,
        refused: Callable[[Scope, str], None] = lambda scope, why: None,
        is_preview: Callable[[Scope], bool] = lambda scope: False,
        is_known: Callable[[Scope], bool | None] = lambda scope: None,
    ) -> None:
        self._app = app
        self._is_known = is_known  # whether the credential is cached as valid; None without one
        self._is_preview = is_preview  # whether the Host is that of a preview
        self.names = ServerNames.of(server)
        self.buckets = buckets
        self._checks = checks
        self._refused = refused  # called for requests that a page of another origin sent
        self._body_bytes = int(server.body_bytes)
        self._body_timeout_s = float(server.body_timeout_s)

    def is_known(self, scope: Scope) -> bool | None:
        """True if the credential of a request is cached as valid; None without one, and for previews."""
        return None if scope["hutch.preview"] else self._is_known(scope)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        preview = self._is_preview(scope)
        host = values(scope["headers"], b"host")[0].lower() if preview else self.names.host_of(scope)
        scheme = self.names.scheme_of(scope, host or "")
        scope = {
            **scope,
            "hutch.preview": preview,
            "hutch.host": host,
            "hutch.origin": f"{scheme}://{host}" if host else None,
            "client": (self.names.client_of(scope), (scope.get("client") or ("", 0))[1]),
            "scheme": scheme if scope["type"] == "http" else {"http": "ws", "https": "wss"}[scheme],
        }
        for check in self._checks:
            refusal = check(self, scope)
            if refusal is not None:
                if check is check_origin:
                    self._refused(scope, refusal.detail)
                await _refuse(scope, send, refusal)
                return
        if scope["type"] == "websocket":
            await self._app(scope, receive, send)
        else:
            await _Exchange(self._app, scope, receive, send, self._body_bytes, self._body_timeout_s).run()


def is_own_origin(names: ServerNames, scope: Scope) -> bool | None:
    """True if one of our pages sent the request; None if no page sent it."""
    fetch_sites = values(scope["headers"], b"sec-fetch-site")
    origins = values(scope["headers"], b"origin")
    if fetch_sites and fetch_sites not in (["same-origin"], ["none"]):  # none: the user entered the address
        return False
    if origins:
        return len(origins) == 1 and origins[0].lower() in {scope.get("hutch.origin"), names.public}
    return True if fetch_sites == ["same-origin"] else None


class _Exchange:
    """One request whose body is limited in size and time."""

    def __init__(
        self, app: App, scope: Scope, receive: Receive, send: Send, max_bytes: int, timeout_s: float
    ) -> None:
        self._app, self._scope, self._receive, self._send = app, scope, receive, send
        self._remaining_bytes = max_bytes
        self._max_bytes = max_bytes
        self._timeout_s = timeout_s
        self._until = time.monotonic() + timeout_s
        self._arrived = False
        self._started = False
        self._refusal: Refusal | None = None

    async def run(self) -> None:
        length = values(self._scope["headers"], b"content-length")
        if length and length[0].isascii() and length[0].isdigit() and int(length[0][:20]) > self._max_bytes:
            self._refusal = self._too_large()
            await self._drain()
            await _refuse(self._scope, self._send, self._refusal)
            return
        try:
            await self._app(self._scope, self.receive, self.send)
        except Exception:
            if self._refusal is None:
                raise
        if self._refusal is not None and not self._started:
            await self._drain()
            await _refuse(self._scope, self._send, self._refusal)

    async def _drain(self) -> None:
        """Read some of the body: a client that is still sending when we close does not read the response."""
        if values(self._scope["headers"], b"expect"):  # the client waits for our response before it sends
            return
        remaining_bytes = MAX_DRAINED_BYTES
        with suppress(TimeoutError):
            async with asyncio.timeout(DRAIN_TIMEOUT_S):
                while remaining_bytes > 0 and not self._arrived:
                    message = await self._receive()
                    remaining_bytes -= len(message.get("body", b""))
                    self._arrived = not message.get("more_body", False)

    async def receive(self) -> Message:
        """The next chunk of the body. After a refusal the application sees a disconnect."""
        if self._refusal is not None:
            return {"type": "http.disconnect"}
        if self._arrived:
            return await self._receive()
        try:
            async with asyncio.timeout(max(0.0, self._until - time.monotonic())):
                message = await self._receive()
        except TimeoutError:
            self._refusal = self._too_slow()
            return {"type": "http.disconnect"}
        if message["type"] != "http.request":
            return message
        self._remaining_bytes -= len(message.get("body", b""))
        self._arrived = not message.get("more_body", False)
        if self._remaining_bytes < 0:
            self._refusal = self._too_large()
            return {"type": "http.disconnect"}
        return message

    async def send(self, message: Message) -> None:
        """Forward the response, unless the request was refused."""
        if self._refusal is not None and not self._started:
            return
        if message["type"] == "http.response.start":
            self._started = True
            message = {**message, "headers": self._with_ours(message.get("headers", ()))}
        await self._send(message)

    def _with_ours(self, headers: Any) -> list[tuple[bytes, bytes]]:
        """Add our default headers that the response does not set itself. Previews get none."""
        if self._scope["hutch.preview"]:
            return list(headers)
        ours = list(ALWAYS)
        if self._scope["scheme"] == "https":
            ours.append(HSTS)
        if self._scope["path"].startswith("/api/"):
            ours.append((b"cache-control", b"private, no-cache"))
        present = {name.lower() for name, _ in headers}
        return [*headers, *((name, value) for name, value in ours if name not in present)]

    def _too_large(self) -> Refusal:
        return Refusal(
            413,
            "Content Too Large",
            "limit_reached",
            f"A request body has at most {self._max_bytes} bytes. Send less, or raise server.body_bytes.",
            (("limit", "server.body_bytes"),),
        )

    def _too_slow(self) -> Refusal:
        return Refusal(
            408,
            "Request Timeout",
            "limit_reached",
            f"The request did not arrive within {self._timeout_s:g} s. Send it faster, or in smaller parts.",
            (("limit", "server.body_timeout_s"),),
        )


async def _refuse(scope: Scope, send: Send, refusal: Refusal) -> None:
    if scope["type"] == "http":
        kind = "http.response"
    elif "websocket.http.response" in scope.get("extensions", {}):
        kind = "websocket.http.response"
    else:
        await send({"type": "websocket.close", "code": 1008, "reason": refusal.detail[:120]})
        return
    await send({"type": f"{kind}.start", "status": refusal.status, "headers": refusal.headers()})
    await send({"type": f"{kind}.body", "body": refusal.body()})
