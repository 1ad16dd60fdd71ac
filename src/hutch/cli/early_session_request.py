"""The request that creates a session, sent before the rest of a command is loaded.

A local server works on it meanwhile. This module reports no errors: without such a server, or after an
unexpected response, `ServedSessions.create` sends the same bytes with the same idempotency key and reports
what is wrong.
"""

import json
import os
import socket
from contextlib import suppress
from urllib.parse import urlsplit

import hutch
from hutch.cli.new_session_request_body import request_body
from hutch.cli.server_address_and_token import API, Address, find_address, local_address
from hutch.domain.errors import HutchError
from hutch.domain.session import NewSession
from hutch.settings import find_paths
from hutch.system.lazy_dataclass import dataclass

CONNECT_S = 1.0


@dataclass(frozen=True, slots=True)
class EarlyRequest:
    """A request that was sent; its response is not read yet."""

    key: str  # the idempotency key
    body: bytes
    connection: socket.socket


def send_early(new: NewSession, *, any_server: bool) -> EarlyRequest | None:
    """Request a session from the local server; None when the client must do so.

    With `any_server` the user may have chosen a remote server, which only the client can reach.
    """
    with suppress(HutchError, OSError):
        address = find_address() if any_server else local_address(find_paths())
        if address.kind == "local" and address.url.startswith("http:"):
            body = json.dumps(request_body(new, is_local=True)).encode()
            return _send(address, body, os.urandom(16).hex())
    return None


def _send(address: Address, body: bytes, key: str) -> EarlyRequest:
    where = urlsplit(address.url)
    head = (
        f"POST {API}/sessions HTTP/1.1\r\n"
        f"Host: {where.netloc}\r\n"
        f"User-Agent: hutch/{hutch.__version__}\r\n"
        f"Authorization: Bearer {address.token}\r\n"
        "Accept: application/json\r\n"
        "Content-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\n"
        f"Idempotency-Key: {key}\r\n"
        "Connection: close\r\n\r\n"
    )
    connection = socket.create_connection((where.hostname or "", where.port or 80), CONNECT_S)
    try:
        connection.sendall(head.encode() + body)
    except BaseException:
        connection.close()
        raise
    connection.setblocking(False)
    return EarlyRequest(key, body, connection)
