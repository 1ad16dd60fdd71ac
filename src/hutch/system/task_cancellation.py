"""Tasks that run beside other work, and end with it."""

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any


@asynccontextmanager
async def running(*work: Coroutine[Any, Any, object]) -> AsyncIterator[None]:
    """Run coroutines as tasks while the block runs. Their errors are not raised."""
    tasks = [asyncio.ensure_future(each) for each in work]
    try:
        yield
    finally:
        await cancel_and_wait(*tasks)


async def cancel_and_wait(*tasks: asyncio.Future[Any]) -> list[Any]:
    """Cancel all of these, and wait until they have ended. Returns their results, or their exceptions."""
    for task in tasks:
        task.cancel()
    return await asyncio.gather(*tasks, return_exceptions=True)
