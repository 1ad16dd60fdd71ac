"""The web app in a real Chromium: bytes of the first load, and times with a CPU that is four times slower."""

import asyncio
import json
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
from bench.result_row import Row
from playwright.async_api import CDPSession, Page, async_playwright

CHROMIUM = "/usr/bin/chromium-headless-shell"
HUTCH = Path(__file__).parents[1] / ".venv/bin/hutch"
SLOWDOWN = 4
EVENTS = 50_000
JUMPS = (EVENTS, 501, 49_499, 2, 25_000, 24_999, 40_000, 10)


async def sizes_kb(page: Page, cdp: CDPSession, address: str, shows: str) -> float:
    """Bytes of scripts as they were sent, compressed."""
    sent: dict[str, float] = {}
    scripts: set[str] = set()

    def received(event: Any) -> None:
        if event["response"]["mimeType"] == "text/javascript":
            scripts.add(event["requestId"])

    cdp.on("Network.responseReceived", received)
    cdp.on(
        "Network.loadingFinished", lambda event: sent.update({event["requestId"]: event["encodedDataLength"]})
    )
    await cdp.send("Network.enable")
    await page.goto(address)
    await page.get_by_text(shows).first.wait_for()
    await page.wait_for_load_state("networkidle")
    return sum(size for request, size in sent.items() if request in scripts) / 1024


async def paint_and_input_ms(page: Page, cdp: CDPSession, address: str) -> tuple[float, float]:
    """First contentful paint, and the time until the filter can be typed in, since the navigation began."""
    await cdp.send("Emulation.setCPUThrottlingRate", {"rate": SLOWDOWN})
    await page.goto(address)
    await page.get_by_role("searchbox").first.wait_for()
    ready = await page.evaluate("performance.now()")
    paint = await page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime")
    return float(paint), float(ready)


# A socket that gives the page a log of its own: no session of a measurement has so many events.
SOCKET = """
    const Real = window.WebSocket;
    window.WebSocket = function (address, ...rest) {
        if (!address.includes('/events/socket')) return new Real(address, ...rest);
        const fake = {readyState: 1, close() {}, send() {}};
        setTimeout(() => {
            fake.onopen();
            for (let seq = 1; seq <= %d; seq += 1) {
                const said = {type: 'message.sent', author: 'user', text: 'event ' + seq, by: '', input: seq};
                const event = seq === 1 ? {type: 'session.opened', purpose: '', owner: 'ada'} : said;
                fake.onmessage({data: JSON.stringify({type: 'entry', seq, at_ms: seq * 20, event})});
            }
        });
        return fake;
    };
    Object.assign(window.WebSocket, Real);
"""


# Measured in the page: from the key to the frame that shows the event.
JUMP = """async (seq) => {
    const field = document.querySelector('form input');
    const set = Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, 'value').set;
    set.call(field, '#' + seq);
    field.dispatchEvent(new Event('input', {bubbles: true}));
    await new Promise(requestAnimationFrame);
    const started = performance.now();
    field.form.requestSubmit();
    while (!document.querySelector(`[data-event='${seq}']`)) await new Promise(requestAnimationFrame);
    return performance.now() - started;
}"""


async def slowest_jump_ms(page: Page, address: str, session: str) -> float:
    await page.add_init_script(SOCKET % EVENTS)
    await page.goto(f"{address}/s/{session}/play?at={EVENTS}")
    await page.locator(f"[data-event='{EVENTS}']").wait_for(timeout=300_000)
    return max([float(await page.evaluate(JUMP, seq)) for seq in JUMPS])


async def all_figures(address: str, link: str, token: str) -> list[float]:
    headers = {"Authorization": f"Bearer {token}"}
    async with httpx.AsyncClient(base_url=f"{address}/api/v1", headers=headers, trust_env=False) as api:
        session = (
            await api.post("/sessions", json={"purpose": "Measured", "files": {"a.py": "a = 1\n"}})
        ).json()["id"]
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        context = await browser.new_context()
        await context.request.post(f"{address}/api/v1/login/link", data={"link": link.partition("#")[2]})
        figures: list[float] = []
        for path, shows in (("/", "Measured"), (f"/s/{session}?file=a.py", "a.py")):
            page = await context.new_page()
            cdp = await context.new_cdp_session(page)
            await cdp.send("Network.setCacheDisabled", {"cacheDisabled": True})
            figures.append(await sizes_kb(page, cdp, address + path, shows))
            await page.close()
        page = await context.new_page()
        await page.goto(address)  # files of the app are cached, as at every visit but the first
        figures += await paint_and_input_ms(page, await context.new_cdp_session(page), address)
        await page.close()
        figures.append(await slowest_jump_ms(await context.new_page(), address, session))
        await browser.close()
    return figures


def measure() -> Iterator[Row]:
    with tempfile.TemporaryDirectory() as directory:
        home = {"HUTCH_HOME": directory, "PATH": "/usr/bin:/bin"}
        command = [str(HUTCH), "up", "--port", "0", "--json"]
        with subprocess.Popen(
            command, env=home, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        ) as up:
            try:
                assert up.stdout is not None
                said = json.loads(up.stdout.readline())
                token = (Path(directory) / "data/keys/local.token").read_text()
                first, second, paint, ready, jump = asyncio.run(all_figures(said["url"], said["link"], token))
            finally:
                up.terminate()
    yield Row("scripts of the first page, compressed", first, None, "KB", 130)
    yield Row("further scripts of a session's page", second - first, None, "KB", 400)
    yield Row("first contentful paint, CPU 4 times slower", paint, None, "ms", 1000)
    yield Row("ready for input, CPU 4 times slower", ready, None, "ms", 1500)
    yield Row("slowest jump in a playback of 50,000 events", jump, None, "ms", 200)
