"""Large files in the web app: a line of 5 MB in the editor, and a changed lock file of 30,000 lines."""

import asyncio
import tempfile
from collections.abc import Iterator
from pathlib import Path

from bench.result_row import Row
from bench.server_and_browser import Server, browser, load, server

LINE = "var text = '" + "x" * 5_000_000 + "';"
LOCK = "{\n" + "".join(f'  "package{number}": "1.0.0",\n' for number in range(30_000)) + "}\n"
ROUNDS = 3

# The time from a click on one element until a text is shown, and drawn.
SHOWN = """async ([selector, label, text]) => {
    const target = [...document.querySelectorAll(selector)].find((each) => each.innerText.includes(label));
    const started = performance.now();
    target.click();
    const has = (each) => each.innerText.includes(text);
    const shows = () => [...document.querySelectorAll('section')].some(has);
    do await new Promise(requestAnimationFrame); while (!shows());
    return performance.now() - started;
}"""


async def figures(place: Server) -> tuple[float, float]:
    files = {"bundle.js": "x\n", "package-lock.json": LOCK}
    session = await place.new_session(purpose="Large files", files=files)
    async with place.api as api:
        for name, text in (("bundle.js", LINE), ("package-lock.json", LOCK.replace("1.0.0", "1.1.0"))):
            answer = await api.put(f"/sessions/{session}/files/{name}", content=text.encode())
            assert answer.status_code < 300, answer.text
    lines, locks = [], []
    async with browser(place) as (context,):
        for _ in range(ROUNDS):
            page = await context.new_page()
            await page.goto(f"{place.url}/s/{session}?panel=log")
            await page.locator("[data-path='bundle.js']").wait_for()
            clicked = ["[role=treeitem]", "bundle.js", "Highlighting is off"]
            lines.append(float(await page.evaluate(SHOWN, clicked)))
            await page.goto(f"{place.url}/s/{session}?panel=log")
            await page.locator("[data-path='bundle.js']").wait_for()
            clicked = ["[role=tab]", "Changes", "60,000 changed lines"]
            locks.append(float(await page.evaluate(SHOWN, clicked)))
            await page.close()
    return min(lines), min(locks)


def measure() -> Iterator[Row]:
    with tempfile.TemporaryDirectory() as directory, server(Path(directory)) as up:
        line, lock = asyncio.run(figures(up))
    yield Row("line of 5 MB, opened in the editor", line, None, "ms", 1000)
    yield Row(f"changed lock file of 30,000 lines, shown ({load()})", lock, None, "ms", 500)
