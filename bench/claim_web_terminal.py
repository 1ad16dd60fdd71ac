"""`cat` of 40 MB in a terminal of the web app, compared with its two halves and with an otherwise empty page.

- xterm alone: a page writes the same bytes.
- A terminal alone: one thread reads what `cat` prints on it.
- A bare loop and xterm: the terminal of `bare_terminal_loop.py` on an empty page. Its parts share the
  processors as ours do, so it is the limit of this machine for a terminal in a browser.

All xterms have the same size. The browser is not observed: see `chromium_over_devtools.py`.
"""

import asyncio
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.chromium_over_devtools import DevTools, Page, chromium
from bench.result_row import Row
from bench.server_and_browser import Server, load, server

BENCH = Path(__file__).parent
XTERM = BENCH.parent / "web/node_modules/@xterm/xterm"
FILE_BYTES = 40_000_000
LINE = "x" * 78 + "\n"
RUNS = int(os.environ.get("HUTCH_BENCH_RUNS", "5"))

STYLE = """(text) => {
    const element = document.createElement('style');
    element.textContent = text;
    document.head.append(element);
}"""

OPEN = """(size) => {
    document.body.innerHTML = '<div id=place style="width:790px;height:280px"></div>';
    window.screenOf = new Terminal({scrollback: 5000, fontSize: 13, ...size});
    window.screenOf.open(document.getElementById('place'));
}"""

# The size of the page's xterm, from its lines and the width of a cell.
SIZE = """(() => {
    const screen = document.querySelector('.xterm-screen');
    const cell = document.querySelector('.xterm-char-measure-element').getBoundingClientRect().width / 32;
    const rows = document.querySelectorAll('.xterm-rows > div').length;
    return {rows, cols: Math.round(screen.offsetWidth / cell)};
})()"""

WRITE = """async (total, line) => {
    const part = new TextEncoder().encode(line.replace('\\n', '\\r\\n').repeat(600));
    const started = performance.now();
    const written = [];
    for (let sent = 0; sent < total; sent += part.length) {
        written.push(new Promise((done) => window.screenOf.write(part, done)));
        if (written.length > 10) await written[written.length - 10]; // xterm is never idle
    }
    await written.at(-1);
    return performance.now() - started;
}"""

CONNECT = """async (port, window_bytes) => {
    const screen = window.screenOf;
    const socket = new WebSocket(`ws://127.0.0.1:${port}/`);
    socket.binaryType = 'arraybuffer';
    let shown = 0;
    socket.onmessage = ({data}) => screen.write(new Uint8Array(data), () => {
        shown += data.byteLength;
        if (shown >= window_bytes / 4) {
            socket.send(String(shown));
            shown = 0;
        }
    });
    screen.onData((text) => socket.send(new TextEncoder().encode(text)));
    await new Promise((done) => { socket.onopen = done; });
}"""

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


DROPPED = "document.body.textContent.includes('not shown')"


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


@contextmanager
def bare_loop(directory: Path) -> Iterator[int]:
    """The port of a shell in the directory, on a WebSocket."""
    command = [sys.executable, str(BENCH / "bare_terminal_loop.py")]
    with subprocess.Popen(command, cwd=directory, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield int(process.stdout.readline())
        finally:
            process.terminate()


async def shown_ms(page: Page, number: int) -> tuple[float, float]:
    await page.show()
    await page.type(f"clear; cat big; echo shown-$((1000 + {number}))\n")
    took, slowest = await page.evaluate(SHOWN, f"shown-{1000 + number}")
    return float(took), float(slowest)


async def bare_page(devtools: DevTools, size: object) -> Page:
    """An empty page with an xterm."""
    page = await devtools.new_page()
    await page.evaluate((XTERM / "lib/xterm.js").read_text())
    await page.evaluate(STYLE, (XTERM / "css/xterm.css").read_text())
    await page.evaluate(OPEN, size)
    return page


async def session_page(devtools: DevTools, place: Server) -> Page:
    """The page of a session with an open terminal, and the file in its workspace."""
    session = await place.new_session(purpose="Terminal", files={"a.py": "a = 1\n"})
    async with place.api as api:
        command = f"yes {LINE.strip()} | head -c {FILE_BYTES} > big"
        answer = await api.post(f"/sessions/{session}/commands", json={"command": command})
        assert answer.status_code < 300, answer.text
    await devtools.log_in(place)
    page = await devtools.new_page(f"{place.url}/s/{session}?panel=terminal")
    await page.wait_for("[data-open-terminal]")
    await page.evaluate("document.querySelector('[data-open-terminal]').click()")
    await page.wait_for(".xterm-rows > div")
    await asyncio.sleep(1)  # until it has its size
    await page.evaluate("document.querySelector('.xterm-helper-textarea').focus()")
    return page


async def figures(place: Server, file: Path) -> dict[str, float]:
    found: dict[str, list[float]] = {name: [] for name in ("ours", "xterm", "kernel", "loop", "frame")}
    with bare_loop(file.parent) as port:
        async with chromium() as devtools:
            page = await session_page(devtools, place)
            size = await page.evaluate(SIZE)
            alone, looped = await bare_page(devtools, size), await bare_page(devtools, size)
            await looped.evaluate(CONNECT, port, 512 * 1024)
            await looped.evaluate("window.screenOf.focus()")
            for number in range(RUNS):
                await alone.show()
                found["xterm"].append(float(await alone.evaluate(WRITE, FILE_BYTES, LINE)))
                found["kernel"].append(await asyncio.to_thread(read_from_pty_ms, file))
                found["loop"].append((await shown_ms(looped, number))[0])
                took, longest = await shown_ms(page, number)
                assert not await page.evaluate(DROPPED), "bytes were dropped"
                found["ours"].append(took)
                found["frame"].append(longest)
    return {name: statistics.median(values) for name, values in found.items()}


def measure() -> Iterator[Row]:
    with tempfile.TemporaryDirectory() as directory, server(Path(directory)) as up:
        file = Path(directory) / "big"
        file.write_bytes(LINE.encode() * (FILE_BYTES // len(LINE)))
        found = asyncio.run(figures(up, file))
    yield Row("terminal page, cat 40 MB", found["ours"], found["xterm"], "ms", 1.3, "xterm alone")
    yield Row("the same", found["ours"], found["kernel"], "ms", 1.3, "cat to a terminal alone")
    yield Row("the same", found["ours"], found["loop"], "ms", 1.3, "a bare loop and xterm")
    yield Row("a bare loop and xterm", found["loop"], found["xterm"], "ms", 1.3, "xterm alone")
    yield Row(f"longest frame meanwhile ({load()})", found["frame"], None, "ms", 100)
