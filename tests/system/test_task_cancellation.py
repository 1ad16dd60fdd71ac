"""Background tasks run during a block, and have ended after it."""

import asyncio

import pytest

from hutch.system.task_cancellation import cancel_and_wait, running

pytestmark = pytest.mark.anyio


async def test_tasks_run_during_the_block_and_have_cleaned_up_after_it() -> None:
    noted = []
    started = asyncio.Event()

    async def work() -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            noted.append("cleaned up")

    async def fail() -> None:
        raise ValueError("not raised by the block")

    async with running(work(), fail()):
        await started.wait()
        assert noted == []
    assert noted == ["cleaned up"]


async def test_an_error_of_the_block_is_raised_after_the_tasks_have_ended() -> None:
    noted = []

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            noted.append("ended")

    with pytest.raises(KeyError):
        async with running(work()):
            await asyncio.sleep(0)
            raise KeyError
    assert noted == ["ended"]


async def test_results_and_errors_of_cancelled_tasks_are_returned_in_order() -> None:
    async def result() -> int:
        return 1

    async def fail() -> None:
        raise ValueError

    tasks = [asyncio.ensure_future(result()), asyncio.ensure_future(fail())]
    await asyncio.wait(tasks)
    tasks.append(asyncio.ensure_future(asyncio.Event().wait()))
    first, second, third = await cancel_and_wait(*tasks)
    assert (first, type(second), type(third)) == (1, ValueError, asyncio.CancelledError)
