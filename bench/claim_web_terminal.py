"""`cat` of 40 MB in a terminal of the web app, compared with its two halves.

xterm alone: a page writes the same bytes. A terminal alone: one thread reads what `cat` prints on it.
"""

import asyncio
import os
import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from bench.result_row import Row
from bench.server_and_browser import Server, browser, load, server
from playwright.async_api import Page

XTERM = Path(__file__).parents[1] / "web/node_modules/@xterm/xterm"
FILE_BYTES = 40_000_000
LINE = "x" * 78 + "\n"
RUNS = 3

BARE = """async ([total, line]) => {
    document.body.innerHTML = '<div id=place style="width:790px;height:280px"></div>';
    const screen = new Terminal({scrollback: 5000, fontSize: 13, cols: 98, rows: 14});
    screen.open(document.getElementById('place'));
    const part = new TextEncoder().encode(line.replace('\\n', '\\r\\n').repeat(600));
    const started = performance.now();
    const written = [];
    for (let sent = 0; sent < total; sent += part.length) {
        written.push(new Promise((done) => screen.write(part, done)));
        if (written.length > 10) await written[written.length - 10]; // xterm is never idle
    }
    await written.at(-1);
    const took = performance.now() - started;
    screen.dispose();
    return took;
}"""


def read_from_pty_ms(file: Path) -> float:
    """How long the kernel's terminal needs for the file, with nothing behind it."""
    ours, theirs = os.openpty()
    began = time.perf_counter()
    with subprocess.Popen(["cat", str(file)], stdout=theirs) as process:
        os.close(theirs)
        try:
            while os.read(ours, 64 * 1024):
                pass
        except OSError:  # EIO: `cat` has ended
            took_s = time.perf_counter() - began
        process.wait()
    os.close(ours)
    return took_s * 1000


# Polls frames: the line that the shell prints last is on the screen.
SHOWN = """async (mark) => {
    const started = performance.now();
    let slowest = 0;
    let before = started;
    for (;;) {
        await new Promise(requestAnimationFrame);
        slowest = Math.max(slowest, performance.now() - before);
        before = performance.now();
        const rows = document.querySelector('.xterm-rows');
        if (rows?.textContent.includes(mark)) return [before - started, slowest];
    }
}"""


async def shown_ms(page: Page, number: int) -> tuple[float, float]:
    await page.keyboard.type(f"clear; cat big; echo shown-$((1000 + {number}))")
    await page.keyboard.press("Enter")
    took, slowest = await page.evaluate(SHOWN, f"shown-{1000 + number}")
    return float(took), float(slowest)


async def figures(place: Server, file: Path) -> dict[str, float]:
    session = await place.new_session(purpose="Terminal", files={"a.py": "a = 1\n"})
    async with place.api as api:
        command = f"yes {LINE.strip()} | head -c {FILE_BYTES} > big"
        answer = await api.post(f"/sessions/{session}/commands", json={"command": command})
        assert answer.status_code < 300, answer.text
    async with browser(place) as (context,):
        page = await context.new_page()
        await page.goto(f"{place.url}/s/{session}?panel=terminal")
        await page.locator("[data-open-terminal]").click()
        await page.locator(".xterm-rows").wait_for()
        await page.locator(".xterm-screen").click()
        await page.wait_for_timeout(1000)
        ours, theirs, slowest, kernel = [], [], [], []
        bare = await context.new_page()
        await bare.add_style_tag(path=XTERM / "css/xterm.css")
        await bare.add_script_tag(path=XTERM / "lib/xterm.js")
        for number in range(RUNS):
            await bare.bring_to_front()
            theirs.append(float(await bare.evaluate(BARE, [FILE_BYTES, LINE])))
            kernel.append(await asyncio.to_thread(read_from_pty_ms, file))
            await page.bring_to_front()
            took, longest = await shown_ms(page, number)
            assert await page.get_by_text("not shown").count() == 0, "bytes were dropped"
            ours.append(took)
            slowest.append(longest)
    return {
        "ours": statistics.median(ours),
        "theirs": statistics.median(theirs),
        "kernel": statistics.median(kernel),
        "frame": statistics.median(slowest),
    }


def measure() -> Iterator[Row]:
    with tempfile.TemporaryDirectory() as directory, server(Path(directory)) as up:
        file = Path(directory) / "big"
        file.write_bytes(LINE.encode() * (FILE_BYTES // len(LINE)))
        found = asyncio.run(figures(up, file))
    yield Row("terminal page, cat 40 MB", found["ours"], found["theirs"], "ms", 1.3, "xterm alone")
    yield Row("the same", found["ours"], found["kernel"], "ms", 1.3, "cat to a terminal alone")
    yield Row(f"longest frame meanwhile ({load()})", found["frame"], None, "ms", 100)
