"""Addresses that a jail must not reach through the proxy, whatever name resolves to
them.

The proxy runs on the host, so it can reach what the jail cannot: the host's own
services, its neighbours, the cloud's metadata. So a name is checked by the address it
resolved to, and the connection goes to that very address.
"""

import socket
from collections.abc import Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_network
from typing import Final

from hutch.domain.errors import BadRequest

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

# The IANA special-purpose registries, written out: ipaddress.is_private and its
# like change their meaning between Python versions.
_REFUSED: Final = [
    (ip_network(network), name)
    for network, name in (
        ("0.0.0.0/8", "unspecified"),
        ("10.0.0.0/8", "private"),
        ("100.64.0.0/10", "carrier-shared"),
        ("127.0.0.0/8", "loopback"),
        (
            "168.63.129.16/32",
            "cloud-internal",
        ),  # not in a registry: Azure serves each machine's own settings there
        ("169.254.0.0/16", "link-local"),
        ("172.16.0.0/12", "private"),
        ("192.0.0.0/24", "reserved"),
        ("192.0.2.0/24", "documentation"),
        ("192.88.99.0/24", "6to4 relay"),
        ("192.168.0.0/16", "private"),
        ("198.18.0.0/15", "benchmarking"),
        ("198.51.100.0/24", "documentation"),
        ("203.0.113.0/24", "documentation"),
        ("224.0.0.0/4", "multicast"),
        ("240.0.0.0/4", "reserved"),
        ("::/128", "unspecified"),
        ("::1/128", "loopback"),
        ("64:ff9b:1::/48", "local NAT64"),
        ("2001::/32", "Teredo"),
        ("2001::/23", "reserved"),
        ("2001:db8::/32", "documentation"),
        ("2002::/16", "6to4"),
        ("3fff::/20", "documentation"),
        ("fc00::/7", "private"),
        ("fe80::/10", "link-local"),
        ("fec0::/10", "site-local"),
        ("ff00::/8", "multicast"),
    )
]
_GLOBAL_V6: Final = IPv6Network("2000::/3")  # all that has been assigned for use
_NAT64: Final = IPv6Network("64:ff9b::/96")


def parse_networks(texts: Sequence[str]) -> tuple[Network, ...]:
    """The operator's exemptions, such as 10.1.2.0/24 for a mirror on the local network."""
    try:
        return tuple(ip_network(text) for text in texts)
    except ValueError as error:
        raise BadRequest(f"also_allow_networks: {error}. Write networks like 10.1.2.0/24.") from None


def refusal(address: Address, also_allow: Sequence[Network] = ()) -> str | None:
    """Why this address may not be reached ("loopback", …), or None when it may."""
    plain = _plain(address)
    if any(plain in network for network in also_allow):
        return None
    for network, name in _REFUSED:
        if plain in network:
            return name
    if plain.version == 6 and plain not in _GLOBAL_V6:
        return "reserved"
    return "host's own" if is_own(plain) or is_own(address) else None


def is_own(address: Address) -> bool:
    """True if the kernel would deliver to this machine: then the source is that same address.

    Connecting a datagram socket sends nothing; it only queries the routing table, which knows every
    current interface, aliases and whole local ranges.
    """
    family = socket.AF_INET if address.version == 4 else socket.AF_INET6
    try:
        with socket.socket(family, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as probe:
            probe.connect((str(address), 9))
            return bool(probe.getsockname()[0] == str(address))
    except OSError:
        return False  # no route: connecting will fail as well


def _plain(address: Address) -> Address:
    """The IPv4 address inside an IPv6 one, where the network would unwrap it."""
    if isinstance(address, IPv6Address):
        if address.ipv4_mapped:
            return address.ipv4_mapped
        if address in _NAT64:
            return IPv4Address(int(address) & 0xFFFFFFFF)
    return address
