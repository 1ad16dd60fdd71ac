"""Work that runs to its end even when the caller is cancelled."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, ParamSpec, TypeVar

Params = ParamSpec("Params")
Result = TypeVar("Result")


async def run_in_thread(
    work: Callable[Params, Result], *args: Params.args, **kwargs: Params.kwargs
) -> Result:
    """Run in a thread. A cancelled caller waits for the end, so it can clean up the result."""
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
    """Wait until all of these are done, even if cancelled meanwhile; raises nothing."""
    while any(not each.done() for each in working):
        with suppress(asyncio.CancelledError):
            await asyncio.wait(working)
    for each in working:
        if not each.cancelled():
            each.exception()  # marks it as retrieved
