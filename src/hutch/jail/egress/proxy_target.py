"""Parses the target of a proxy request strictly.

h11 splits the request into its parts; here the target becomes a host and a port.
Anything that two readers could understand differently is refused: users in the URL, a
different Host header, two framings of a body.
"""

import h11

from hutch.domain.errors import BadRequest
from hutch.jail.egress.host_normalization import join_authority, parse_host, split_authority
from hutch.system.lazy_dataclass import dataclass

# For this hop alone; a request may name more of them in Connection.
_HOP_BY_HOP = {
    *(b"connection", b"keep-alive", b"proxy-connection", b"proxy-authorization", b"proxy-authenticate"),
    *(b"te", b"trailer", b"transfer-encoding", b"upgrade"),
}
_FRAMING = {b"content-length", b"transfer-encoding"}

Headers = list[tuple[bytes, bytes]]


@dataclass(frozen=True, slots=True)
class Target:
    """The destination of a request; `path` is empty for CONNECT."""

    host: str
    port: int
    path: str = ""


def parse_target(request: h11.Request) -> Target:
    """The one host that this request is for, or BadRequest."""
    if request.http_version not in (b"1.0", b"1.1"):
        raise BadRequest(f"HTTP/{request.http_version.decode()} is not supported. Use HTTP/1.1.")
    names = [name for name, _ in request.headers]
    if b"content-length" in names and b"transfer-encoding" in names:
        raise BadRequest("Request has both Content-Length and Transfer-Encoding. Send one of them.")
    text = request.target.decode("ascii")
    if request.method == b"CONNECT":
        return _connect_target(text, request)
    scheme, mark, rest = text.partition("://")
    if not mark:
        raise BadRequest(f"This is a proxy: request a URL like http://example.com/, not {text[:200]!r}.")
    if scheme.lower() != "http":
        raise BadRequest(f"The proxy forwards http:// URLs, not {scheme[:20]}://. Use CONNECT for https.")
    cut = min((at for at in map(rest.find, "/?#") if at >= 0), default=len(rest))
    target = _authority(rest[:cut], default_port=80)
    path = rest[cut:]
    if "#" in path:
        raise BadRequest("URL has a fragment (#). Remove it.")
    for name, value in request.headers:
        if name == b"host" and _authority(value.decode("latin-1"), default_port=80) != target:
            raise BadRequest(
                f"Host header {value.decode('latin-1')[:200]!r} is not the host of the URL, "
                f"{join_authority(target.host, target.port)!r}. Send the same in both."
            )
    return Target(target.host, target.port, path if path.startswith("/") else f"/{path}")


def forwarded_headers(target: Target, request: h11.Request) -> Headers:
    """The headers for the upstream: without those of this hop, and with Host as parsed here."""
    host = join_authority(target.host, None if target.port == 80 else target.port).encode()
    passed = [(name, value) for name, value in end_to_end(list(request.headers)) if name != b"host"]
    return [(b"host", host), *passed, *framing(list(request.headers)), (b"connection", b"close")]


def end_to_end(headers: Headers) -> Headers:
    """Headers without those of this hop, and without the framing, which each hop sets itself."""
    named = {
        word.strip().lower()
        for name, value in headers
        if name in (b"connection", b"proxy-connection")
        for word in value.split(b",")
    }
    return [
        (name, value) for name, value in headers if name not in _HOP_BY_HOP | _FRAMING and name not in named
    ]


def framing(headers: Headers) -> Headers:
    """The headers that delimit the body; chunked wins over a length, as in h11."""
    found = [(name, value) for name, value in headers if name in _FRAMING]
    return [header for header in found if header[0] == b"transfer-encoding"] or found


def _connect_target(text: str, request: h11.Request) -> Target:
    if any(name in _FRAMING and value != b"0" for name, value in request.headers):
        raise BadRequest("CONNECT has a body. Send it without Content-Length or Transfer-Encoding.")
    return _authority(text, default_port=None)


def _authority(text: str, default_port: int | None) -> Target:
    if "@" in text:
        raise BadRequest(f"{text[:200]!r} has a user in it. Send credentials in a header, not in the URL.")
    host, port = split_authority(text)
    port = port or default_port
    if port is None:
        raise BadRequest(f"{text[:200]!r} has no port. Send CONNECT host:port.")
    return Target(parse_host(host), port)
