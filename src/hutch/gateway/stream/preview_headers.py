"""Rewrites headers of requests to a program in a jail, and of its responses.

Hop-by-hop headers are not forwarded. The program gets no credentials for Hutch, and its
responses can affect no other host name than their own.
"""

import re
from collections.abc import Iterable, Sequence

Header = tuple[bytes, bytes]

COOKIE = "hutch_preview"
HOP_BY_HOP = frozenset(
    (
        *(b"connection", b"keep-alive", b"proxy-connection", b"proxy-authenticate", b"proxy-authorization"),
        *(b"te", b"trailer", b"transfer-encoding", b"upgrade"),
    )
)
NOT_IN = HOP_BY_HOP | {b"host", b"expect", b"x-csrf-token", b"forwarded", b"hutch-session"}
# These affect the whole host, or its neighbours: reports on traffic, trust, and stored data.
NOT_OUT = HOP_BY_HOP | {
    *(b"strict-transport-security", b"alt-svc", b"nel", b"report-to", b"reporting-endpoints"),
    *(b"clear-site-data", b"public-key-pins", b"server", b"date"),
}
SANDBOX = (b"content-security-policy", b"sandbox allow-scripts allow-forms")
_OURS = re.compile(rb"\s*(__Host-|__Secure-)?hutch", re.IGNORECASE)
_DOMAIN = re.compile(rb";\s*domain\s*=[^;]*", re.IGNORECASE)


def request_headers(
    headers: Iterable[Header], *, port: int, own_origin: str, forwarded_for: str, token: bool
) -> list[Header]:
    """The headers for the program. With `token`, Authorization was for us and is removed."""
    headers = list(headers)
    named = _named_by_connection(headers)
    found: list[Header] = [(b"host", b"localhost:%d" % port)]
    for name, value in headers:
        name = name.lower()
        if name in NOT_IN or name in named or name.startswith((b"x-forwarded-", b"sec-websocket-")):
            continue
        if name == b"authorization" and (token or b"hutch_" in value):
            continue
        if name == b"cookie":
            value = b"; ".join(pair for pair in value.split(b";") if not _OURS.match(pair)).strip()
            if not value:
                continue
        if name in (b"origin", b"referer"):
            value = _as_local(value, own_origin.encode(), port)
        found.append((name, value))
    scheme, _, host = own_origin.partition("://")
    return [
        *found,
        (b"x-forwarded-for", forwarded_for.encode()),
        (b"x-forwarded-host", host.encode()),
        (b"x-forwarded-proto", scheme.encode()),
    ]


def response_headers(headers: Iterable[Header], *, port: int, prefix: str, sandbox: bool) -> list[Header]:
    """The headers for the browser; `sandbox` if the page has the server's own name."""
    headers = list(headers)
    named = _named_by_connection(headers)
    found: list[Header] = []
    for name, value in headers:
        name = name.lower()
        if name in NOT_OUT or name in named:
            continue
        if name == b"set-cookie":
            if sandbox or _OURS.match(value):
                continue
            value = _DOMAIN.sub(b"", value)  # valid for this host name only
        if name == b"location":
            value = _as_outside(value, port, prefix.encode())
        if sandbox and (name == b"content-security-policy" or name.startswith(b"access-control-")):
            continue
        found.append((name, value))
    if sandbox:
        found += [SANDBOX, (b"cache-control", b"no-store")]
    found.append((b"origin-agent-cluster", b"?1"))
    return found


def cookie_of(headers: Sequence[Header]) -> str | None:
    """The preview token in a cookie; None if there is none, or more than one."""
    pairs = [pair.strip() for name, value in headers if name == b"cookie" for pair in value.split(b";")]
    found = [pair for pair in pairs if pair.startswith(f"{COOKIE}=".encode())]
    return found[0].partition(b"=")[2].decode("latin-1") if len(found) == 1 else None


def _named_by_connection(headers: Iterable[Header]) -> set[bytes]:
    """The headers that the header Connection names: they are hop-by-hop."""
    return {
        word.strip().lower()
        for name, value in headers
        if name.lower() == b"connection"
        for word in value.split(b",")
    }


def _as_local(value: bytes, own: bytes, port: int) -> bytes:
    """Replace our own origin by the program's."""
    if value == own or value.startswith(own + b"/"):
        return b"http://localhost:%d" % port + value[len(own) :]
    return value


def _as_outside(value: bytes, port: int, prefix: bytes) -> bytes:
    """Replace the program's own origin in a redirect by the path of its preview."""
    at = re.match(rb"https?://(?:localhost|127\.0\.0\.1|\[::1\]):%d(?=[/?#]|$)" % port, value)
    if at is not None:
        rest = value[at.end() :]
        return prefix + (rest if rest.startswith(b"/") else b"/" + rest)
    return prefix + value if value.startswith(b"/") and not value.startswith(b"//") else value
