"""Addresses of callers, as they are counted."""

import ipaddress

MAX_CHARS = 64


def address_key(address: str) -> str:
    """What is counted as one address: of IPv6, the network that one customer has to choose from."""
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return address[:MAX_CHARS]
    if isinstance(found, ipaddress.IPv4Address):
        return str(found)
    if found.ipv4_mapped:
        return str(found.ipv4_mapped)
    return str(ipaddress.ip_network((found, 64), strict=False))
