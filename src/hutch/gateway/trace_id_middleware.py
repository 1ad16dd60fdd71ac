"""Gives every request a trace id: in its response, in every log line, and in the jail.

The outermost middleware. It catches all remaining exceptions, so that their responses have
the id too. Callers may send their own in the header `traceparent` (W3C).
"""

import re
from typing import Any

import structlog
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from hutch.gateway.problem_json import bug_response
from hutch.logs import trace

_TRACEPARENT = re.compile(rb"[0-9a-f]{2}-([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}(?:-.*)?")

logger = structlog.get_logger()


class Traced:
    """Middleware around the whole application."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        with trace(_caller_trace_id(scope["headers"])) as trace_id:
            scope["hutch.trace_id"] = trace_id
            header = (b"x-trace-id", trace_id.encode())
            started = False

            async def send_on(message: Message) -> None:
                nonlocal started
                if message["type"].endswith(("http.response.start", "websocket.accept")):
                    started = True
                    message = {**message, "headers": [*message.get("headers", ()), header]}
                await send(message)

            try:
                await self._app(scope, receive, send_on)
            except Exception as error:
                if started or scope["type"] != "http":
                    logger.error("request.failed", exc_info=error)
                    raise
                await bug_response(error)(scope, receive, send_on)


def _caller_trace_id(headers: Any) -> str | None:
    """The trace id that the caller sent, if it is valid."""
    found = [value for name, value in headers if name == b"traceparent"]
    match = _TRACEPARENT.fullmatch(found[0]) if len(found) == 1 else None
    return match[1].decode() if match else None
