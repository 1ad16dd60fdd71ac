"""Typing in the web app while the agent streams: from a key to the screen, and to another browser.

Compared with CodeMirror alone on an empty page, in turns: the browser shows a key with its next frame, up to
16.7 ms later, so no editor is at 16 ms in 95 of 100 cases.
"""

import asyncio
import json
import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from bench.result_row import Row, percentile
from bench.server_and_browser import Server, browser, load, server
from playwright.async_api import Page

ROUNDS = 5
KEYS = 40  # in each round, of each page
KEY_INTERVAL_MS = 60
SETTLE_MS = 3000  # after a page was opened
PART_CHARS = 24  # the scripted model sends so many at once
PART_S = 0.06  # 17 parts of a line, or 100 tokens a second
PARTS = 10_000
PATH = "notes.txt"
LINES = "first line\n" * 50
ROOT = Path(__file__).parents[1]
CODEMIRROR = """
import * as view from "%(modules)s/@codemirror/view";
import { defaultKeymap, history } from "%(modules)s/@codemirror/commands";
const drawn = [view.lineNumbers(), view.drawSelection(), view.highlightActiveLine()];
const extensions = [history(), ...drawn, view.keymap.of(defaultKeymap)];
new view.EditorView({ parent: document.body, doc: %(lines)s, extensions });
"""

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
        await page.keyboard.press("Enter" if number == KEYS - 1 else "x")
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


def bundled_codemirror(place: Path) -> Path:
    """One script that opens CodeMirror alone, made of the packages of the web app."""
    entry, script = place / "entry.js", place / "codemirror.js"
    entry.write_text(CODEMIRROR % {"modules": ROOT / "web/node_modules", "lines": json.dumps(LINES)})
    program = ROOT / "web/node_modules/.bin/rolldown"
    environment = {**os.environ, "PATH": f"{ROOT / '.venv/bin'}:{os.environ['PATH']}"}
    words = [str(program), str(entry), "--format", "iife", "--file", str(script), "--log-level", "silent"]
    subprocess.run(words, env=environment, check=True)
    return script


async def figures(place: Server, cassette: Path, codemirror: Path) -> dict[str, list[float]]:
    model = f"scripted:{cassette}"
    session = await place.new_session(purpose="Live", files={PATH: LINES}, model=model, prompt="Talk.")
    async with browser(place, 2) as (first, second):
        address = f"{place.url}/s/{session}?file={PATH}"
        streaming: list[float] = []
        editor: list[float] = []
        for _ in range(ROUNDS):  # in turns, since the load of a machine changes
            one = await opened(first, address)
            await one.get_by_role("log").get_by_text("streamed").first.wait_for()
            await one.wait_for_timeout(SETTLE_MS)
            await one.locator(".cm-content").click()
            streaming += await type_keys(one)
            assert await one.get_by_role("button", name="Stop").count(), "the reply ended too early"
            await one.close()
            bare = await first.new_page()
            await bare.add_script_tag(path=codemirror)
            await bare.locator(".cm-content").click()
            editor += await type_keys(bare)
            await bare.close()
        quiet = await place.new_session(purpose="Together", files={PATH: LINES})
        address = f"{place.url}/s/{quiet}?file={PATH}"
        other = await opened(second, address)
        together = await exchange(await opened(first, address), other)
    return {"streaming": streaming, "CodeMirror": editor, "together": together}


def measure() -> Iterator[Row]:
    with tempfile.TemporaryDirectory() as directory:
        home = Path(directory)
        cassette = home / "cassette.json"
        text = ("streamed words\n\n" + "word " * 40 + "\n\n") * (PARTS * PART_CHARS // 220)
        cassette.write_text(json.dumps({"replies": [{"text": text, "pace_s": PART_S}]}))
        with server(home) as up:
            found = asyncio.run(figures(up, cassette, bundled_codemirror(home)))
    ours, theirs = found["streaming"], found["CodeMirror"]
    yield Row("key to screen, p95, at 100 tokens a second", percentile(ours, 95), None, "ms", 16)
    alone = "CodeMirror on an empty page"
    yield Row("the same", percentile(ours, 95), percentile(theirs, 95), "ms", 1.3, alone)
    yield Row("the same, median", percentile(ours, 50), percentile(theirs, 50), "ms", 1.3, alone)
    yield Row(f"key to another browser, p95 ({load()})", percentile(found["together"], 95), None, "ms", 50)
