"""Metrics for Prometheus: requests, sessions, runs, models, and the process itself.

Requests are counted by the template of their route, never by path, so that clients cannot
fill the server's memory with many paths.
"""

import asyncio
import ipaddress
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

import structlog
from fastapi import APIRouter, Request, Response
from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    disable_created_metrics,
)
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from starlette.routing import Match
from starlette.types import ASGIApp, Message, Receive, Scope, Send

import hutch
from hutch.domain.errors import Denied
from hutch.domain.trace_id import traced
from hutch.gateway.auth.authenticator import client_of
from hutch.gateway.auth.caller_dependency import authenticator_of
from hutch.gateway.gateway_context import Server
from hutch.gateway.health_and_status import host_of
from hutch.gateway.log_event_metrics import Counts
from hutch.gateway.stream.open_streams import streams_of
from hutch.store.database_readiness import database_bytes
from hutch.store.run_queue import Runs
from hutch.store.sessions import Sessions

URL = "/metrics"
METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
READING = frozenset({"GET", "HEAD", "OPTIONS"})  # of these, only failures are logged
HEARTBEAT = "/heartbeat"  # ends routes that a client calls every few seconds: the same
SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)
LAG_POLL_INTERVAL_S = 0.25
FORWARDED = (b"x-forwarded-for", b"forwarded", b"via", b"x-real-ip")
SEEN = "hutch.route"  # in a scope: the route, for middleware outside the router
PAGE, PREVIEW, UNKNOWN = "page", "preview", "unknown"  # labels of requests without a route
ANSWERS = ("http.response.start", "websocket.http.response.start", "websocket.accept", "websocket.close")
HANDSHAKE = "GET"  # the method of every WebSocket handshake

logger = structlog.get_logger("hutch.requests")
routes = APIRouter()
disable_created_metrics()  # type: ignore[no-untyped-call]  # one unused line per metric


class Metrics:
    """All metrics of one application."""

    def __init__(self, server: Server) -> None:
        self.registry = registry = CollectorRegistry(auto_describe=True)
        self._server = server
        self.requests = Counter(
            "hutch_http_requests",
            "Answered requests.",
            ["method", "route", "status"],
            registry=registry,
        )
        self.seconds = Histogram(
            "hutch_http_request_seconds",
            "Time until a response began.",
            ["method", "route"],
            buckets=SECONDS,
            registry=registry,
        )
        self.sockets = Gauge("hutch_websockets_open", "WebSockets.", ["route"], registry=registry)
        self.lag = Histogram(
            "hutch_event_loop_lag_seconds",
            "Delay of the event loop.",
            buckets=SECONDS,
            registry=registry,
        )
        self._sessions = Gauge("hutch_sessions", "Sessions.", ["state"], registry=registry)
        self._runs = Gauge("hutch_runs", "Runs.", ["state"], registry=registry)
        self._jails = Gauge("hutch_jails_open", "Open jails.", registry=registry)
        self._followers = Gauge("hutch_followers", "Clients that follow a session.", registry=registry)
        self._streams = Gauge(
            "hutch_streams_open", "Open streams: SSE, WebSockets, terminals.", registry=registry
        )
        self._database = Gauge("hutch_database_bytes", "Size of the database.", registry=registry)
        Gauge("hutch_build_info", "The running version.", ["version"], registry=registry).labels(
            hutch.__version__
        ).set(1)
        ProcessCollector(registry=registry)
        self.counts = Counts(registry)

    @asynccontextmanager
    async def measuring(self) -> AsyncIterator[None]:
        """Count events and measure the event loop's delay while the block lasts."""
        self._server.log.listeners.append(self.counts)
        watching = asyncio.ensure_future(self._watch_loop())
        try:
            yield
        finally:
            self._server.log.listeners.remove(self.counts)
            watching.cancel()
            with suppress(asyncio.CancelledError):
                await watching

    async def text(self, streams: int) -> bytes:
        """All metrics in the format of Prometheus."""
        server = self._server
        for gauge, counts in (
            (self._sessions, await Sessions(server.rows).counts()),
            (self._runs, await Runs(server.rows).counts()),
        ):
            gauge.clear()
            for state, count in counts.items():
                gauge.labels(state).set(count)
        host = host_of(server)
        self._jails.set(host.jails)
        self._followers.set(host.followers)
        self._streams.set(streams)
        self._database.set(await database_bytes(server.rows, server.loaded.paths.database))
        return generate_latest(self.registry)

    async def _watch_loop(self) -> None:
        while True:
            began = time.perf_counter()
            await asyncio.sleep(LAG_POLL_INTERVAL_S)
            self.lag.observe(max(0.0, time.perf_counter() - began - LAG_POLL_INTERVAL_S))


class Measured:
    """Middleware outside the request filter, so that refused requests count too."""

    def __init__(self, app: ASGIApp, metrics: Metrics, is_preview: Callable[[Scope], bool]) -> None:
        self._app, self._metrics, self._is_preview = app, metrics, is_preview

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await self._http(scope, receive, send)
        elif scope["type"] == "websocket":
            await self._socket(scope, receive, send)
        else:
            await self._app(scope, receive, send)

    async def _http(self, scope: Scope, receive: Receive, send: Send) -> None:
        method = scope["method"] if scope["method"] in METHODS else "other"
        request = _Metered(self._metrics, scope, method, self._is_preview)

        async def send_on(message: Message) -> None:
            if message["type"] in ANSWERS:
                request.answered(message["status"])
            await send(message)

        await self._app(scope, receive, send_on)
        status = request.status
        is_quiet = method in READING or (status < 400 and request.label.endswith(HEARTBEAT))
        if status >= 500 or not is_quiet:
            with traced(scope.get("hutch.trace_id", "")):
                took_ms = round((time.perf_counter() - request.began) * 1000, 1)
                route = request.label
                logger.info("request.answered", method=method, route=route, status=status, took_ms=took_ms)

    async def _socket(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = _Metered(self._metrics, scope, HANDSHAKE, self._is_preview)
        opened: list[Gauge] = []

        async def send_on(message: Message) -> None:
            if message["type"] in ANSWERS and not request.status:
                request.answered(_handshake_status(message))
                if message["type"] == "websocket.accept":
                    opened.append(self._metrics.sockets.labels(request.label))
                    opened[0].inc()
            await send(message)

        try:
            await self._app(scope, receive, send_on)
        except Exception:
            if not request.status:
                request.answered(500)  # the status that uvicorn then sends
            raise
        finally:
            for gauge in opened:
                gauge.dec()


class _Metered:
    """One request or handshake, and its status."""

    def __init__(
        self, metrics: Metrics, scope: Scope, method: str, is_preview: Callable[[Scope], bool]
    ) -> None:
        self._metrics, self._scope, self._method, self._is_preview = metrics, scope, method, is_preview
        self.began, self.status = time.perf_counter(), 0
        self.seen = scope[SEEN] = [""]  # filled in by `Routed` if the request reaches it

    @property
    def label(self) -> str:
        return self.seen[0] or UNKNOWN

    def answered(self, status: int) -> None:
        self.status = status
        if not self.seen[0]:  # refused before any route saw it
            self.seen[0] = PREVIEW if self._is_preview(self._scope) else _addressed(self._scope)
        self._metrics.requests.labels(self._method, self.label, str(status)).inc()
        self._metrics.seconds.labels(self._method, self.label).observe(time.perf_counter() - self.began)


def _handshake_status(message: Message) -> int:
    """The status that the client gets: a close before any accept becomes a 403."""
    if message["type"] == "websocket.accept":
        return 101
    return int(message.get("status", 403))


class Routed:
    """Middleware next to the router: stores the route for the outer middleware."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        seen = scope.get(SEEN)
        if seen is None:
            await self._app(scope, receive, send)
            return

        async def send_on(message: Message) -> None:
            if not seen[0]:
                seen[0] = _route_path(scope)
            await send(message)

        await self._app(scope, receive, send_on)


def _addressed(scope: Scope) -> str:
    """The path of the route for a request that was refused before it reached the router."""
    matches = [(route.matches(scope)[0], route) for route in scope["app"].router.routes]
    fitting = sorted(
        (each for each in matches if each[0] is not Match.NONE), key=lambda each: -each[0].value
    )  # a route for another method is better than none
    return str(getattr(fitting[0][1], "path", "")) if fitting else ""


def _route_path(scope: Scope) -> str:
    """The path template of the route; empty if there is none."""
    if scope["hutch.preview"]:
        return PREVIEW  # pages of a jail have their own paths
    if (route := scope.get("route")) is None and (endpoint := scope.get("endpoint")) is not None:
        # A plain route (streams, GraphQL, MCP) does not store itself in the scope.
        routes = scope["app"].router.routes
        route = next((each for each in routes if getattr(each, "endpoint", None) is endpoint), None)
    return str(getattr(route, "path", ""))


@routes.get(URL, include_in_schema=False)
async def metrics(request: Request) -> Response:
    await _admit(request)
    found: Metrics = request.app.state.metrics
    return Response(await found.text(len(streams_of(request.app))), media_type=CONTENT_TYPE_LATEST)


async def _admit(request: Request) -> None:
    """Admit all callers if the settings say so; else callers on this machine, and owners."""
    server: Server = request.app.state.server
    if server.loaded.settings.server.metrics_open or _is_local(request.scope):
        return
    caller = await authenticator_of(request).recognise(request.scope)
    caller.need("read")
    if caller.user.role != "owner":
        raise Denied(f"Only owners may read this, and {caller.user.name} is not one.")


def _is_local(scope: Any) -> bool:
    """True if the client is on this machine. Requests that a local proxy forwards are not local."""
    if any(name in FORWARDED for name, _ in scope["headers"]):
        return False
    try:
        return ipaddress.ip_address(client_of(scope)).is_loopback
    except ValueError:
        return False
