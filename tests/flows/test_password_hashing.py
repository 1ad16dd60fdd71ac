"""Passwords: hashed by argon2id, never on the event loop; an unknown user takes as long as a known one."""

import asyncio
import threading

import pytest
from argon2 import PasswordHasher

from hutch.domain.errors import BadRequest
from hutch.flows.password_hashing import AT_ONCE, Passwords

pytestmark = pytest.mark.anyio
RIGHT = "correct horse battery"


class Watched(PasswordHasher):
    """Notes in which threads, and how many at once, hashes are computed."""

    def __init__(self) -> None:
        super().__init__(time_cost=1, memory_cost=8192, parallelism=1)
        self.threads: list[threading.Thread] = []
        self.now = self.maximum = 0
        self.lock = threading.Lock()

    def verify(self, hash, password):
        with self.lock:
            self.now += 1
            self.maximum = max(self.maximum, self.now)
        self.threads.append(threading.current_thread())
        try:
            return super().verify(hash, password)
        finally:
            with self.lock:
                self.now -= 1


async def test_a_password_is_right_or_not() -> None:
    passwords = Passwords()
    kept = await passwords.hash(RIGHT)
    assert kept.startswith("$argon2id$v=19$m=65536,t=3,p=1$")
    assert await passwords.is_right(RIGHT, kept)
    assert not await passwords.is_right(RIGHT + "x", kept)
    assert await passwords.hash(RIGHT) != kept  # salted
    assert not passwords.is_old(kept)
    assert passwords.is_old(PasswordHasher(time_cost=1, memory_cost=1024, parallelism=1).hash(RIGHT))


async def test_the_same_characters_are_the_same_password() -> None:
    passwords = Passwords(Watched())
    assert await passwords.is_right("cafe\u0301 au lait", await passwords.hash("caf\u00e9 au lait"))


@pytest.mark.parametrize("password", ["", "short", "x" * 1025, "aaaaaaaaaaaa", "abababababab"])
async def test_a_password_that_is_none(password: str) -> None:
    with pytest.raises(BadRequest):
        await Passwords().hash(password)


@pytest.mark.parametrize("kept", ["", "not a hash", "$argon2id$v=19$m=1,t=1,p=1$x$y"])
async def test_what_is_no_hash_lets_nobody_in(kept: str) -> None:
    passwords = Passwords(Watched())
    assert not await passwords.is_right("", kept)
    assert not await passwords.is_right("nobody's", kept)


async def test_nobodys_password_is_computed_too() -> None:
    watched = Watched()
    await Passwords(watched).is_right(RIGHT, "")
    assert len(watched.threads) == 1


async def test_hashes_are_computed_in_threads_a_few_at_a_time() -> None:
    watched = Watched()
    passwords = Passwords(watched)
    await asyncio.gather(*(passwords.is_right(RIGHT, "") for _ in range(20)))
    assert threading.main_thread() not in watched.threads
    assert watched.maximum <= AT_ONCE
