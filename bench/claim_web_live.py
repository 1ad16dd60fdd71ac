"""Typing in the web app while the agent streams: from a key to the screen, and to another browser."""

import asyncio
import json
import tempfile
from collections.abc import Iterator
from pathlib import Path

from bench.result_row import Row, percentile
from bench.web_server import Server, browser, load, server
from playwright.async_api import Page

KEYS = 150
KEY_INTERVAL_MS = 60
PART_CHARS = 24  # the scripted model sends so many at once
PART_S = 0.02  # 50 parts of a line, or 300 tokens a second
PARTS = 3_000
PATH = "notes.txt"

# The browser's own report of an input rounds to 8 ms. So frames are
# observed: from the event's own time stamp to the start of the frame after the one that has drawn the change.
OBSERVE = """() => {
    window.seen = [];
    document.querySelector('.cm-content').addEventListener('keydown', (event) => {
        const at = event.timeStamp;
        requestAnimationFrame(() => {
            const channel = new MessageChannel();
            channel.port1.onmessage = () => window.seen.push(performance.now() - at);
            channel.port2.postMessage(0); // after this frame was drawn
        });
    }, {capture: true});
}"""

# Each character is one that no other has typed; both pages note the wall time at which the editor has it.
NOTE = """() => {
    window.noted = {};
    const content = document.querySelector('.cm-content');
    const note = () => {
        for (const mark of content.textContent.match(/<\\d+>/g) ?? []) {
            window.noted[mark] ??= performance.timeOrigin + performance.now();
        }
    };
    new MutationObserver(note).observe(content, {childList: true, subtree: true, characterData: true});
}"""


async def type_keys(page: Page) -> list[float]:
    await page.evaluate(OBSERVE)
    for number in range(KEYS):
        await page.keyboard.press("Enter" if number % 40 == 39 else "x")
        await page.wait_for_timeout(KEY_INTERVAL_MS)
    return [float(each) for each in await page.evaluate("window.seen")]


async def exchange(one: Page, other: Page) -> list[float]:
    for page in (one, other):
        await page.evaluate(NOTE)
    await one.locator(".cm-content").click()
    for number in range(60):
        await one.keyboard.insert_text(f"<{number}>")
        await one.wait_for_timeout(KEY_INTERVAL_MS)
    await one.wait_for_timeout(1000)
    sent, received = await one.evaluate("window.noted"), await other.evaluate("window.noted")
    assert len(received) >= 55, received
    return [received[mark] - at for mark, at in sent.items() if mark in received]


async def opened(context: object, address: str) -> Page:
    page: Page = await context.new_page()  # type: ignore[attr-defined]
    await page.goto(address)
    await page.locator(".cm-content").wait_for()
    return page


async def figures(place: Server, cassette: Path) -> dict[str, list[float]]:
    model = f"scripted:{cassette}"
    session = await place.new_session(
        purpose="Live", files={PATH: "first line\n" * 50}, model=model, prompt="Talk."
    )
    async with browser(place, 2) as (first, second):
        address = f"{place.url}/s/{session}?file={PATH}"
        one = await opened(first, address)
        await one.get_by_role("log").get_by_text("streamed").first.wait_for()
        await one.locator(".cm-content").click()
        streaming = await type_keys(one)
        assert await one.get_by_role("button", name="Stop").count(), "the reply ended too early"
        await one.close()
        bare = await first.new_page()
        await bare.set_content("<textarea class=cm-content rows=20></textarea>")
        await bare.locator("textarea").click()
        alone = await type_keys(bare)
        await bare.close()
        quiet = await place.new_session(purpose="Together", files={PATH: "first line\n" * 50})
        address = f"{place.url}/s/{quiet}?file={PATH}"
        other = await opened(second, address)
        together = await exchange(await opened(first, address), other)
    return {"streaming": streaming, "alone": alone, "together": together}


def measure() -> Iterator[Row]:
    with tempfile.TemporaryDirectory() as directory:
        home = Path(directory)
        cassette = home / "cassette.json"
        text = ("streamed words\n\n" + "word " * 40 + "\n\n") * (PARTS * PART_CHARS // 220)
        cassette.write_text(json.dumps({"replies": [{"text": text, "pace_s": PART_S}]}))
        with server(home) as up:
            found = asyncio.run(figures(up, cassette))
    ours, theirs = (percentile(found[name], 95) for name in ("streaming", "alone"))
    yield Row("key to screen, p95, at 100 tokens a second", ours, None, "ms", 16)
    yield Row("the same", ours, theirs, "ms", 1.3, "text area of an empty page")
    ours, theirs = (percentile(found[name], 50) for name in ("streaming", "alone"))
    yield Row("the same, median", ours, theirs, "ms", 1.3, "text area of an empty page")
    yield Row(f"key to another browser, p95 ({load()})", percentile(found["together"], 95), None, "ms", 50)
