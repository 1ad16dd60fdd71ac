"""Reads the server name from the first message of a TLS client.

A tunnel to an allowed host may end at a server for many sites, which selects one by
this name. So the name must be the host that was allowed. Only the first message is
read; all that follows is opaque.
"""

from typing import Final

from hutch.domain.errors import BadRequest
from hutch.jail.egress.host_normalization import parse_host

MAX_HELLO_BYTES: Final = 16 * 1024
_MAX_RECORDS: Final = 16  # a hello split into thousands of records only costs time
_HANDSHAKE: Final = 0x16
_CLIENT_HELLO: Final = 1
_SERVER_NAME: Final = 0


def looks_like_tls(first: bytes) -> bool:
    return first[:1] == bytes([_HANDSHAKE])


def server_name(received: bytes) -> str | None:
    """The requested name; None when the client sent none.

    Raises Incomplete while more bytes are needed, and BadRequest for anything that a strict reader and a
    lenient server could understand differently.
    """
    hello = _Bytes(_hello_message(received))
    hello.take(2 + 32)  # legacy version, random
    hello.take(hello.number(1))  # session id
    hello.take(hello.number(2))  # cipher suites
    hello.take(hello.number(1))  # compression methods
    if not hello.remaining:
        return None
    extensions = hello.sub(2)
    hello.end()
    found: list[str] = []
    while extensions.remaining:
        kind, body = extensions.number(2), extensions.sub(2)
        if kind == _SERVER_NAME:
            names = body.sub(2)
            body.end()
            while names.remaining:
                if names.number(1) != 0:
                    raise BadRequest("TLS server name of an unknown kind. Send a host name.")
                found.append(names.take(names.number(2)).decode("ascii", "replace"))
    if len(found) > 1:
        raise BadRequest(f"TLS client hello names {len(found)} servers. Send one.")
    return parse_host(found[0]) if found else None


class Incomplete(Exception):
    """The message has not fully arrived."""


def _hello_message(received: bytes) -> bytes:
    """The body of the ClientHello, joined from its records."""
    if len(received) > MAX_HELLO_BYTES:
        raise BadRequest(f"TLS client hello is over {MAX_HELLO_BYTES} bytes. Send a shorter one.")
    message = b""
    at = records = 0
    while len(message) < 4 or len(message) < 4 + int.from_bytes(message[1:4]):
        head = received[at : at + 5]
        if head and head[0] != _HANDSHAKE:
            raise BadRequest("TLS client hello is interrupted by another record. Send it whole.")
        size = int.from_bytes(head[3:5])
        if len(head) == 5 and (size == 0 or head[1] != 3):
            raise BadRequest("TLS record is malformed. Use TLS 1.2 or later.")
        if len(head) < 5 or len(received) < at + 5 + size:
            raise Incomplete
        message += received[at + 5 : at + 5 + size]
        at += 5 + size
        records += 1
        if records > _MAX_RECORDS:
            raise BadRequest(f"TLS client hello is in over {_MAX_RECORDS} records. Send it in one.")
    if message[0] != _CLIENT_HELLO:
        raise BadRequest("TLS does not start with a client hello. Use TLS 1.2 or later.")
    return message[4 : 4 + int.from_bytes(message[1:4])]


class _Bytes:
    """Length-prefixed fields, read strictly."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    @property
    def remaining(self) -> int:
        return len(self._data) - self._at

    def take(self, count: int) -> bytes:
        if count > self.remaining:
            raise BadRequest("TLS client hello has a field longer than itself. Send it well-formed.")
        self._at += count
        return self._data[self._at - count : self._at]

    def number(self, width: int) -> int:
        return int.from_bytes(self.take(width))

    def sub(self, width: int) -> "_Bytes":
        return _Bytes(self.take(self.number(width)))

    def end(self) -> None:
        if self.remaining:
            raise BadRequest("TLS client hello has bytes after its end. Send it well-formed.")
