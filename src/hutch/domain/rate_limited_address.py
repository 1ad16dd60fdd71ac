"""Addresses of clients, as rate limits count them."""

import ipaddress

MAX_CHARS = 64


def address_key(address: str) -> str:
    """The key that an address is counted under: for IPv6 its /64 network, which one customer controls."""
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return address[:MAX_CHARS]
    if isinstance(found, ipaddress.IPv4Address):
        return str(found)
    if found.ipv4_mapped:
        return str(found.ipv4_mapped)
    return str(ipaddress.ip_network((found, 64), strict=False))
