"""A sandbox that was opened early goes to the first caller, and is closed once when nobody takes it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from hutch.domain.errors import Unavailable
from hutch.sessions.warm_sandbox_pool import WarmPool

pytestmark = pytest.mark.anyio


class Opener:
    """Opens sandboxes, and keeps what became of them."""

    def __init__(self, *, fails: bool = False) -> None:
        self.fails = fails
        self.done: list[str] = []
        self.may_go_on = asyncio.Event()

    @asynccontextmanager
    async def sandbox(self, name: str) -> AsyncIterator[Any]:
        await self.may_go_on.wait()
        if self.fails:
            raise Unavailable("No jail.")
        self.done.append(f"open {name}")
        try:
            yield name
        finally:
            self.done.append(f"close {name}")


async def test_the_first_caller_gets_the_sandbox_that_was_warmed() -> None:
    made, pool = Opener(), WarmPool()
    made.may_go_on.set()
    pool.warm("a", made.sandbox("early"))
    async with pool.take("a", lambda: made.sandbox("late")) as sandbox:
        assert sandbox == "early"
        async with pool.take("a", lambda: made.sandbox("late")) as other:
            assert other == "late"
    await pool.close()
    assert made.done == ["open early", "open late", "close late", "close early"]


async def test_what_nobody_comes_for_is_closed() -> None:
    made, pool = Opener(), WarmPool()
    pool.warm("a", made.sandbox("early"))
    closing = asyncio.ensure_future(pool.close())
    await asyncio.sleep(0)
    made.may_go_on.set()
    await closing
    assert made.done == ["open early", "close early"]


async def test_a_closed_pool_opens_nothing() -> None:
    made, pool = Opener(), WarmPool()
    await pool.close()
    pool.warm("a", made.sandbox("early"))
    await asyncio.sleep(0)
    assert made.done == []


async def test_what_was_given_up_is_closed_before_the_end() -> None:
    made, pool = Opener(), WarmPool(max_unused_s=0)
    pool.warm("a", made.sandbox("early"))
    await asyncio.sleep(0.02)  # nobody came, and it is not yet open
    closing = asyncio.ensure_future(pool.close())
    await asyncio.sleep(0.02)
    assert not closing.done()
    made.may_go_on.set()
    await closing
    assert made.done == ["open early", "close early"]


async def test_a_caller_cancelled_while_a_jail_opens_leaves_nothing_open() -> None:
    made, pool = Opener(), WarmPool()
    pool.warm("a", made.sandbox("early"))

    async def come() -> None:
        async with pool.take("a", lambda: made.sandbox("late")):
            raise AssertionError

    coming = asyncio.ensure_future(come())
    await asyncio.sleep(0)
    coming.cancel()
    await asyncio.wait([coming])
    made.may_go_on.set()
    await pool.close()
    assert coming.cancelled()
    assert made.done in ([], ["open early", "close early"])


async def test_the_reason_of_a_failed_opening_reaches_the_next_caller() -> None:
    made, pool = Opener(fails=True), WarmPool()
    made.may_go_on.set()
    pool.warm("a", made.sandbox("early"))
    with pytest.raises(Unavailable, match="No jail"):
        async with pool.take("a", lambda: made.sandbox("late")):
            raise AssertionError
    await pool.close()
    assert made.done == []
