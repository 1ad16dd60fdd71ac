"""A desk that was opened early is had by who comes for it, and closed once, whoever does not come."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from hutch.app.ahead import Ahead
from hutch.domain.errors import Unavailable

pytestmark = pytest.mark.anyio


class Carpenter:
    """Makes desks, and knows what became of them."""

    def __init__(self, *, fails: bool = False) -> None:
        self.fails = fails
        self.done: list[str] = []
        self.may_go_on = asyncio.Event()

    @asynccontextmanager
    async def desk(self, name: str) -> AsyncIterator[Any]:
        await self.may_go_on.wait()
        if self.fails:
            raise Unavailable("No wood.")
        self.done.append(f"open {name}")
        try:
            yield name
        finally:
            self.done.append(f"close {name}")


async def test_the_desk_that_was_begun_is_the_one_that_is_had() -> None:
    made, ahead = Carpenter(), Ahead()
    made.may_go_on.set()
    ahead.begin("a", made.desk("early"))
    async with ahead.desk("a", lambda: made.desk("late")) as desk:
        assert desk == "early"
        async with ahead.desk("a", lambda: made.desk("late")) as other:
            assert other == "late"
    await ahead.close()
    assert made.done == ["open early", "open late", "close late", "close early"]


async def test_what_nobody_comes_for_is_closed() -> None:
    made, ahead = Carpenter(), Ahead()
    ahead.begin("a", made.desk("early"))
    closing = asyncio.ensure_future(ahead.close())
    await asyncio.sleep(0)
    made.may_go_on.set()
    await closing
    assert made.done == ["open early", "close early"]


async def test_what_was_given_up_is_closed_before_the_end() -> None:
    made, ahead = Carpenter(), Ahead(patience_s=0)
    ahead.begin("a", made.desk("early"))
    await asyncio.sleep(0.02)  # nobody came, and it is not yet open
    closing = asyncio.ensure_future(ahead.close())
    await asyncio.sleep(0.02)
    assert not closing.done()
    made.may_go_on.set()
    await closing
    assert made.done == ["open early", "close early"]


async def test_who_is_cancelled_while_it_opens_leaves_nothing_open() -> None:
    made, ahead = Carpenter(), Ahead()
    ahead.begin("a", made.desk("early"))

    async def come() -> None:
        async with ahead.desk("a", lambda: made.desk("late")):
            raise AssertionError

    coming = asyncio.ensure_future(come())
    await asyncio.sleep(0)
    coming.cancel()
    await asyncio.wait([coming])
    made.may_go_on.set()
    await ahead.close()
    assert coming.cancelled()
    assert made.done in ([], ["open early", "close early"])


async def test_why_it_could_not_be_opened_is_told_to_who_comes() -> None:
    made, ahead = Carpenter(fails=True), Ahead()
    made.may_go_on.set()
    ahead.begin("a", made.desk("early"))
    with pytest.raises(Unavailable, match="No wood"):
        async with ahead.desk("a", lambda: made.desk("late")):
            raise AssertionError
    await ahead.close()
    assert made.done == []
