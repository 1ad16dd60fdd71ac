"""Waiting for what must come, for as long as the busiest machine might need."""

import asyncio
from collections.abc import Callable

LONG_S = 180.0


async def until(condition: Callable[[], object]) -> None:
    """Until it is true; TimeoutError if it never is."""
    async with asyncio.timeout(LONG_S):
        while not condition():  # noqa: ASYNC110 (of the kernel, who does not tell)
            await asyncio.sleep(0.01)


async def until_next_door(busy, *, runs: int) -> None:
    """Until the neighbour has run so many commands more."""
    enough = busy.neighbour_runs + runs
    await until(lambda: busy.neighbour_runs >= enough)
