"""Blocking work in a thread, which is over when we go on, also when we are cancelled."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, ParamSpec, TypeVar

Params = ParamSpec("Params")
Result = TypeVar("Result")


async def run_in_thread(
    work: Callable[Params, Result], *args: Params.args, **kwargs: Params.kwargs
) -> Result:
    """Do it in a thread. Who is cancelled waits for its end: what it makes can be taken away then."""
    return await run_to_end(asyncio.to_thread(work, *args, **kwargs))


async def run_to_end(work: Awaitable[Result]) -> Result:
    """Await a coroutine or task to its end, also when the caller is cancelled meanwhile."""
    working = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(working)
    except asyncio.CancelledError:
        await wait_until_done(working)
        raise


async def wait_until_done(*working: asyncio.Future[Any]) -> None:
    """Wait for the end of all of these, however often we are cancelled meanwhile; nothing is raised."""
    while any(not each.done() for each in working):
        with suppress(asyncio.CancelledError):
            await asyncio.wait(working)
    for each in working:
        if not each.cancelled():
            each.exception()  # seen
