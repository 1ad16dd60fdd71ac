"""Which machines a request may lead us to.

Whoever names a repository lets this machine speak with the host in its address:
with neighbours that nobody outside can reach, and with services of its own. A name
is therefore looked up once, judged by every address it stands for, and git is given
these addresses: what the name means a moment later is no matter.
"""

import asyncio
import contextlib
import socket
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

from hutch.domain.errors import Denied, Unavailable
from hutch.forge.repo_url import RepoUrl

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network
FindRefusal = Callable[[Address, Sequence[Network]], str | None]  # why an address may not be reached
Resolve = Callable[[str, int], Awaitable[Sequence[str]]]

RESOLVE_TIMEOUT_S = 10.0
MAX_ADDRESSES = 16


async def resolve(host: str, port: int) -> Sequence[str]:
    """All addresses of a host, in the order in which to try them."""
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(RESOLVE_TIMEOUT_S):
            found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError, TimeoutError):
        raise Unavailable(
            f"The host '{host}' is not known here. Check how it is written, and the network."
        ) from None
    return list(dict.fromkeys(str(each[4][0]) for each in found))[:MAX_ADDRESSES]


@dataclass(frozen=True, slots=True)
class AllowedHosts:
    """The rules of an installation; `allowed` are names, addresses and networks that may be private."""

    refusal: FindRefusal
    allowed: tuple[str, ...] = ()
    resolve: Resolve = resolve

    async def pin(self, url: RepoUrl) -> RepoUrl:
        """The same address, bound to what its host stands for now; or a refusal."""
        if url.path is not None:
            return url
        trusted = url.host in self.allowed
        try:
            addresses = await self.resolve(url.host, url.port)
        except Unavailable:
            if trusted:  # a name that only ssh's settings know, or only a proxy
                return url
            raise
        for each in addresses:
            if why := None if trusted else self.refusal(ip_address(each.partition("%")[0]), self._networks):
                raise Denied(
                    f"{url.host} leads to {each}, which is {why} and not for everybody to name. Whoever runs "
                    "this server can allow it: server.allowed_hosts."
                )
        return replace(url, pinned=tuple(addresses))

    async def check(self, url: RepoUrl) -> None:
        """Refuse at once what would be refused later; a host that nobody knows may pass."""
        with contextlib.suppress(Unavailable):
            await self.pin(url)

    @property
    def _networks(self) -> tuple[Network, ...]:
        found = []
        for each in self.allowed:
            with contextlib.suppress(ValueError):  # a name
                found.append(ip_network(each))
        return tuple(found)
