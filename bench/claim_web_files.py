"""A directory of 10,000 files in the tree of the web app: until it is shown, scrolled, and filtered."""

import asyncio
import tempfile
from collections.abc import Iterator
from pathlib import Path

from bench.result_row import Row
from bench.web_server import Server, browser, load, server

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


async def figures(place: Server) -> tuple[float, list[float]]:
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
        return shown, sorted(await page.evaluate(SCROLL, SCROLL_MS))


def measure() -> Iterator[Row]:
    with tempfile.TemporaryDirectory() as directory, server(Path(directory)) as up:
        shown, frames = asyncio.run(figures(up))
    rate = 1000 * len(frames) / sum(frames)
    yield Row("tree of 10,000 files, opened", shown, None, "ms", 1000)
    yield Row("scrolling it, frames per second", rate, None, "", 58, at_least=True)
    yield Row(f"scrolling it, longest frame ({load()})", frames[-1], None, "ms", 50)
