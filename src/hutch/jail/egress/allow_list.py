"""The hosts and ports that a jail may reach, as users write them.

`example.com` is that host on ports 80 and 443; `*.example.com` is every name below it
but not itself; `example.com:8443` is that port alone. An address is reachable only when
the list contains it as an address.
"""

from collections.abc import Sequence

from hutch.domain.errors import BadRequest
from hutch.jail.egress.host_normalization import (
    as_address,
    join_authority,
    parse_international_host,
    split_authority,
)
from hutch.system.lazy_dataclass import dataclass

DEFAULT_PORTS = (80, 443)


@dataclass(frozen=True, slots=True)
class Pattern:
    """One line of an allow-list."""

    host: str
    below: bool  # every name below host, and not host itself
    port: int | None  # None is the default ports

    def matches(self, host: str, port: int) -> bool:
        if port not in self.ports:
            return False
        return host.endswith(f".{self.host}") if self.below else host == self.host

    @property
    def ports(self) -> tuple[int, ...]:
        return DEFAULT_PORTS if self.port is None else (self.port,)

    def covers_host(self, other: "Pattern") -> bool:
        """True when every host of the other pattern is one of this pattern."""
        if not self.below:
            return not other.below and other.host == self.host
        return other.host.endswith(f".{self.host}") or (other.below and other.host == self.host)

    def __str__(self) -> str:
        return ("*." if self.below else "") + join_authority(self.host, self.port)


def parse_pattern(text: str) -> Pattern:
    """Parse one pattern; BadRequest says what is wrong with it."""
    if "://" in text or "/" in text:
        raise BadRequest(f"Allowed host {text!r} is a URL. Give the host alone, like example.com:443.")
    if "@" in text:
        raise BadRequest(f"Allowed host {text!r} has a user in it. Give the host alone, like example.com.")
    below = text.startswith("*.")
    try:
        written, port = split_authority(text.removeprefix("*."))
        if "*" in written:
            raise BadRequest("a star may only be the whole first label, as in *.example.com.")
        host = parse_international_host(written)
    except BadRequest as error:
        raise BadRequest(f"Allowed host {text!r} is invalid: {error}") from None
    if below and as_address(host):
        raise BadRequest(f"Allowed host {text!r} has a star before an address. List each address separately.")
    if below and "." not in host:
        raise BadRequest(f"Allowed host {text!r} is a whole top-level domain. Name at least *.example.com.")
    return Pattern(host=host, below=below, port=port)


@dataclass(frozen=True, slots=True)
class AllowList:
    """The patterns of one jail; an empty list allows nothing."""

    patterns: tuple[Pattern, ...]

    def find(self, host: str, port: int) -> Pattern | None:
        """The first pattern that allows this host and port; `host` must be normalised."""
        return next((pattern for pattern in self.patterns if pattern.matches(host, port)), None)

    def covers(self, other: Pattern) -> bool:
        """True when this list allows everything that the other pattern allows."""
        hosts = [pattern for pattern in self.patterns if pattern.covers_host(other)]
        return all(any(port in pattern.ports for pattern in hosts) for port in other.ports)


def parse_allow_list(texts: Sequence[str]) -> AllowList:
    return AllowList(tuple(parse_pattern(text) for text in texts))
