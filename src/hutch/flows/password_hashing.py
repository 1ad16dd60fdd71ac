"""Hashes passwords with argon2id, in threads, a few at a time.

A hash takes 64 MiB and a tenth of a second on purpose. That must not block the event loop, nor
let unauthenticated callers fill the memory: while two hashes are in progress, others wait. For a
user that does not exist a hash is computed too, so that the response time does not reveal
which users exist.
"""

import asyncio
import unicodedata
from functools import cached_property
from typing import TYPE_CHECKING

from hutch.domain.errors import BadRequest

if TYPE_CHECKING:
    from argon2 import PasswordHasher

SHORTEST, LONGEST = 10, 1024
AT_ONCE = 2


class Passwords:
    """Computes and checks the hashes of passwords."""

    def __init__(self, hasher: "PasswordHasher | None" = None) -> None:
        self._given = hasher
        self._room = asyncio.Semaphore(AT_ONCE)
        self._nobodys = ""

    @cached_property
    def _hasher(self) -> "PasswordHasher":
        from argon2 import PasswordHasher

        return self._given or PasswordHasher(time_cost=3, memory_cost=64 * 1024, parallelism=1)

    async def hash(self, password: str) -> str:
        """Hash a new password; refuse a weak one."""
        if not SHORTEST <= len(password) <= LONGEST:
            raise BadRequest(
                f"A password has {SHORTEST} to {LONGEST} characters; this one has {len(password)}."
            )
        if len(set(password)) < 4:
            raise BadRequest("This password is too repetitive. Use at least four different characters.")
        async with self._room:
            return await asyncio.to_thread(self._hasher.hash, _bytes(password))

    async def is_right(self, password: str, hash_: str) -> bool:
        """True if this is the password. An empty hash never matches, but takes the same time."""
        if not self._nobodys:
            async with self._room:
                self._nobodys = await asyncio.to_thread(self._hasher.hash, b"nobody's")
        async with self._room:
            right = await asyncio.to_thread(self._check, hash_ or self._nobodys, _bytes(password[:LONGEST]))
        return right and bool(hash_)

    def is_old(self, hash_: str) -> bool:
        """True if a hash was computed with lower costs than today's."""
        return self._hasher.check_needs_rehash(hash_)

    def _check(self, hash_: str, password: bytes) -> bool:
        from argon2.exceptions import InvalidHashError, VerificationError

        try:
            return self._hasher.verify(hash_, password)
        except (VerificationError, InvalidHashError):
            return False


def _bytes(password: str) -> bytes:
    """The same bytes on every keyboard: an accented character can be typed as one code point or two."""
    return unicodedata.normalize("NFC", password).encode(errors="surrogatepass")
