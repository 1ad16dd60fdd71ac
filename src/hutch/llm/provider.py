"""Whom to ask, at which address, with which key: the same for every provider."""

import ssl
from dataclasses import dataclass, field
from functools import cache

import httpx2

CONNECT_S = 15.0
READ_S = 600.0  # silence is watched elsewhere, for all alike; this is the last net
SHORTEST_KEY = 8  # a shorter one stands for no key


@cache
def trusted() -> ssl.SSLContext:
    """Whose certificates are believed. They are those of all the world, and are read once."""
    return httpx2.create_ssl_context()


@dataclass(frozen=True, slots=True)
class Account:
    """Whom to ask, at which address, with which key."""

    provider: str
    model: str
    key: str = field(repr=False)
    base_url: str

    @property
    def full_name(self) -> str:
        return f"{self.provider}:{self.model}"

    def without_key(self, text: str) -> str:
        """A text of the server, which may repeat what it was sent."""
        return text.replace(self.key, "[the key]") if len(self.key) >= SHORTEST_KEY else text

    @property
    def timeout(self) -> httpx2.Timeout:
        return httpx2.Timeout(READ_S, connect=CONNECT_S)
