"""Decides to which hosts Hutch may connect when a request names a repository.

A repository address makes this machine connect to a host, which may be on the private
network or the machine itself. So the host name is resolved once, every address is
checked, and git gets these addresses: a later change of the DNS entry has no effect.
"""

import asyncio
import contextlib
import socket
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

from hutch.domain.errors import Denied, Unavailable
from hutch.forge.repo_url import RepoUrl
from hutch.system.lazy_dataclass import dataclass

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network
FindRefusal = Callable[[Address, Sequence[Network]], str | None]  # why an address is refused
Resolve = Callable[[str, int], Awaitable[Sequence[str]]]

RESOLVE_TIMEOUT_S = 10.0
MAX_ADDRESSES = 16


async def resolve(host: str, port: int) -> Sequence[str]:
    """All addresses of a host, in the order to try them."""
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(RESOLVE_TIMEOUT_S):
            found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError, TimeoutError):
        raise Unavailable(
            f"The host '{host}' cannot be resolved. Check its spelling and the network."
        ) from None
    return list(dict.fromkeys(str(each[4][0]) for each in found))[:MAX_ADDRESSES]


@dataclass(frozen=True, slots=True)
class AllowedHosts:
    """The rules of an installation. `allowed` lists private names, addresses and networks."""

    refusal: FindRefusal
    allowed: tuple[str, ...] = ()
    resolve: Resolve = resolve

    async def pin(self, url: RepoUrl) -> RepoUrl:
        """The address with its host pinned to the current IP addresses. Refuses private ones."""
        if url.path is not None:
            return url
        trusted = url.host in self.allowed
        try:
            addresses = await self.resolve(url.host, url.port)
        except Unavailable:
            if trusted:  # a host name that only the settings of ssh or a proxy can resolve
                return url
            raise
        for each in addresses:
            if why := None if trusted else self.refusal(ip_address(each.partition("%")[0]), self._networks):
                raise Denied(
                    f"{url.host} resolves to {each}, which is {why}, so it is refused. The operator of this "
                    "server can allow it in server.repository_hosts."
                )
        return replace(url, pinned=tuple(addresses))

    async def check(self, url: RepoUrl) -> None:
        """As `pin`, but accepts a host that cannot be resolved."""
        with contextlib.suppress(Unavailable):
            await self.pin(url)

    @property
    def _networks(self) -> tuple[Network, ...]:
        found = []
        for each in self.allowed:
            with contextlib.suppress(ValueError):  # a host name
                found.append(ip_network(each))
        return tuple(found)
