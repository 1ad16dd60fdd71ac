"""The host names of this server, and the client behind a trusted proxy.

A hostile site can point its own name at this machine, so that its pages count as ours
(DNS rebinding). So the server answers only to configured names. IP addresses are safe:
DNS cannot redirect them.
"""

import ipaddress
import re
from collections.abc import Iterable, Sequence
from typing import Any
from urllib.parse import urlsplit

from hutch.settings.server_sections import Server
from hutch.system.lazy_dataclass import dataclass

Headers = Sequence[tuple[bytes, bytes]]
Network = ipaddress.IPv4Network | ipaddress.IPv6Network

LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
_HOST = re.compile(r"(\[[0-9A-Fa-f:.]{2,45}\]|[A-Za-z0-9._-]{1,253})(?::(\d{1,5}))?", re.ASCII)


@dataclass(frozen=True, slots=True)
class ServerNames:
    """The names under which this server answers."""

    hosts: frozenset[str]  # `*.example.org` matches all names below it
    public: str | None = None  # the origin at which users open it, through a proxy
    proxies: tuple[Network, ...] = ()

    @classmethod
    def of(cls, server: Server) -> "ServerNames":
        hosts = LOOPBACK | set(server.hostnames)
        public = None
        if server.public_url:
            public_url = urlsplit(server.public_url)
            public = f"{public_url.scheme}://{public_url.netloc.lower()}"
            hosts |= {public_url.hostname or ""}
        if server.host not in ("0.0.0.0", "::"):
            hosts |= {server.host}
        return cls(
            frozenset(hosts), public, tuple(ipaddress.ip_network(each) for each in server.trusted_proxies)
        )

    def host_of(self, scope: Any) -> str | None:
        """The Host of a request with its port, if it is one of ours."""
        hosts_sent = values(scope["headers"], b"host")
        found = _HOST.fullmatch(hosts_sent[0]) if len(hosts_sent) == 1 else None
        if found is None:
            return None
        name = found[1].strip("[]").lower().rstrip(".")
        return hosts_sent[0].lower() if self._is_ours(name, scope) else None

    def scheme_of(self, scope: Any, host: str) -> str:
        """http or https, as the browser sees it."""
        own_scheme = {"ws": "http", "wss": "https"}.get(scope["scheme"], scope["scheme"])
        if self.public and self.public.partition("://")[2] == host:
            return self.public.partition(":")[0]
        if self._is_proxy(_peer(scope)):
            forwarded_proto = values(scope["headers"], b"x-forwarded-proto")
            if len(forwarded_proto) == 1 and forwarded_proto[0].lower() in ("http", "https"):
                return forwarded_proto[0].lower()
        return str(own_scheme)

    def client_of(self, scope: Any) -> str:
        """The client: the nearest address that is not a trusted proxy."""
        address = _peer(scope)
        forwarded = ",".join(values(scope["headers"], b"x-forwarded-for")).split(",")
        for hop in reversed([hop.strip() for hop in forwarded if hop.strip()]):
            if not self._is_proxy(address):
                break
            try:
                address = str(ipaddress.ip_address(hop))
            except ValueError:
                break  # a malformed entry: earlier entries cannot be trusted
        return address

    def _is_ours(self, name: str, scope: Any) -> bool:
        if name in self.hosts:
            return True
        if any(each.startswith("*.") and name.endswith(each[1:]) for each in self.hosts):
            return True
        server = scope.get("server")
        try:  # the address on which the connection arrived
            return bool(server) and ipaddress.ip_address(name) == ipaddress.ip_address(server[0])
        except ValueError:
            return False

    def _is_proxy(self, address: str) -> bool:
        try:
            found = ipaddress.ip_address(address)
        except ValueError:
            return False
        return any(found in network for network in self.proxies)


def values(headers: Headers, name: bytes) -> list[str]:
    """All values of a header. Several are often an attack."""
    return [value.decode("latin-1") for key, value in headers if key == name]


def one(headers: Iterable[tuple[bytes, bytes]], name: bytes) -> str | None:
    """The value of a header; None if there is none, or more than one."""
    found = [value.decode("latin-1") for key, value in headers if key == name]
    return found[0] if len(found) == 1 else None


def _peer(scope: Any) -> str:
    client = scope.get("client")
    return str(client[0]) if client else ""
