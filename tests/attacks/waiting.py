"""Waits for conditions, with a timeout for the busiest machine."""

import asyncio
from collections.abc import Callable

TIMEOUT_S = 180.0


async def until(condition: Callable[[], object]) -> None:
    """Wait until the condition is true; TimeoutError if it never is."""
    async with asyncio.timeout(TIMEOUT_S):
        while not condition():  # noqa: ASYNC110 (the kernel sends no notification)
            await asyncio.sleep(0.01)


async def until_neighbour_runs(busy, *, runs: int) -> None:
    """Wait until the other jail has run so many more commands."""
    enough = busy.neighbour_runs + runs
    await until(lambda: busy.neighbour_runs >= enough)
