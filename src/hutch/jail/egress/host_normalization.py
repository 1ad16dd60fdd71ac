"""Normalises hosts, so that two spellings cannot mean two hosts.

A name that passes has one form: lower case, ASCII, no final dot. Forms that C libraries
read as an address but people do not (0x7f.1, 127.1, 2130706433, 010.0.0.1) are refused,
not interpreted.
"""

import re
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Final

import idna

from hutch.domain.errors import BadRequest

_LABEL: Final = re.compile(r"[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?")
_NUMBER: Final = re.compile(r"[0-9]+|0x[0-9a-f]*")
_AUTHORITY: Final = re.compile(r"(\[[^\[\]]*\]|[^:\[\]]*)(?::(.*))?", re.DOTALL)
_PORT: Final = re.compile(r"[1-9][0-9]{0,4}")


def parse_host(text: str) -> str:
    """The normal form of a host: a name, or an address (IPv6 without its brackets)."""
    if text.startswith("[") and text.endswith("]"):
        return _address(text, text[1:-1], IPv6Address)
    name = text.lower().removesuffix(".")
    labels = name.split(".")
    if _NUMBER.fullmatch(labels[-1]):
        return _address(text, name, IPv4Address)
    if not text.isascii() or len(name) > 253 or not all(_LABEL.fullmatch(label) for label in labels):
        raise BadRequest(f"{text[:200]!r} is not a host name. Write it like example.com, in ASCII.")
    return name


def parse_international_host(text: str) -> str:
    """Like `parse_host`, for user input: bücher.example becomes xn--bcher-kva.example."""
    if text.isascii():
        return parse_host(text)
    try:
        return parse_host(idna.encode(text, uts46=True).decode())
    except idna.IDNAError as error:
        raise BadRequest(f"{text[:200]!r} is not a host name: {error}. Write it in its xn-- form.") from None


def parse_port(text: str) -> int:
    if not _PORT.fullmatch(text) or int(text) > 65535:
        raise BadRequest(f"{text[:20]!r} is not a port. Write a number from 1 to 65535, no leading zeros.")
    return int(text)


def split_authority(text: str) -> tuple[str, int | None]:
    """Split `host`, `host:port` or `[v6]:port`; the host is not normalised."""
    found = _AUTHORITY.fullmatch(text)
    if not found:
        raise BadRequest(f"{text[:200]!r} is not host:port. Put an IPv6 address in brackets, like [::1]:443.")
    host, port = found.groups()
    return host, None if port is None else parse_port(port)


def as_address(host: str) -> IPv4Address | IPv6Address | None:
    """The address if a normalised host is one; None when it is a name."""
    try:
        return ip_address(host)
    except ValueError:
        return None


def join_authority(host: str, port: int | None) -> str:
    written = f"[{host}]" if ":" in host else host
    return written if port is None else f"{written}:{port}"


def _address(text: str, digits: str, kind: type[IPv4Address] | type[IPv6Address]) -> str:
    try:
        if "%" in digits:
            raise ValueError("a zone is not allowed")
        return str(kind(digits))
    except ValueError:
        raise BadRequest(
            f"{text[:200]!r} is not an IP address in its plain form. Write four decimal numbers, or [IPv6]."
        ) from None
