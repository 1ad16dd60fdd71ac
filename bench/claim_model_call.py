"""The time to close a cancelled model call, and the time and memory to load a provider."""

import asyncio
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import aclosing

from bench.result_row import Row, percentile

from hutch.llm.interface import Model
from tests.llm.provider_formats import DIALECTS, GO, Dialect, pieces
from tests.llm.provider_server import Act, playing

RUNS = 30
CHUNKS = 2000
LOADED = """
import json, re, sys, time
began = time.perf_counter()
from hutch.llm.model_and_key_names import parse_model_name
from hutch.llm.model_factory import Access, open_model
open_model(parse_model_name(sys.argv[1]), Access(keys={name: "key-1234567890" for name in sys.argv[2:]}))
took = (time.perf_counter() - began) * 1000
peak = re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())
print(json.dumps([took, int(peak[1]) / 1024]))
"""


def measure() -> Iterator[Row]:
    for dialect in DIALECTS:
        times = asyncio.run(cancelled_ms(dialect))
        yield Row(f"{dialect}: cancel to a closed wire, p95", percentile(times, 95), None, "ms", 50)
    for dialect in DIALECTS:
        took, memory = loaded(f"{dialect.provider}:x")
        yield Row(f"{dialect}: loaded and opened", took, None, "ms", 400)
        yield Row(f"{dialect}: memory then", memory, None, "MiB", 60)
    for dialect in DIALECTS:
        share = asyncio.run(core_share(dialect))
        yield Row(f"{dialect}: of a core for 1,000 chunks a second", share, None, "%", 15)


async def cancelled_ms(dialect: Dialect) -> list[float]:
    """Milliseconds from the cancellation until the server sees the connection closed."""
    times = []
    for _ in range(RUNS):
        chunks = dialect.reply("Look.", [("a", "bash", "{}")])[:3]
        async with playing(Act(chunks, ending="stall")) as wire:
            model = dialect.open(wire)
            task = asyncio.create_task(listen(model))
            await wire.sent.wait()
            await asyncio.sleep(0.01)
            began = time.perf_counter()
            task.cancel()
            await wire.gone.wait()
            times.append((time.perf_counter() - began) * 1000)
            await asyncio.gather(task, return_exceptions=True)
            await model.close()
    return times


async def listen(model: Model) -> None:
    async with aclosing(model.stream(GO)) as stream:
        async for _ in stream:
            pass


def loaded(name: str) -> tuple[float, float]:
    """Milliseconds and memory of a new process that opens a model; bytecode is cached, as installed."""
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    keys = [f"{provider}_api_key" for provider in ("anthropic", "openai", "gemini")]
    command = [sys.executable, "-c", LOADED, name, *keys]
    result = [
        json.loads(subprocess.run(command, check=True, capture_output=True, env=environment).stdout)
        for _ in range(6)
    ][1:]
    return statistics.median(took for took, _ in result), statistics.median(memory for _, memory in result)


async def core_share(dialect: Dialect) -> float:
    """The share of a core that reading 1,000 chunks a second uses, including the imitated server."""
    first, *_ = [chunk for chunk in dialect.reply("word ", ()) if b"word " in chunk]
    whole = dialect.reply("word ", ())
    place = whole.index(first)
    async with playing(Act(whole), Act([*whole[:place], *[first] * CHUNKS, *whole[place + 1 :]])) as wire:
        await pieces(dialect.open(wire))  # the first reply loads modules, which is not measured
        model = dialect.open(wire)
        began = time.process_time()
        got = await pieces(model)
        spent = time.process_time() - began
    assert len(got) >= CHUNKS
    return spent / CHUNKS * 1000 * 100
