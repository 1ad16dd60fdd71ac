"""Work in a thread is over when its caller goes on."""

# ruff: noqa: ASYNC110 (what a thread has done is asked for)

import asyncio
import threading
import time

import pytest

from hutch.domain.errors import NotFound
from hutch.system.uncancellable_work import run_in_thread

pytestmark = pytest.mark.anyio


async def test_the_result_and_the_error_come_back() -> None:
    def fail() -> None:
        raise NotFound("Nothing.")

    assert await run_in_thread(sum, [1, 2], start=3) == 6
    with pytest.raises(NotFound):
        await run_in_thread(fail)


async def test_a_cancelled_caller_waits_for_the_end() -> None:
    begun, done = threading.Event(), threading.Event()

    def work() -> None:
        begun.set()
        time.sleep(0.2)
        done.set()

    task = asyncio.ensure_future(run_in_thread(work))
    while not begun.is_set():
        await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert done.is_set()


async def test_a_caller_that_is_cancelled_repeatedly_waits_too() -> None:
    begun, go = threading.Event(), threading.Event()

    def work() -> None:
        begun.set()
        go.wait(30)

    task = asyncio.ensure_future(run_in_thread(work))
    while not begun.is_set():
        await asyncio.sleep(0.01)
    for _ in range(5):
        task.cancel()
        await asyncio.sleep(0.01)
    assert not task.done()
    go.set()
    with pytest.raises(asyncio.CancelledError):
        await task
