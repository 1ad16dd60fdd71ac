"""A directory of 10,000 files in the tree of the web app: until it is shown, scrolled, and filtered."""

import asyncio
import tempfile
from collections.abc import Iterator
from pathlib import Path

from bench.result_row import Row
from bench.server_and_browser import Server, browser, load, server

FILES = 10_000
SCROLL_MS = 5000

SHOWN = """async (name) => {
    const tree = document.querySelector('[role=tree]');
    const started = performance.now();
    tree.querySelector('[role=treeitem]').click();
    while (!tree.textContent.includes(name)) await new Promise(requestAnimationFrame);
    return performance.now() - started;
}"""
SCROLL = """async (ms) => {
    let element = document.querySelector('[role=tree]');
    while (element.scrollHeight <= element.clientHeight + 1) element = element.parentElement;
    const times = [];
    const started = performance.now();
    await new Promise((done) => {
        const frame = (now) => {
            times.push(now);
            element.scrollTop += 200;
            if (now - started < ms) requestAnimationFrame(frame);
            else done();
        };
        requestAnimationFrame(frame);
    });
    return times.slice(1).map((time, index) => time - times[index]);
}"""


FILTER = """async ([text, name]) => {
    const tree = document.querySelector('[role=tree]');
    const field = tree.closest('section').querySelector('input');
    const started = performance.now();
    Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, 'value').set.call(field, text);
    field.dispatchEvent(new Event('input', { bubbles: true }));
    while (!tree.textContent.includes(name)) await new Promise(requestAnimationFrame);
    return performance.now() - started;
}"""


async def figures(place: Server) -> tuple[float, list[float], float]:
    session = await place.new_session(purpose="Files", files={"many/start.txt": "x\n"})
    async with place.api as api:
        command = f"cd many && for n in $(seq 1 {FILES}); do : > file_$n.txt; done"
        answer = await api.post(f"/sessions/{session}/commands", json={"command": command})
        assert answer.status_code < 300, answer.text
    async with browser(place) as (context,):
        page = await context.new_page()
        await page.goto(f"{place.url}/s/{session}")
        await page.get_by_role("treeitem").first.wait_for()
        shown = float(await page.evaluate(SHOWN, "file_1.txt"))
        frames = sorted(await page.evaluate(SCROLL, SCROLL_MS))
        await page.evaluate("document.querySelector('[role=tree]').parentElement.scrollTop = 0")
        filtered = [
            float(await page.evaluate(FILTER, [f"file_{number}.", f"file_{number}.txt"]))
            for number in (7777, 4321, 9876)
        ]
        return shown, frames, sorted(filtered)[1]


def measure() -> Iterator[Row]:
    with tempfile.TemporaryDirectory() as directory, server(Path(directory)) as up:
        shown, frames, filtered = asyncio.run(figures(up))
    rate = 1000 * len(frames) / sum(frames)
    yield Row("tree of 10,000 files, opened", shown, None, "ms", 1000)
    yield Row("filtering it", filtered, None, "ms", 100)
    yield Row("scrolling it, frames per second", rate, None, "", 58, at_least=True)
    yield Row(f"scrolling it, longest frame ({load()})", frames[-1], None, "ms", 50)
