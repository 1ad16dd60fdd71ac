"""Handles signals, and a closed standard output, in the event loop."""

import asyncio
import os
import signal
import stat
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager

from hutch.system.signals_that_stay_ignored import is_handled


@contextmanager
def on_signals(handlers: Mapping[signal.Signals, Callable[[], Awaitable[None] | None]]) -> Iterator[None]:
    """Handle signals with these functions, except those that were ignored at the start."""
    loop = asyncio.get_running_loop()
    tasks: set[asyncio.Future[None]] = set()

    def answer(handler: Callable[[], Awaitable[None] | None]) -> None:
        doing = handler()
        if doing is not None:
            task = asyncio.ensure_future(doing)
            tasks.add(task)
            task.add_done_callback(tasks.discard)

    answered = {number: handler for number, handler in handlers.items() if is_handled(number)}
    for number, handler in answered.items():
        loop.add_signal_handler(number, answer, handler)
    try:
        yield
    finally:
        for number in answered:
            loop.remove_signal_handler(number)
        for task in tasks:
            task.cancel()


@contextmanager
def ended_by(*numbers: signal.Signals) -> Iterator[list[int]]:
    """Cancel the current task on these signals, so that it releases its resources.

    Signals that were ignored at the start stay ignored. Yields the list of received signals.
    """
    task = asyncio.current_task()
    assert task is not None
    came: list[int] = []

    def end(number: int) -> None:
        came.append(number)
        task.cancel()

    loop = asyncio.get_running_loop()
    answered = [number for number in numbers if is_handled(number)]
    for number in answered:
        loop.add_signal_handler(number, end, number)
    try:
        yield came
    finally:
        for number in answered:
            loop.remove_signal_handler(number)


@asynccontextmanager
async def stop_when_unread() -> AsyncIterator[None]:
    """Raise BrokenPipeError when the reader closes our output, even while nothing is written."""
    loop, task, output = asyncio.get_running_loop(), asyncio.current_task(), sys.stdout.fileno()
    is_pipe = stat.S_ISFIFO(os.fstat(output).st_mode) or stat.S_ISSOCK(os.fstat(output).st_mode)
    unread = False

    def stop() -> None:
        nonlocal unread
        unread = True
        loop.remove_reader(output)
        if task:
            task.cancel()

    if is_pipe:
        loop.add_reader(output, stop)  # the write end of a pipe becomes readable only when it breaks
    try:
        yield
    except asyncio.CancelledError:
        if unread:
            raise BrokenPipeError from None
        raise
    finally:
        if is_pipe:
            loop.remove_reader(output)
