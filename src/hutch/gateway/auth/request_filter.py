"""The doors: every request and every WebSocket passes here before anything else sees it.

Refused is what comes under a name that is not ours, what a page of another origin sends,
what is too large or too slow to arrive, and who asks too often. Plain ASGI, so that it
holds for whatever stands behind, and costs next to nothing.
"""

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, MutableMapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from hutch.gateway.auth.rate_limits import Buckets, address_key
from hutch.gateway.auth.server_names import Names, values
from hutch.logs import current_trace_id
from hutch.settings.server_sections import Server

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
DRAINED_BYTES, DRAINED_S = 64 * 1024 * 1024, 1.0
HSTS = (b"strict-transport-security", b"max-age=31536000")


@dataclass(frozen=True, slots=True)
class Refusal:
    """An answer from the door."""

    status: int
    title: str
    code: str
    detail: str
    more: tuple[tuple[str, Any], ...] = ()

    def body(self) -> bytes:
        told = {
            "type": "about:blank",
            "title": self.title,
            "status": self.status,
            "code": self.code,
            "detail": self.detail,
            "trace_id": current_trace_id(),
        }
        return json.dumps({**told, **dict(self.more)}).encode()

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
    """A name that a stranger points at this machine is not answered."""
    if scope["hutch.host"]:
        return None
    return Refusal(
        421,
        "Misdirected Request",
        "denied",
        "This server is not called by that name. Names of its own are set in server.hostnames.",
    )


def check_origin(request_filter: "RequestFilter", scope: Scope) -> Refusal | None:
    """What a page of another origin sends is refused, whoever it says it is from."""
    if scope["hutch.preview"]:  # a page of a jail, with an origin of its own: the preview checks it
        return None
    if scope["type"] == "http" and scope["method"] in SAFE_METHODS:
        return None
    if is_own_origin(request_filter.names, scope) is not False:
        return None
    return Refusal(403, "Forbidden", "denied", "This was sent by a page that is not of this server.")


def check_frequency(request_filter: "RequestFilter", scope: Scope) -> Refusal | None:
    """Whoever is recognised later gets it back, and is counted by what they showed.

    Requests that show a token or a cookie and those that show nothing are counted apart, so that the one
    kind cannot use up what the other needs. A token that was recognised before passes in any case: it has a
    bucket of its own.
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


ALL: tuple[Check, ...] = (check_host, check_origin, check_frequency)


class RequestFilter:
    """Middleware around the whole application."""

    def __init__(
        self,
        app: App,
        *,
        server: Server,
        buckets: Buckets,
        checks: tuple[Check, ...] = ALL,
        refused: Callable[[Scope, str], None] = lambda scope, why: None,
        is_preview: Callable[[Scope], bool] = lambda scope: False,
        is_known: Callable[[Scope], bool | None] = lambda scope: None,
    ) -> None:
        self._app = app
        self._is_known = is_known  # whether a credential is known to be good; None where none is shown
        self._is_preview = is_preview  # whether the Host is that of a page in a jail
        self.names = Names.of(server)
        self.buckets = buckets
        self._checks = checks
        self._refused = refused  # told of what a page of another origin sent
        self._body_bytes = int(server.body_bytes)
        self._body_timeout_s = float(server.body_timeout_s)

    def is_known(self, scope: Scope) -> bool | None:
        """Whether the credential of a request was recognised before; None without one, and from a jail."""
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


def is_own_origin(names: Names, scope: Scope) -> bool | None:
    """Whether it comes from a page of ours; None when it does not come from a page at all."""
    sites = values(scope["headers"], b"sec-fetch-site")
    origins = values(scope["headers"], b"origin")
    if sites and sites not in (["same-origin"], ["none"]):  # none: typed by a person
        return False
    if origins:
        return len(origins) == 1 and origins[0].lower() in {scope.get("hutch.origin"), names.public}
    return True if sites == ["same-origin"] else None


class _Exchange:
    """One request, watched while its body arrives."""

    def __init__(
        self, app: App, scope: Scope, receive: Receive, send: Send, most_bytes: int, timeout_s: float
    ) -> None:
        self._app, self._scope, self._receive, self._send = app, scope, receive, send
        self._left_bytes = most_bytes
        self._most_bytes = most_bytes
        self._timeout_s = timeout_s
        self._until = time.monotonic() + timeout_s
        self._arrived = False
        self._started = False
        self._refusal: Refusal | None = None

    async def run(self) -> None:
        length = values(self._scope["headers"], b"content-length")
        if length and length[0].isascii() and length[0].isdigit() and int(length[0][:20]) > self._most_bytes:
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
        """Hear a little more of it: who is still speaking when the line is cut never hears why."""
        if values(self._scope["headers"], b"expect"):  # it waits for our word before it sends
            return
        left_bytes = DRAINED_BYTES
        with suppress(TimeoutError):
            async with asyncio.timeout(DRAINED_S):
                while left_bytes > 0 and not self._arrived:
                    message = await self._receive()
                    left_bytes -= len(message.get("body", b""))
                    self._arrived = not message.get("more_body", False)

    async def receive(self) -> Message:
        """The next piece of the body; when it is refused, the application hears that the caller left."""
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
        self._left_bytes -= len(message.get("body", b""))
        self._arrived = not message.get("more_body", False)
        if self._left_bytes < 0:
            self._refusal = self._too_large()
            return {"type": "http.disconnect"}
        return message

    async def send(self, message: Message) -> None:
        """Pass an answer on, unless the door gives one of its own."""
        if self._refusal is not None and not self._started:
            return
        if message["type"] == "http.response.start":
            self._started = True
            message = {**message, "headers": self._with_ours(message.get("headers", ()))}
        await self._send(message)

    def _with_ours(self, headers: Any) -> list[tuple[bytes, bytes]]:
        """What every answer says, unless it says otherwise itself; a page of a jail says what it likes."""
        if self._scope["hutch.preview"]:
            return list(headers)
        ours = list(ALWAYS)
        if self._scope["scheme"] == "https":
            ours.append(HSTS)
        if self._scope["path"].startswith("/api/"):
            ours.append((b"cache-control", b"private, no-cache"))
        said = {name.lower() for name, _ in headers}
        return [*headers, *((name, value) for name, value in ours if name not in said)]

    def _too_large(self) -> Refusal:
        return Refusal(
            413,
            "Content Too Large",
            "limit_reached",
            f"A request carries at most {self._most_bytes} bytes. Send less, or raise server.body_bytes.",
            (("limit", "server.body_bytes"),),
        )

    def _too_slow(self) -> Refusal:
        return Refusal(
            408,
            "Request Timeout",
            "limit_reached",
            f"The request did not arrive within {self._timeout_s:g} s. Send it faster, or in smaller pieces.",
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
