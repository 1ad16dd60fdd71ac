"""MCP over streamable HTTP, for clients on this machine.

A caller of bash can do a lot, and any web page can send requests to this machine. So the
server listens on loopback addresses only, the Host and Origin of a request must be its own
(against DNS rebinding), and the caller must know the token.

A client of MCP's older protocol that vanishes does not end its session. The library ends
it after half an hour without requests; until then there is capacity for many.
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
from hutch.flows.external_tool_calls import Tools
from hutch.gateway.mcp.directory_tool_server import make_server

PATH = "/mcp"
MAX_SESSIONS = 1000
MAX_BODY_BYTES = 16 * 1024 * 1024
TIMEOUT_S = 2  # for requests in progress when the server ends


def listen(address: str) -> socket.socket:
    """A socket at `PORT`, `HOST:PORT` or `[HOST]:PORT` of this machine; port 0 takes a free one."""
    host, _, port = address.rpartition(":")
    host = host.removeprefix("[").removesuffix("]") or "127.0.0.1"
    if not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise BadRequest(f"'{address}' is not an address. Use one such as 127.0.0.1:8765, or only a port.")
    host = "127.0.0.1" if host == "localhost" else host
    if not _is_loopback(host):
        raise Denied(
            f"Other machines can reach '{host}', and the traffic is not encrypted. Listen on "
            f"127.0.0.1:{port}, and let others connect by ssh -L or a TLS proxy."
        )
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, int(port)), family=family)
    except OSError as error:
        raise Unavailable(f"Cannot listen on {address}: {error.strerror}. Choose another port.") from None


def address_of(listener: socket.socket) -> str:
    """The address and port of a listener."""
    host, port = listener.getsockname()[:2]
    return f"http://{f'[{host}]' if ':' in host else host}:{port}{PATH}"


async def serve_http(tools: Tools, listener: socket.socket, token: str | None) -> None:
    """Serve all clients until this task is cancelled. `token` None: callers need none."""
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
    """A server that does not handle signals: its starter does."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False  # a name can resolve to another address later


def _own_names(listener: socket.socket) -> TransportSecuritySettings:
    port = listener.getsockname()[1]
    bound = address_of(listener).removeprefix("http://").removesuffix(PATH)
    names = [bound, *(f"{host}:{port}" for host in ("127.0.0.1", "localhost", "[::1]"))]
    return TransportSecuritySettings(
        allowed_hosts=names, allowed_origins=[f"http://{name}" for name in names]
    )


def _bears(headers: list[tuple[bytes, bytes]], token: str) -> bool:
    credentials = [value for name, value in headers if name == b"authorization"]
    scheme, _, value = credentials[0].partition(b" ") if len(credentials) == 1 else (b"", b"", b"")
    return scheme.lower() == b"bearer" and secrets.compare_digest(value.strip(), token.encode())


async def _refuse(send: Any, status: int, message: str) -> None:
    body = json.dumps({"error": message}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    if status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
