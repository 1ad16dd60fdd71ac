"""The list of sessions, the first visit and notifications, in a real browser."""

import re
import time
from pathlib import Path

import httpx
import pytest
from playwright.async_api import Browser, BrowserContext, Page, Route, WebSocketRoute, expect

from tests.cli.hutch_up_process import Home, Up
from tests.deadline import DEADLINE_S
from tests.web.web_sessions import cassette, new_session

pytestmark = pytest.mark.anyio

ASKS = {"calls": [{"tool": "ask_user", "args": {"question": "Which database?"}}]}
# The browser of the tests shows no notifications.
FAKE = """
    window.Notification = class {
        static permission = 'granted';
        static async requestPermission() { return 'granted'; }
        constructor(title, { body, tag }) {
            document.body.dataset.shown = [document.body.dataset.shown, title, body, tag].join('|');
        }
        close() {}
    };
"""


async def test_the_first_visit_reaches_a_tested_change_by_keyboard_only(
    browser: Browser, tmp_path: Path
) -> None:
    with Home(tmp_path, is_new=True).up() as up:
        page = await browser.new_page()
        page.set_default_timeout(DEADLINE_S * 1000)
        await page.goto(up.printed["link"])
        await page.keyboard.press("Enter")  # log in
        await expect(page.get_by_role("button", name="Not now")).to_be_visible()
        await page.get_by_role("button", name="Not now").press("Enter")
        await expect(page.get_by_role("heading", name="Welcome")).to_be_visible()
        await expect(page.get_by_role("button", name="Start")).to_be_focused()
        await page.keyboard.press("Enter")
        await expect(page.get_by_role("button", name="2 passed · fixed 1")).to_be_visible()
        await expect(page.locator("[data-item^='run:']").get_by_text("done")).to_be_visible()
        await page.goto(f"{up.url}/start?first")  # a link that logs in, but not a first visit any more
        await expect(page).to_have_url(f"{up.url}/")
        await page.close()


async def test_sessions_of_the_command_line_do_not_hide_the_guided_start(
    page: Page, up: Up, api: httpx.AsyncClient
) -> None:
    session = await new_session(api, purpose="Of the command line")
    ended = await api.post(f"/sessions/{session}/inputs", json={"type": "end"})
    assert ended.status_code < 300, ended.text
    await page.goto(up.url)
    await expect(page.get_by_role("link", name="Of the command line")).to_be_visible()  # not folded away
    await page.get_by_role("link", name="Guided start").click()
    await expect(page.get_by_role("heading", name="Welcome")).to_be_visible()
    await expect(page.get_by_role("button", name="Start")).to_be_focused()
    await page.goto(f"{up.url}/settings/you")
    await page.get_by_role("button", name="Find or do something").click()
    await page.keyboard.type("guided")
    await page.keyboard.press("Enter")
    await expect(page).to_have_url(f"{up.url}/start")


async def test_a_session_that_asks_comes_first_in_another_browser_too(
    page: Page, up: Up, api: httpx.AsyncClient, tmp_path: Path
) -> None:
    """No poll is involved: the list is asked again only when the stream reports a change."""
    session = await new_session(api, purpose="Choose a database", model=cassette(tmp_path, [ASKS]))
    await page.clock.install()  # timers of the page stand still unless the test moves them
    await page.goto(up.url)
    idle = page.locator("details", has=page.get_by_role("heading", name="Idle"))
    await expect(idle.get_by_text("Choose a database")).to_be_visible()
    await page.clock.run_for(1000)
    await api.post(f"/sessions/{session}/inputs", json={"type": "prompt", "text": "Choose."})
    needs = page.locator("details", has=page.get_by_role("heading", name="Needs you"))
    asks = needs.get_by_role("listitem").filter(has_text="Choose a database")
    deadline = time.monotonic() + DEADLINE_S
    while not await asks.get_by_text("question: Which database?").count() and time.monotonic() < deadline:
        await page.clock.run_for(60)
    await expect(asks.get_by_text("question: Which database?")).to_be_visible()
    await expect(page).to_have_title(re.compile(r"^\(\d+\) Sessions · Hutch$"))

    await page.get_by_label("State").select_option("Idle")
    await expect(page.get_by_text("Choose a database")).to_have_count(0)
    await expect(page).to_have_url(f"{up.url}/?state=idle")


async def test_ctrl_period_goes_to_the_card_from_home_and_the_palette_answers_too(
    page: Page, up: Up, api: httpx.AsyncClient, tmp_path: Path
) -> None:
    await page.goto(f"{up.url}/changes")
    await expect(page.get_by_role("heading", name="Changes")).to_be_visible()
    run = {"calls": [{"tool": "bash", "args": {"command": "echo here"}}]}
    done = {"calls": [{"tool": "finish", "args": {"title": "Done", "summary": "All is there."}}]}
    # The session that has waited longest comes first; those of other tests may wait too.
    older = (await api.get("/sessions?state=waiting")).json()["items"]
    for each in older:
        await api.post(f"/sessions/{each['id']}/inputs", json={"type": "end", "reason": ""})
    model = cassette(tmp_path, [run, done])
    session = await new_session(api, prompt="Run it.", model=model, persona="pair")
    await page.goto(up.url)
    await expect(page.get_by_text("approval: echo here")).to_be_visible()
    await page.keyboard.press("Control+.")
    await expect(page).to_have_url(f"{up.url}/s/{session}")
    await expect(page.get_by_role("button", name="Allow once")).to_be_focused()
    await page.keyboard.press("Control+k")
    await page.keyboard.type("> deny")
    await page.keyboard.press("Enter")
    await expect(page.get_by_text("denied by")).to_be_visible()


async def test_a_run_without_a_model_leads_to_its_settings_and_a_wrong_path_is_refused_at_once(
    logged_in: BrowserContext, up: Up, api: httpx.AsyncClient
) -> None:
    page = await logged_in.new_page()
    session = await new_session(api, purpose="Without a model", prompt="Do.")
    await page.goto(up.url)
    row = page.get_by_role("listitem").filter(has_text="Without a model")
    await expect(row.get_by_text("last run failed: No model is connected")).to_be_visible()
    await row.get_by_role("link").click()
    await expect(page.get_by_role("button", name="Run again")).to_be_visible()
    await page.get_by_role("link", name="Settings › Models and keys").click()
    await expect(page).to_have_url(f"{up.url}/settings/models")
    assert (await api.get(f"/sessions/{session}")).json()["last_run"]["outcome"] == "failed"

    await page.goto(f"{up.url}/new")
    await page.get_by_role("combobox", name="Repository").last.fill("/no/such/place")
    await page.get_by_role("button", name="Next").click()
    await expect(page.get_by_text("There is no directory /no/such/place")).to_be_visible()
    await page.get_by_role("radio", name="An empty workspace").check()
    await page.get_by_role("button", name="Next").click()
    await expect(page.get_by_text("No model is connected yet")).to_be_visible()
    await page.get_by_label("Persona").select_option("pair")
    await expect(page.get_by_text("Works with a person, step by step").last).to_be_visible()
    await page.keyboard.press("Control+Enter")  # as the button says, wherever the focus is
    await expect(page).to_have_url(re.compile("/s/ses_"))
    await expect(page.get_by_text("Nothing has happened yet.")).to_be_visible()

    # A server that is away is the strip's to tell: what is known of the session stays, without an error.
    failures = 0

    async def fail(route: Route) -> None:
        nonlocal failures
        failures += 1
        await route.abort()

    await page.route(f"**/api/v1/sessions/{page.url.rpartition('/')[2]}", fail)
    while failures < 3:  # one request and two retries
        await page.evaluate("window.dispatchEvent(new Event('visibilitychange'))")
        await page.wait_for_timeout(200)
    await expect(page.get_by_role("heading", level=1)).to_be_visible()
    await expect(page.get_by_role("alert")).to_have_count(0)
    await page.close()


async def test_a_notification_names_the_session_and_what_it_asks(
    page: Page, up: Up, api: httpx.AsyncClient, tmp_path: Path
) -> None:
    await page.add_init_script(FAKE)
    await page.goto(up.url)
    await page.get_by_role("button", name="Tell me when one needs me").click()
    await expect(page.get_by_role("button", name="Notifications are on")).to_be_visible()
    session = await new_session(api, purpose="Ask me", prompt="Ask.", model=cassette(tmp_path, [ASKS]))
    shown = f"Ask me needs you|question: Which database?|{session}"
    # Sessions of other tests may wait too.
    await expect(page.locator("body")).to_have_attribute("data-shown", re.compile(re.escape(f"|{shown}")))


async def test_every_page_says_that_the_server_is_away_and_that_it_was_updated(
    logged_in: BrowserContext, up: Up
) -> None:
    page = await logged_in.new_page()  # a refused connection is an error of the console
    sockets: list[WebSocketRoute] = []
    is_away = False

    async def route(socket: WebSocketRoute) -> None:
        # The page tries again by itself too, and would take the button away before it is clicked.
        if is_away and not await page.evaluate("window.isClicked ?? false"):
            await socket.close()
            return
        socket.connect_to_server()
        sockets.append(socket)

    await page.route_web_socket("**/api/graphql", route)
    for path in ("/", "/changes", "/settings/you"):
        is_away = False
        await page.goto(up.url + path)
        await expect(page.get_by_role("main")).to_be_visible()
        while not sockets:
            await page.wait_for_timeout(20)
        is_away = True
        await sockets.pop().close()
        strip = page.get_by_role("status", name="Connection to the server")
        await expect(strip).to_contain_text("Reconnecting, last heard")
        await page.evaluate(
            "addEventListener('click', () => { window.isClicked = true; }, { capture: true })"
        )
        await strip.get_by_role("button", name="Try now").click()
        await expect(strip).to_have_text("")
    # The same build again is no update; another one is.
    html = await (await page.request.get(f"{up.url}/", headers={"Accept": "text/html"})).text()
    other = re.sub(r"/assets/index-[^.\"]+\.js", "/assets/index-other.js", html)
    assert other != html
    await page.route(f"{up.url}/", lambda route: route.fulfill(body=other, content_type="text/html"))
    await sockets.pop().close()
    await expect(strip).to_contain_text("Hutch was updated. Reload, nothing is lost.")
    async with page.expect_navigation():
        await strip.get_by_role("button", name="Reload").click()
    await page.close()
