"""A tool of an MCP server in a jail, against the same server that the official client runs bare."""

import asyncio
import statistics
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

from bench.provider_and_installation import a_place
from bench.result_row import Row
from mcp import Client, StdioServerParameters

from tests.agent.extensions.extension_fixtures import open_extension_rig
from tests.agent.extensions.extension_programs import official_server

CALLS = 300
ROUNDS = 5
TOOL = "show_environment"


async def call_ms(call: Callable[[], Awaitable[object]]) -> float:
    """The median time of some calls, one after the other."""
    times = []
    for _ in range(CALLS // ROUNDS):
        began = time.perf_counter()
        await call()
        times.append((time.perf_counter() - began) * 1000)
    return statistics.median(times)


async def measure_calls(place: Path) -> tuple[float, float, float, float]:
    """The time of a call and of the first answer: as the agent calls it in the jail, and bare."""
    entry = official_server(place / "server")
    server = StdioServerParameters(command=entry["command"], args=entry["args"])
    async with open_extension_rig(place / "home", {"words.txt": b"one two three\n"}) as rig:
        await rig.approve("bench", entry)
        began = time.perf_counter()
        assert (await rig.use(f"bench__{TOOL}")).ok
        jailed_start = (time.perf_counter() - began) * 1000
        began = time.perf_counter()
        async with Client(server, cache=None) as client:
            await client.list_tools()
            await client.call_tool(TOOL, {})
            bare_start = (time.perf_counter() - began) * 1000
            rounds = [
                (
                    await call_ms(lambda: rig.use(f"bench__{TOOL}")),
                    await call_ms(lambda: client.call_tool(TOOL, {})),
                )
                for _ in range(ROUNDS)
            ]
    jailed, bare = (statistics.median(times) for times in zip(*rounds, strict=True))
    return jailed, bare, jailed_start, bare_start


def measure() -> Iterator[Row]:
    with a_place() as place:
        jailed, bare, jailed_start, bare_start = asyncio.run(measure_calls(place))
    same = "the same server, bare"
    yield Row("MCP tool in the jail, a call", jailed, bare, "ms", 2, same)
    yield Row("MCP tool in the jail, start to first answer", jailed_start, bare_start, "ms", 2, same)
