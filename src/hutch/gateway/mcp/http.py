"""MCP over streamable HTTP, for clients on this machine.

Whoever may call bash here may do a lot, and browsers knock on every door: only a
loopback address is listened on, the Host and Origin of a request must be this
server's own (so no page can come here under a name of its choosing), and the
caller must know the token.

A client of MCP's older protocol that vanishes does not end its session. The library ends
it when it was idle for half an hour, and there is room for many until then.
"""

import asyncio
import ipaddress
import json
import secrets
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import uvicorn
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.server.transport_security import TransportSecuritySettings

from hutch.domain.errors import BadRequest, Denied, Unavailable
from hutch.flows.tool_calls import Tools
from hutch.gateway.mcp.server import make_server

PATH = "/mcp"
MAX_SESSIONS = 1000
MAX_BODY_BYTES = 16 * 1024 * 1024
TIMEOUT_S = 2  # for requests under way when the server ends


def listen(address: str) -> socket.socket:
    """A socket at `PORT`, `HOST:PORT` or `[HOST]:PORT` of this machine; port 0 takes a free one."""
    host, _, port = address.rpartition(":")
    host = host.removeprefix("[").removesuffix("]") or "127.0.0.1"
    if not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise BadRequest(
            f"'{address}' is not an address. Give one such as 127.0.0.1:8765, or the port alone."
        )
    host = "127.0.0.1" if host == "localhost" else host
    if not _is_loopback(host):
        raise Denied(
            f"'{host}' can be reached from other machines, and what goes to it is not encrypted. Listen on "
            f"127.0.0.1:{port}, and let others in by ssh -L or a proxy that speaks TLS."
        )
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, int(port)), family=family)
    except OSError as error:
        raise Unavailable(f"{address} cannot be listened on: {error.strerror}. Name another port.") from None


def address_of(listener: socket.socket) -> str:
    """Where clients find it."""
    host, port = listener.getsockname()[:2]
    return f"http://{f'[{host}]' if ':' in host else host}:{port}{PATH}"


async def serve_http(tools: Tools, listener: socket.socket, token: str | None) -> None:
    """Speak with all who come, until this task is cancelled. Without a token nobody is asked for one."""
    manager = StreamableHTTPSessionManager(
        make_server(tools),
        security_settings=_own_names(listener),
        max_request_body_size=MAX_BODY_BYTES,
        max_sessions=MAX_SESSIONS,
    )

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["path"] != PATH:
            await _refuse(send, 404, f"There is only {PATH} here.")
        elif token is not None and not _bears(scope["headers"], token):
            await _refuse(
                send, 401, "The token is missing or wrong. Send the header: Authorization: Bearer TOKEN."
            )
        else:
            await manager.handle_request(scope, receive, send)

    config = uvicorn.Config(
        app,
        http="h11",
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=TIMEOUT_S,
    )
    async with manager.run():
        server = _Server(config)
        serving = asyncio.ensure_future(server.serve(sockets=[listener]))
        try:
            await asyncio.shield(serving)
        except asyncio.CancelledError:
            server.should_exit = True
            await serving
            raise


class _Server(uvicorn.Server):
    """One that leaves the signals to whoever started it."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False  # a name may mean anything tomorrow


def _own_names(listener: socket.socket) -> TransportSecuritySettings:
    port = listener.getsockname()[1]
    bound = address_of(listener).removeprefix("http://").removesuffix(PATH)
    names = [bound, *(f"{host}:{port}" for host in ("127.0.0.1", "localhost", "[::1]"))]
    return TransportSecuritySettings(
        allowed_hosts=names, allowed_origins=[f"http://{name}" for name in names]
    )


def _bears(headers: list[tuple[bytes, bytes]], token: str) -> bool:
    given = [value for name, value in headers if name == b"authorization"]
    scheme, _, value = given[0].partition(b" ") if len(given) == 1 else (b"", b"", b"")
    return scheme.lower() == b"bearer" and secrets.compare_digest(value.strip(), token.encode())


async def _refuse(send: Any, status: int, message: str) -> None:
    body = json.dumps({"error": message}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    if status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
