"""Waiters for a command's end are woken by it, by their timeout, or not at all."""

import asyncio

import pytest

from hutch.jail.shell.command_results_and_events import CommandEnd, Ended, SharedTimer

pytestmark = pytest.mark.anyio

LONG_S = 3600.0
SOON_S = 0.01


def ending() -> tuple[CommandEnd, SharedTimer]:
    loop = asyncio.get_running_loop()
    shared_timer = SharedTimer(loop)
    return CommandEnd(loop, shared_timer), shared_timer


async def test_all_waiters_get_the_end_and_only_the_first_counts() -> None:
    end, _ = ending()
    waiting = [asyncio.create_task(end.wait(max_s)) for max_s in (None, LONG_S)]
    await asyncio.sleep(0)
    end.set(Ended(3))
    end.set(Ended(4))
    assert await asyncio.gather(*waiting) == [Ended(3), Ended(3)]
    assert await end.wait(None) == Ended(3)


async def test_each_waiter_has_its_own_timeout() -> None:
    end, _ = ending()
    patient = asyncio.create_task(end.wait(LONG_S))
    await asyncio.sleep(0)
    assert await asyncio.gather(*(end.wait(SOON_S * number) for number in (3, 1, 2))) == [None] * 3
    assert not patient.done()
    end.set(Ended(0))
    assert await patient == Ended(0)


async def test_a_timer_of_an_earlier_command_does_not_end_a_later_one() -> None:
    end, shared_timer = ending()
    asyncio.get_running_loop().call_soon(end.set, Ended(0))
    assert await end.wait(SOON_S) == Ended(0)  # its timer is still to ring
    later = CommandEnd(asyncio.get_running_loop(), shared_timer)
    waiting = asyncio.create_task(later.wait(LONG_S))
    assert await later.wait(SOON_S * 3) is None
    assert not waiting.done()
    later.set(Ended(1))
    assert await waiting == Ended(1)


async def test_cancelling_one_waiter_cancels_no_other() -> None:
    end, _ = ending()
    gone, waiting = (asyncio.create_task(end.wait(LONG_S)) for _ in range(2))
    await asyncio.sleep(0)
    gone.cancel()
    await asyncio.wait({gone})
    assert gone.cancelled() and not waiting.done()
    end.set(Ended(0))
    assert await waiting == Ended(0)
