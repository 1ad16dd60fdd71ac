"""Sends one webhook to an address that may be reached.

Naming an address makes this machine connect to it. So the name is resolved once, each address is
checked, and the connection goes to one that passed: a later change of the DNS entry has no effect. Redirects
are not followed, and the content of the response is not read.
"""

import asyncio
import socket
from collections.abc import Mapping, Sequence
from ipaddress import ip_address
from urllib.parse import urlsplit

import httpx2

from hutch import __version__
from hutch.domain.errors import BadRequest, Denied, Unavailable
from hutch.jail.egress.blocked_addresses import Address, Network, refusal
from hutch.system.lazy_dataclass import dataclass
from hutch.system.trusted_certificates import trusted_certificates

TIMEOUT_S = 15.0
RESOLVE_TIMEOUT_S = 10.0
MAX_URL_CHARS = 2000
PORTS = {"https": 443, "http": 80}


@dataclass(frozen=True, slots=True)
class Target:
    """The parts of an address."""

    scheme: str
    host: str
    port: int
    path: str  # with the query

    @property
    def authority(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == PORTS[self.scheme] else f"{host}:{self.port}"


def parse_target(url: str) -> Target:
    """Check an address; it is not resolved."""
    if len(url) > MAX_URL_CHARS or not url.isascii() or not url.isprintable() or " " in url:
        raise BadRequest(f"The address of a webhook has at most {MAX_URL_CHARS} plain characters.")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise BadRequest("The address of the webhook is not valid.") from None
    if parts.scheme not in PORTS or not parts.hostname:
        raise BadRequest("The address of a webhook begins with https:// and a host.")
    if parts.username is not None or parts.password is not None or parts.fragment:
        raise BadRequest("The address of a webhook has no user, password or fragment.")
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    return Target(parts.scheme, parts.hostname, port or PORTS[parts.scheme], path)


async def find_address(target: Target, private: Sequence[Network]) -> Address:
    """An address of the host that may be reached."""
    try:
        async with asyncio.timeout(RESOLVE_TIMEOUT_S):
            found = await asyncio.get_running_loop().getaddrinfo(
                target.host, target.port, type=socket.SOCK_STREAM
            )
    except (OSError, UnicodeError, TimeoutError):
        raise Unavailable(f"The host '{target.host}' cannot be resolved.") from None
    addresses = [ip_address(str(each[4][0]).partition("%")[0]) for each in found]
    reasons = {each: refusal(each, private) for each in addresses}
    for address, reason in reasons.items():
        if reason is not None:
            raise Denied(
                f"The host '{target.host}' has the {reason} address {address}, which webhooks may not reach. "
                "To allow it, add its network to webhooks.private_networks."
            )
    first = addresses[0]
    if target.scheme == "http" and not any(first in network for network in private):
        raise Denied("Webhooks use https. Plain http is allowed only in webhooks.private_networks.")
    return first


async def send(target: Target, address: Address, headers: Mapping[str, str], body: bytes) -> int:
    """Send one request. Returns the status of the response."""
    host = f"[{address}]" if address.version == 6 else str(address)
    async with (
        httpx2.AsyncClient(
            timeout=TIMEOUT_S, verify=trusted_certificates(), trust_env=False, follow_redirects=False
        ) as client,
        asyncio.timeout(2 * TIMEOUT_S),
        client.stream(
            "POST",
            f"{target.scheme}://{host}:{target.port}{target.path}",
            content=body,
            headers={
                **headers,
                "host": target.authority,
                "content-type": "application/json",
                "user-agent": f"hutch/{__version__}",
            },
            extensions={"sni_hostname": target.host},
        ) as response,
    ):
        return response.status_code
