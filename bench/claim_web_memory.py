"""The memory of a session's page that stays open while the agent streams, after a warm-up.

Two minutes, or as many as HUTCH_BENCH_MINUTES says. `make soak` runs an hour of it.
"""

import asyncio
import json
import os
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path

from bench.long_session import lengthen
from bench.result_row import Row
from bench.server_and_browser import Server, browser, load, server

MINUTES = float(os.environ.get("HUTCH_BENCH_MINUTES", "2"))
WARM_UP_S = 30.0
EVENTS = 30_000  # before: the page keeps as many rows as it may
COUNT = "document.querySelectorAll('*').length"
REPLIES = 5_000
CONTENT = "All of the words that a model says in a turn. " * 40


def cassette(place: Path) -> str:
    """Replies that stream 100 parts a second, each followed by a command that prints."""

    def reply(number: int) -> object:
        call = {"tool": "bash", "args": {"command": f"seq {number} {number + 400}"}}
        return {"text": f"Part {number}. {CONTENT}", "pace_s": 0.01, "calls": [call]}

    script = {"context_tokens": 100_000_000, "replies": [reply(number) for number in range(REPLIES)]}
    place.write_text(json.dumps(script))
    return f"scripted:{place}"


async def sizes(place: Server, session: str, model: str, seconds: float) -> tuple[float, float, float]:
    """Megabytes of the heap after the warm-up and at the end, after garbage collection; nodes at the end."""
    async with place.api as api:
        limits = {"turns": 100_000, "tokens": 10**9}
        answer = await api.patch(f"/sessions/{session}", json={"model": model, "limits": limits})
        assert answer.status_code < 300, answer.text
        answer = await api.post(f"/sessions/{session}/inputs", json={"type": "prompt", "text": "Talk."})
        assert answer.status_code < 300, answer.text
    async with browser(place) as (context,):
        page = await context.new_page()
        await page.goto(f"{place.url}/s/{session}?file=a.py&panel=log")
        await page.get_by_role("log").get_by_text(re.compile(r"Part \d+\.")).first.wait_for()
        cdp = await context.new_cdp_session(page)

        async def heap_mb() -> float:
            for _ in range(2):
                await cdp.send("HeapProfiler.collectGarbage")
            return float((await cdp.send("Runtime.getHeapUsage"))["usedSize"]) / 1e6

        await page.wait_for_timeout(WARM_UP_S * 1000)
        first = await heap_mb()
        await page.wait_for_timeout(seconds * 1000)
        last = await heap_mb()
        assert await page.get_by_role("button", name="Stop").count(), "the run ended too early"
        return first, last, float(await page.evaluate(COUNT))


def measure() -> Iterator[Row]:
    with tempfile.TemporaryDirectory() as directory:
        home = Path(directory)
        with server(home) as up:
            session = asyncio.run(up.new_session(purpose="Streaming", files={"a.py": "a = 1\n"}))
        asyncio.run(lengthen(home, session, EVENTS))
        with server(home) as up:
            script = cassette(home / "cassette.json")
            first, last, nodes = asyncio.run(sizes(up, session, script, MINUTES * 60))
    yield Row(
        f"heap of a page after {MINUTES:g} min of streaming", last, first, "MB", 1.1, f"after {WARM_UP_S:g} s"
    )
    yield Row(f"nodes of that page ({load()})", nodes, None, "", 5000)
