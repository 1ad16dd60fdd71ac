"""A hostile page from the jail, in a real browser that is logged in."""

from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import BrowserContext

from tests.gateway.api_server import V1, Api, serving
from tests.gateway.headless_browser import chromium
from tests.gateway.test_stream_preview import PORT, Browser, browser, served

pytestmark = pytest.mark.anyio

ATTACK = """<!doctype html><title>trying</title><script>
const main = `http://localhost:${location.port}`;
const session = 'ses_' + location.hostname.split('-')[0];
const attempt = async (what) => { try { return String(await what()); } catch (e) { return 'refused'; } };
const me = main + '/api/v1/me';
const post = (mode) => fetch(main + '/api/v1/sessions', {
  method: 'POST', mode, credentials: 'include', headers: {'Content-Type': 'text/plain'},
  body: '{"purpose":"stolen"}',
}).then((answer) => answer.type === 'opaque' ? 'refused' : answer.text());
const socket = () => new Promise((yes, no) => {
  const opened = new WebSocket(`ws://localhost:${location.port}/api/v1/sessions/${session}/events/socket`);
  opened.onmessage = (event) => yes(event.data);
  opened.onerror = no;
});
const frame = () => new Promise((yes) => {
  const made = document.createElement('iframe');
  made.onload = () => yes(made.contentDocument ? made.contentDocument.body.innerText : 'refused');
  made.src = me;
  document.body.append(made);
});
const image = () => new Promise((yes, no) => {
  const made = new Image();
  made.onload = () => yes('loaded'); made.onerror = no;
  made.src = me;
});
addEventListener('load', async () => {
  document.cookie = `hutch_${location.port}=evil; domain=localhost; path=/`;
  document.cookie = `hutch_${location.port}=evil; path=/`;
  window.results = {
    fetched: await attempt(() => fetch(me, {credentials: 'include'}).then((answer) => answer.text())),
    posted: await attempt(() => post('cors')),
    posted_blindly: await attempt(() => post('no-cors')),
    socket: await attempt(socket),
    framed: await attempt(frame),
    image: await attempt(image),
    login: document.cookie.includes('hutch_preview') ? 'read' : 'refused',
  };
  document.title = 'done';
});
</script><body>Hello</body>"""


async def logged_in(api: Api, context: BrowserContext) -> tuple[Browser, str]:
    """By the cookie of a login; the address of the server as people open it."""
    mine = await browser(api)
    name, _, value = mine.cookie.partition("=")
    await context.add_cookies(
        [
            {
                "name": name,
                "value": value,
                "domain": "localhost",
                "path": "/",
                "httpOnly": True,
                "sameSite": "Lax",
            }
        ]
    )
    return mine, f"http://localhost:{mine.port}"


async def test_a_page_from_the_jail_is_unauthenticated(tmp_path: Path) -> None:
    async with serving(tmp_path) as api, chromium() as started:
        session_id = await served(api, "attack", attack=ATTACK)
        context = await started.new_context()
        _, main = await logged_in(api, context)
        page = await context.new_page()
        await page.goto(f"{main}/preview/{session_id}/{PORT}/attack")
        await page.wait_for_function("document.title == 'done'", timeout=60_000)
        assert (
            page.url
            == f"http://{session_id.removeprefix('ses_')}-{PORT}.{main.removeprefix('http://')}/attack"
        )
        results: dict[str, Any] = await page.evaluate("window.results")
        assert results == dict.fromkeys(results, "refused")
        assert len(results) == 7
        # The same from a page of our own works, so it is not for another reason that it fails there.
        await page.goto(f"{main}{V1}/me")
        mine = await page.evaluate("fetch('/api/v1/me').then((answer) => answer.json())")
        assert mine["user"]["name"] == "owner"
        purposes = [each["purpose"] for each in (await api.get(f"{V1}/sessions")).json()["items"]]
        assert purposes == ["previews"]


async def test_a_frame_of_ours_can_show_it(tmp_path: Path) -> None:
    async with serving(tmp_path) as api, chromium() as started:
        session_id = await served(api)
        context = await started.new_context()
        _, main = await logged_in(api, context)
        page = await context.new_page()
        await page.goto(f"{main}{V1}/me")
        await page.evaluate(
            """(url) => { const frame = document.createElement('iframe'); frame.src = url;
            document.body.append(frame); }""",
            f"{main}/preview/{session_id}/{PORT}/",
        )
        heading = page.frame_locator("iframe").locator("h1")
        assert await heading.inner_text(timeout=60_000) == "Hello from the jail"
