"""Every page by axe, in both themes, and on a phone."""

import asyncio
import time
from pathlib import Path
from typing import Any

import httpx
import pytest
from playwright.async_api import Browser, BrowserContext, Page, Route, expect

from tests.cli.hutch_up_process import TIMEOUT_S, Up
from tests.web.conftest import WIDE
from tests.web.test_change_page import repository
from tests.web.test_editing_together import logged_in_as
from tests.web.web_sessions import cassette, new_session, until_idle

pytestmark = pytest.mark.anyio

AXE = Path(__file__).parents[2] / "web/node_modules/axe-core/axe.min.js"
ASKS = {"text": "Look.", "calls": [{"tool": "bash", "args": {"command": "git push origin main"}}]}
TAGS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
RULES = {"type": "tag", "values": TAGS}
DIALOG = "[role=dialog]"
BACKGROUND = "getComputedStyle(document.body).backgroundColor"
COLOURS = {"type": "rule", "values": ["color-contrast", "link-in-text-block"]}  # a theme changes nothing else

OVERLAPPING = """() => {
    const boxes = [...document.querySelectorAll('main button, main [role=treeitem]')]
        .filter((each) => each.checkVisibility() && !each.closest('[role=log]'))
        .map((each) => [each, each.getBoundingClientRect()]);
    return boxes.flatMap(([one, a]) => boxes
        .filter(([other, b]) => one !== other && !one.contains(other) && !other.contains(one) &&
            Math.min(a.right, b.right) - Math.max(a.left, b.left) > 1 &&
            Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 1)
        .map(([other]) => `${one.ariaLabel ?? one.innerText} | ${other.ariaLabel ?? other.innerText}`));
}"""
SCROLLED_SIDEWAYS = """() => [...document.querySelectorAll('main *')]
    .filter((each) => /auto|scroll/.test(getComputedStyle(each).overflowX))
    .filter((each) => each.scrollWidth > each.clientWidth + 1)
    .filter((each) => !each.matches('pre, table, nav, [tabindex="0"], .cm-scroller, .xterm-viewport'))
    .map((each) => each.className || each.tagName)"""

REFLOW_S = 20.0  # a page that is laid out by script does so when the browser finds the time

PAGES = [
    ("/", "Push it"),
    ("/new", "Sample with one failing test"),
    ("/s/{waiting}", "Needs you, 1 of 1"),
    ("/s/{waiting}?panel=log", "approval.requested"),
    ("/s/{waiting}?panel=tests&file=slugs.py", "No tests were run"),
    ("/settings/you", "Theme"),
    ("/settings/approvals", "Approvals"),
    ("/settings/models", "Provider"),
    ("/settings/personas", "engineer"),
    ("/settings/rules", "Try a call"),
    ("/settings/users", "Invitations"),
    ("/settings/secrets", "Secrets of the installation"),
    ("/settings/tokens", "New token"),
    ("/settings/environments", "Environments"),
    ("/settings/health", "Version"),
    ("/s/{waiting}/play", "Link to this moment"),
    ("/record", "Choose a record file"),
    ("/changes", "Drop accents"),
    ("/c/{change}", "Request changes"),
    ("/s/{repaired}?panel=changes&file=slugs.py", "import unicodedata"),
    ("/s/{repaired}?panel=tests", "test_accents_are_dropped"),
    ("/s/{repaired}?panel=terminal", "No terminal is open"),
    ("/s/{repaired}?panel=preview", "No program listens"),
    ("/settings/server", "Set by"),
    ("/settings/audit", "token.created"),
    ("/design", "Design system"),
]  # a path, and a text that is there when the page is ready


@pytest.fixture(scope="module")
async def waiting(api: httpx.AsyncClient, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A session that waits for an approval."""
    model = cassette(tmp_path_factory.mktemp("model"), [ASKS])
    return await new_session(api, prompt="Push.", purpose="Push it", model=model, persona="pair")


@pytest.fixture(scope="module")
async def change(api: httpx.AsyncClient, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """A session that has repaired the sample, and its change."""
    place = repository(tmp_path_factory.mktemp("code") / "shop")
    body = {"repository": str(place), "prompt": "Make the failing test pass.", "model": "scripted:demo"}
    made = await api.post("/sessions", json={**body, "deliver": True})
    session = made.json()["id"]
    async with api.stream("GET", f"/sessions/{session}/events/stream") as events:
        async for line in events.aiter_lines():
            if line in ("event: change.proposed", "event: delivery.ended"):
                break
    found = (await api.get(f"/changes?session={session}")).json()["items"]
    return {"repaired": session, "change": found[0]["id"]}


async def violations(page: Page, only: dict[str, Any] = RULES, within: str = "html") -> list[Any]:
    """The rules of WCAG 2.2 AA that a part of the page breaks. Scripts of the test itself pass the page's
    policy."""
    if not await page.evaluate("'axe' in window"):
        await page.evaluate(AXE.read_text())
    # Only the violations are shown; of other results, one element for each rule is enough.
    options = {"runOnly": only, "resultTypes": ["violations"], "preload": False}
    found = await page.evaluate(
        "([within, options]) => axe.run(within, options).then(found => found.violations)", [within, options]
    )
    return [(each["id"], [node["html"][:200] for node in each["nodes"][:3]]) for each in found]


async def assert_no_violations(page: Page, within: str = "html") -> None:
    """In both themes: every rule in one, the colours in the other. While colours fade, they say nothing."""
    await page.emulate_media(color_scheme="light", reduced_motion="reduce")
    assert await violations(page, RULES, within) == []
    light = await page.evaluate(BACKGROUND)
    await page.emulate_media(color_scheme="dark")
    assert await page.evaluate(BACKGROUND) != light
    assert await violations(page, COLOURS, within) == []


async def test_login_page(browser: Browser, up: Up) -> None:
    context = await browser.new_context(color_scheme="light")
    context.set_default_timeout(TIMEOUT_S * 1000)
    page = await context.new_page()
    await page.goto(f"{up.url}/")
    await expect(page.get_by_label("Password")).to_be_visible()
    await assert_no_violations(page)
    await context.close()


async def too_wide(page: Page) -> list[tuple[int, object]]:
    """Parts that overflow. Editors, terminals, diffs and tables may scroll sideways, in their own place."""

    async def wider(width: int) -> list[object]:
        needed = await page.evaluate("document.documentElement.scrollWidth")
        return [*([needed] if needed > width else []), *await page.evaluate(SCROLLED_SIDEWAYS)]

    wide: list[tuple[int, object]] = []
    for width in (320, 640):  # 640: a window of 1280 px, zoomed to 200 %
        await page.set_viewport_size({"width": width, "height": 640})
        until = time.monotonic() + REFLOW_S
        while (found := await wider(width)) and time.monotonic() < until:
            await page.wait_for_timeout(50)
        wide += [(width, each) for each in found]
    return wide


@pytest.mark.parametrize(("path", "shows"), PAGES)
async def test_a_page_has_no_violations_and_reflows_at_320_px_and_at_200_percent(
    only_page: Page, up: Up, waiting: str, change: dict[str, str], path: str, shows: str
) -> None:
    await only_page.set_viewport_size(WIDE)
    await only_page.goto(up.url + path.format(waiting=waiting, **change))
    await expect(only_page.get_by_text(shows).first).to_be_visible()
    await assert_no_violations(only_page)
    assert await too_wide(only_page) == []


async def test_the_first_visit(browser: Browser, up: Up) -> None:
    async with logged_in_as("newcomer", up, browser) as page:
        await page.emulate_media(color_scheme="light", reduced_motion="reduce")
        await page.goto(f"{up.url}/start")
        await expect(page.get_by_text("Welcome, newcomer")).to_be_visible()
        await assert_no_violations(page)


@pytest.mark.long
async def test_dialogs_and_menus(page: Page, up: Up, change: dict[str, str]) -> None:
    await page.emulate_media(color_scheme="light", reduced_motion="reduce")
    await page.goto(f"{up.url}/s/{change['repaired']}?file=slugs.py")
    await expect(page.locator(".cm-content")).to_be_visible()
    dialog = page.get_by_role("dialog")

    async def examine() -> None:
        await expect(dialog).to_be_visible()
        await assert_no_violations(page, DIALOG)  # the page below is examined by test_pages
        await page.emulate_media(color_scheme="light")
        await page.keyboard.press("Escape")
        await expect(dialog).to_have_count(0)

    menu = page.get_by_role("banner").or_(page.locator("header")).get_by_role("button", name="More actions")
    for entry in ("Share…", "Persona and model…", "Undo the last run", "End session"):
        await menu.first.click()
        await page.get_by_role("menuitem", name=entry).click()
        await examine()
    for keys in ("Control+k", "Control+p"):
        await page.keyboard.press(keys)
        await examine()
    for entry in ("Rename or move", "Delete"):
        await page.locator("[data-path='slugs.py']").hover()
        await page.get_by_role("button", name="Actions for slugs.py", exact=True).click()
        await page.get_by_role("menuitem", name=entry).click()
        await examine()
    await page.goto(up.url)
    await expect(page.get_by_role("searchbox")).to_be_visible()
    await page.keyboard.press("?")
    await examine()
    await page.goto(f"{up.url}/new")
    await page.get_by_label("Sample with one failing test").check()
    await page.get_by_role("button", name="Next").click()
    await page.get_by_text("Network and limits").click()
    await examine()
    await page.goto(f"{up.url}/settings/personas")
    await page.get_by_role("button", name="New persona").click()
    await expect(page.get_by_label("Name")).to_be_visible()
    await assert_no_violations(page)


async def test_questions_terminals_and_records(
    page: Page, up: Up, api: httpx.AsyncClient, change: dict[str, str], tmp_path: Path
) -> None:
    await page.emulate_media(color_scheme="light", reduced_motion="reduce")
    question = {"calls": [{"tool": "ask_user", "args": {"question": "Which one?", "choices": ["a", "b"]}}]}
    asking = await new_session(api, prompt="Ask.", model=cassette(tmp_path, [question]))
    await page.goto(f"{up.url}/s/{asking}?panel=terminal")
    await expect(page.get_by_label("Your answer")).to_be_visible()
    await page.get_by_role("button", name="Open a terminal").last.click()
    await expect(page.locator(".xterm-rows")).to_contain_text("$")
    await assert_no_violations(page)

    await page.emulate_media(color_scheme="light")
    record = tmp_path / "record.zip"
    record.write_bytes((await api.get(f"/sessions/{change['repaired']}/record")).content)
    await page.goto(f"{up.url}/record")
    await page.get_by_label("Choose a record file").set_input_files(record)
    await expect(page.get_by_text("The record is good.")).to_be_visible()
    await assert_no_violations(page)


async def test_dialogs_of_a_review_and_of_a_proposal(
    page: Page, up: Up, api: httpx.AsyncClient, change: dict[str, str], tmp_path: Path
) -> None:
    await page.goto(f"{up.url}/c/{change['change']}")
    dialog = page.get_by_role("dialog")

    async def examine() -> None:
        await page.emulate_media(color_scheme="light", reduced_motion="reduce")
        await expect(dialog).to_be_visible()
        await assert_no_violations(page, DIALOG)
        await page.keyboard.press("Escape")
        await expect(dialog).to_have_count(0)

    for name in ("Approve", "Request changes", "Merge", "Close"):
        await page.get_by_role("button", name=name, exact=True).click()
        await examine()
    body = {"repository": str(repository(tmp_path / "shop")), "prompt": "Make the failing test pass."}
    made = await api.post("/sessions", json={**body, "model": "scripted:demo"})
    await until_idle(api, made.json()["id"])
    await page.goto(f"{up.url}/s/{made.json()['id']}")
    await expect(page.locator("[data-item^='run:']").get_by_text("done")).to_be_visible()
    await page.get_by_role("button", name="More actions").first.click()
    await page.get_by_role("menuitem", name="Propose the change").click()
    await examine()


async def test_a_page_that_does_not_exist(logged_in: BrowserContext, up: Up) -> None:
    page = await logged_in.new_page()
    await page.goto(f"{up.url}/nothing")
    await expect(page.get_by_text("There is nothing here")).to_be_visible()
    assert await violations(page) == []
    await page.close()


async def test_a_session_whose_name_is_not_known_yet_has_a_heading(page: Page, up: Up, waiting: str) -> None:
    asked = asyncio.Event()

    async def hold(route: Route) -> None:
        await asked.wait()
        await route.continue_()

    await page.route(f"**/api/v1/sessions/{waiting}", hold)
    await page.goto(f"{up.url}/s/{waiting}")
    heading = page.get_by_role("heading", level=1)
    await expect(heading).to_have_text("Session")
    asked.set()
    await expect(heading).to_have_text("Push it")


async def test_a_phone_shows_the_card_and_nothing_overflows(
    logged_in: BrowserContext, up: Up, waiting: str
) -> None:
    page = await logged_in.new_page()
    await page.set_viewport_size({"width": 390, "height": 780})
    await page.goto(f"{up.url}/s/{waiting}")
    for name in ("Allow once", "Deny"):
        await expect(page.get_by_role("button", name=name)).to_be_in_viewport()
    await page.wait_for_function("() => document.documentElement.scrollWidth <= 390")
    await page.goto(f"{up.url}/s/{waiting}?view=work")
    for tab in ("Files", "Editor", "Changes", "Tests", "Terminal", "Preview", "Log"):  # none is cut off
        await expect(page.get_by_role("tab", name=tab)).to_be_in_viewport(ratio=1)
    await page.set_viewport_size({"width": 1600, "height": 900})  # a side column for changes and tests
    await page.goto(f"{up.url}/s/{waiting}?panel=log")
    for name in ("Changes", "Log"):
        await expect(page.get_by_role("region", name=name, exact=True)).to_be_visible()
    await page.close()


async def test_under_a_finger_no_target_covers_another(
    browser: Browser, logged_in: BrowserContext, up: Up, api: httpx.AsyncClient
) -> None:
    session = await new_session(api, files={"a.txt": "a\n", "b.txt": "b\n", "c.txt": "c\n"})
    state = await logged_in.storage_state()
    touch = await browser.new_context(
        viewport={"width": 390, "height": 780}, storage_state=state, has_touch=True, is_mobile=True
    )
    page = await touch.new_page()
    page.set_default_timeout(TIMEOUT_S * 1000)
    await page.goto(f"{up.url}/s/{session}?view=work&panel=terminal")
    await page.get_by_role("button", name="Open a terminal").last.click()
    await expect(page.locator(".xterm-rows")).to_contain_text("$")
    assert await page.evaluate(OVERLAPPING) == []
    await page.get_by_role("tab", name="Files").click()
    await expect(page.get_by_role("treeitem", name="c.txt")).to_be_visible()
    assert await page.evaluate(OVERLAPPING) == []
    await touch.close()
