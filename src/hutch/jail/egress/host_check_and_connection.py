"""Resolves, checks and connects to a requested host.

It resolves once, checks every address and connects to one that passed: a name that
resolves to something else a moment later changes nothing.
"""

import asyncio
import socket
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from ipaddress import ip_address, ip_network

from hutch.domain.errors import BadRequest, Denied, Unavailable
from hutch.jail.egress.allow_list import AllowList, Pattern, parse_allow_list
from hutch.jail.egress.blocked_addresses import Address, Network, parse_networks, refusal
from hutch.jail.egress.egress_attempt_and_limit_types import EgressLimits
from hutch.jail.egress.host_normalization import as_address, join_authority
from hutch.system.lazy_dataclass import dataclass

Resolve = Callable[[str, int], Awaitable[Sequence[str]]]
"""The addresses of a host name, as text; OSError when there are none."""

Admit = Callable[[str, int], Awaitable[None]]
"""Refuses a host and port for reasons that may change while the jail is open."""

CHECK = "Check its spelling, or this machine's DNS."
MAX_ADDRESSES = 8  # of a name; others are not tried


@dataclass(frozen=True, slots=True)
class Route:
    """The pattern that allowed a host, and the addresses that passed the check."""

    pattern: Pattern
    addresses: tuple[Address, ...]


@dataclass(frozen=True, slots=True)
class HostChecker:
    """Decides whether a host may be reached, and by which addresses."""

    allow: AllowList
    also_allow: tuple[Network, ...]
    resolve: Resolve
    limits: EgressLimits
    admit: Admit | None = None

    async def check(self, host: str, port: int) -> Route:
        if self.admit is not None:
            await self.admit(host, port)
        pattern = self.allow.find(host, port)
        authority = join_authority(host, None if port in (80, 443) else port)
        if not pattern:
            raise Denied(
                f"{host!r} (port {port}) is not on this jail's list of allowed hosts. "
                f"To allow it, start with: --net {authority}"
            )
        addresses = await self._addresses(host, port)
        refusals = {address: refusal(address, self.also_allow) for address in addresses}
        passed = tuple(address for address, reason in refusals.items() if reason is None)
        if not passed:
            address, reason = next(iter(refusals.items()))
            raise Denied(
                f"{host!r} is allowed, but it resolves to {address}, a {reason} address that jails may not "
                f"reach. {_exempt(address)}"
            )
        return Route(pattern, passed)

    async def _addresses(self, host: str, port: int) -> list[Address]:
        literal = as_address(host)
        if literal:
            return [literal]
        try:
            async with asyncio.timeout(self.limits.resolve_timeout_s):
                found = await self.resolve(host, port)
        except TimeoutError:
            raise Unavailable(
                f"{host!r} was not resolved in {self.limits.resolve_timeout_s:g} s. Try again."
            ) from None
        except (OSError, UnicodeError) as error:
            raise Unavailable(f"{host!r} cannot be resolved: {error}. {CHECK}") from None
        if not found:
            raise Unavailable(f"{host!r} has no address. {CHECK}")
        return [ip_address(text) for text in found[:MAX_ADDRESSES]]


def check_reachable(hosts: Sequence[str], also_allow_networks: Sequence[str] = ()) -> None:
    """Refuse, before anything starts, hosts that no request could ever reach."""
    networks = parse_networks(also_allow_networks)
    for pattern in parse_allow_list(hosts).patterns:
        is_local = pattern.host.rpartition(".")[2] == "localhost"
        address = ip_address("127.0.0.1") if is_local else as_address(pattern.host)
        reason = refusal(address, networks) if address else None
        if address and reason:
            raise BadRequest(
                f"Allowed host '{pattern}' is a {reason} address that jails may not reach. {_exempt(address)}"
            )


def _exempt(address: Address) -> str:
    return f"To exempt it, set jail.private_networks to {ip_network(address)} in your settings."


def resolver(threads: ThreadPoolExecutor) -> Resolve:
    """The host's own resolver, on separate threads: slow names must not occupy those of Hutch itself.

    Requests for the same name at the same time share one lookup: package managers open dozens of connections.
    """
    pending: dict[str, asyncio.Future[list[str]]] = {}

    def find_addresses(host: str) -> list[str]:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
        return list(dict.fromkeys(str(sockaddr[0]) for *_, sockaddr in found))

    async def resolve(host: str, port: int) -> Sequence[str]:
        lookup = pending.get(host)
        if lookup is None:
            lookup = pending[host] = asyncio.get_running_loop().run_in_executor(threads, find_addresses, host)
            lookup.add_done_callback(lambda _: pending.pop(host))
        return await asyncio.shield(lookup)  # a client that gives up does not end it for the others

    return resolve


async def connect(route: Route, port: int, timeout_s: float) -> tuple[socket.socket, Address]:
    """A connection to the first of the checked addresses that answers."""
    failures: list[str] = []
    for address in route.addresses:
        family = socket.AF_INET if address.version == 4 else socket.AF_INET6
        connection = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
        try:
            async with asyncio.timeout(timeout_s / len(route.addresses)):
                await asyncio.get_running_loop().sock_connect(connection, (str(address), port))
            return connection, address
        except OSError as error:  # TimeoutError is one
            connection.close()
            failures.append(f"{address}: {error or 'no answer'}")
        except BaseException:
            connection.close()
            raise
    raise Unavailable(f"Could not connect to port {port} ({'; '.join(failures)}). Try again later.")
