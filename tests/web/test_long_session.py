"""A session with a long log: its end comes first, and older entries when a reader scrolls to them."""

import asyncio
import json
import re
from collections.abc import AsyncIterator, Iterator
from itertools import islice

import httpx
import pytest
from bench.long_session import LAST_LINE, events_of_runs, lengthen
from playwright.async_api import Browser, BrowserContext, Page, expect

from hutch.domain.events import ModelReplied
from tests.cli.hutch_up_process import TIMEOUT_S, Home, Up
from tests.web.conftest import WIDE
from tests.web.web_sessions import new_session

EVENTS = 20_000
STORED = """() => new Promise((done) => {
    const opening = indexedDB.open('hutch-views');
    opening.onsuccess = () => {
        const all = opening.result.transaction('views').objectStore('views').getAll();
        all.onsuccess = () => { opening.result.close(); done(all.result.map((view) => view.seq)); };
    };
})"""
pytestmark = [pytest.mark.anyio, pytest.mark.long]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Home:
    return Home(tmp_path_factory.mktemp("long"), is_new=True)


@pytest.fixture(scope="module")
def session(home: Home) -> str:
    async def create(up: Up) -> str:
        headers = {"Authorization": f"Bearer {home.token}"}
        url = f"{up.url}/api/v1"
        async with httpx.AsyncClient(
            base_url=url, headers=headers, timeout=TIMEOUT_S, trust_env=False
        ) as api:
            return await new_session(api, purpose="Long")

    with home.up() as first:
        made = asyncio.run(create(first))
    asyncio.run(lengthen(home.place / "home", made, EVENTS))
    return made


@pytest.fixture(scope="module")
def up(home: Home, session: str) -> Iterator[Up]:
    with home.up() as server:
        yield server


@pytest.fixture(scope="module")
async def logged_in(up: Up, browser: Browser) -> AsyncIterator[BrowserContext]:
    made = up.home.hutch("users", "link", "--json")
    assert made.returncode == 0, made.stderr
    secret = json.loads(made.stdout)["url"].partition("#")[2]
    context = await browser.new_context(viewport=WIDE, locale="en-GB")
    context.set_default_timeout(TIMEOUT_S * 1000)
    answer = await context.request.post(f"{up.url}/api/v1/login/link", data={"link": secret})
    assert answer.status == 200, await answer.text()
    yield context
    await context.close()


async def open_end(page: Page, up: Up, session: str) -> list[str]:
    """Open the session until the whole log was read. Returns the requests for its events."""
    asked: list[str] = []
    page.on("request", lambda sent: "/events?" in sent.url and asked.append(sent.url.partition("?")[2]))
    await page.goto(f"{up.url}/s/{session}")
    await expect(page.get_by_role("log").get_by_text(LAST_LINE)).to_be_in_viewport()
    await expect(page.locator("header").get_by_text("$")).to_be_visible()
    return asked


def head_of(asked: list[str]) -> int:
    """The last event; on a slow machine the server adds one of its own when it starts."""
    head = int(asked[0].partition("before=")[2].partition("&")[0]) - 1
    assert EVENTS <= head < EVENTS + 5, asked
    return head


async def test_the_end_is_shown_first_and_older_rows_when_they_are_scrolled_to(
    page: Page, up: Up, session: str
) -> None:
    asked = await open_end(page, up, session)
    head_of(asked)
    log = page.get_by_role("log")
    written = islice(events_of_runs(), EVENTS - 10)  # the session has some of its own
    cost = sum(event.cost_usd or 0 for event in written if isinstance(event, ModelReplied))
    await expect(page.locator("header").get_by_text(f"${int(cost)}.")).to_be_visible()  # of the whole log
    asked.clear()
    await log.evaluate("(element) => { element.scrollTop = 0; }")
    while not asked:
        await page.wait_for_timeout(100)
    first = int(asked[0].partition("before=")[2].partition("&")[0])
    shown = (
        "(log) => Math.min(...[...log.querySelectorAll('[data-seq]')].map((row) => Number(row.dataset.seq)))"
    )
    await log.hover()
    while await log.evaluate(shown) >= first - 500:
        await page.mouse.wheel(0, -3000)
        await page.wait_for_timeout(50)
    await page.get_by_role("button", name=re.compile("To the end|New below")).click()
    await expect(log.get_by_text(LAST_LINE)).to_be_in_viewport()


async def test_a_session_opens_again_from_the_stored_view_unless_events_were_erased(
    page: Page, up: Up, session: str
) -> None:
    head = head_of(await open_end(page, up, session))
    while await page.evaluate(STORED) != [head]:
        await page.wait_for_timeout(100)
    again = await open_end(page, up, session)
    assert again == [f"before={head + 1}&limit=500"]
    erased = up.home.hutch("erase", session, "--seq", "15000-15010", "--reason", "test", "--yes")
    assert erased.returncode == 0, erased.stderr
    fresh = await open_end(page, up, session)
    assert "after=0&limit=1000" in fresh
