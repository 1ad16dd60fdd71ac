"""Work in a thread is over when its caller goes on."""

# ruff: noqa: ASYNC110 (what a thread has done is asked for)

import asyncio
import threading
import time
from collections.abc import Callable

import pytest

from hutch.domain.errors import NotFound
from hutch.workspace.prepare.thread import finish, finish_soon

pytestmark = pytest.mark.anyio


async def test_the_result_and_the_error_come_back() -> None:
    def fail() -> None:
        raise NotFound("Nothing.")

    assert await finish(sum, [1, 2], start=3) == 6
    assert await finish_soon(lambda check: check() or 5) == 5
    for work in (lambda: finish(fail), lambda: finish_soon(lambda check: fail())):
        with pytest.raises(NotFound):
            await work()


async def test_who_is_cancelled_waits_for_the_end() -> None:
    begun, done = threading.Event(), threading.Event()

    def work() -> None:
        begun.set()
        time.sleep(0.2)
        done.set()

    task = asyncio.ensure_future(finish(work))
    while not begun.is_set():
        await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert done.is_set()


async def test_long_work_ends_where_it_asks() -> None:
    turns = []

    def work(check: Callable[[], None]) -> None:
        while True:
            turns.append(1)
            time.sleep(0.01)
            check()

    task = asyncio.ensure_future(finish_soon(work))
    while not turns:
        await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    before = len(turns)
    await asyncio.sleep(0.05)
    assert len(turns) == before


async def test_who_is_cancelled_again_and_again_waits_too() -> None:
    begun, go = threading.Event(), threading.Event()

    def work() -> None:
        begun.set()
        go.wait(30)

    task = asyncio.ensure_future(finish(work))
    while not begun.is_set():
        await asyncio.sleep(0.01)
    for _ in range(5):
        task.cancel()
        await asyncio.sleep(0.01)
    assert not task.done()
    go.set()
    with pytest.raises(asyncio.CancelledError):
        await task
