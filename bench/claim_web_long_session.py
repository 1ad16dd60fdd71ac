"""A session of 50,000 events in the browser: the time until its end is shown, again when it is reopened, and
the frames while a reader scrolls."""

import asyncio
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from bench.long_session import LAST_LINE, lengthen
from bench.result_row import Row
from bench.server_and_browser import Server, browser, load, server
from playwright.async_api import BrowserContext, CDPSession, Page

EVENTS = 50_000
SHORT_EVENTS = 300
SCROLL_S = 5

# Scrolls up at the speed of a wheel that is turned fast, and back, and notes the time of each frame.
SCROLL = """async (ms) => {
    const element = document.querySelector('[role=log]');
    const times = [];
    const started = performance.now();
    await new Promise((done) => {
        const frame = (now) => {
            times.push(now);
            const up = (now - started) % 2000 < 1500;
            element.scrollTop += up ? -60 : 60;
            if (now - started < ms) requestAnimationFrame(frame);
            else done();
        };
        requestAnimationFrame(frame);
    });
    return times.slice(1).map((time, index) => time - times[index]);
}"""


class Opened(NamedTuple):
    """A page that shows the last row: the time since the navigation, and the work of its main thread."""

    page: Page
    shown_ms: float
    work_ms: float


async def opened(context: BrowserContext, address: str) -> Opened:
    page = await context.new_page()
    cdp = await context.new_cdp_session(page)
    await cdp.send("Performance.enable")
    await page.goto(address, wait_until="commit")
    await page.wait_for_function(
        "(text) => document.querySelector('[role=log]')?.textContent.includes(text)", arg=LAST_LINE
    )
    shown_ms = float(await page.evaluate("performance.now()"))
    return Opened(page, shown_ms, await processor_ms(cdp))


async def processor_ms(cdp: CDPSession) -> float:
    """Milliseconds that the main thread of the page has worked."""
    metrics = (await cdp.send("Performance.getMetrics"))["metrics"]
    return 1000 * float(next(each["value"] for each in metrics if each["name"] == "TaskDuration"))


async def figures(place: Server, long: str, short: str) -> dict[str, float]:
    async with browser(place) as (context,):
        page = await context.new_page()
        await page.goto(place.url)  # the app is cached
        await page.close()
        plain = await opened(context, f"{place.url}/s/{short}")
        await plain.page.close()
        first = await opened(context, f"{place.url}/s/{long}")
        await (
            first.page.locator("header")
            .get_by_text("of the context")
            .or_(first.page.get_by_text("$"))
            .first.wait_for()
        )  # the whole log was read
        frames = sorted(await first.page.evaluate(SCROLL, SCROLL_S * 1000))
        await first.page.close()
        again = await opened(context, f"{place.url}/s/{long}")
        await again.page.close()
    return {
        "first": first.shown_ms,
        "first work": first.work_ms,
        "again": again.shown_ms,
        "again work": again.work_ms,
        "short": plain.shown_ms,
        "short work": plain.work_ms,
        "rate": 1000 * len(frames) / sum(frames),
        "p95": frames[len(frames) * 95 // 100],
        "longest": frames[-1],
    }


async def new_sessions(place: Server) -> tuple[str, str]:
    files = {"a.py": "a = 1\n"}
    return await place.new_session(purpose="Long", files=files), await place.new_session(
        purpose="Short", files=files
    )


def measure() -> Iterator[Row]:
    with tempfile.TemporaryDirectory() as directory:
        home = Path(directory)
        with server(home) as up:
            long, short = asyncio.run(new_sessions(up))
        asyncio.run(lengthen(home, long, EVENTS))
        asyncio.run(lengthen(home, short, SHORT_EVENTS))
        with server(home) as up:
            found = asyncio.run(figures(up, long, short))
    what = f"session of {SHORT_EVENTS} events"
    yield Row("session of 50,000 events, its end shown", found["first"], None, "ms", 2000)
    yield Row("the same, opened again", found["again"], None, "ms", 2000)
    yield Row("the same, to show its end", found["first"], found["short"], "ms", 1.5, what)
    yield Row("work of the page until then", found["first work"], found["short work"], "ms", 1.5, what)
    yield Row("the same, opened again", found["again work"], found["short work"], "ms", 1.5, what)
    yield Row("scrolling its talk, frames per second", found["rate"], None, "", 58, at_least=True)
    yield Row(f"scrolling its talk, longest frame ({load()})", found["longest"], None, "ms", 50)
