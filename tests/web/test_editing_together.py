"""Several people and programs change one file in the editor, also while the server is away."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest
from playwright.async_api import Browser, BrowserContext, Locator, Page, expect

from tests.cli.hutch_up_process import TIMEOUT_S, Home, Up
from tests.web.conftest import WIDE
from tests.web.web_sessions import new_session, write

pytestmark = pytest.mark.anyio
PATH = "notes.txt"
TEXT = "one\ntwo\nthree\n"


async def log_in(up: Up, browser: Browser, link: str) -> BrowserContext:
    context = await browser.new_context(viewport=WIDE, locale="en-GB")
    context.set_default_timeout(TIMEOUT_S * 1000)
    answer = await context.request.post(f"{up.url}/api/v1/login/link", data={"link": link.partition("#")[2]})
    assert answer.status == 200, await answer.text()
    return context


@asynccontextmanager
async def logged_in_as(name: str, up: Up, browser: Browser) -> AsyncIterator[Page]:
    """The browser of another person, who is added."""
    added = up.home.hutch("users", "add", name)
    assert added.returncode == 0, added.stderr
    made = up.home.hutch("users", "link", name, "--json")
    assert made.returncode == 0, made.stderr
    context = await log_in(up, browser, json.loads(made.stdout)["url"])
    yield await context.new_page()
    await context.close()


async def open_notes(page: Page, up: Up, session: str, path: str = PATH) -> Locator:
    await page.goto(f"{up.url}/s/{session}?file={path}")
    editor = page.locator(".cm-content")
    await expect(editor).to_be_visible()
    return editor


async def type_at_end(page: Page, text: str) -> None:
    await page.locator(".cm-content").focus()
    await page.keyboard.press("Control+End")
    await page.keyboard.insert_text(text)  # one step for undo


async def saved(page: Page, path: str = PATH) -> None:
    await page.keyboard.press("Control+s")
    await expect(page.locator(f"[data-tab='{path}']").get_by_text("✓")).to_be_visible()


async def content(api: httpx.AsyncClient, session: str) -> str:
    return (await api.get(f"/sessions/{session}/files/{PATH}")).text


async def share(api: httpx.AsyncClient, session: str, name: str, role: str) -> None:
    answer = await api.put(f"/sessions/{session}/shares/{name}", json={"role": role})
    assert answer.status_code < 300, answer.text


async def test_two_people_type_in_one_file_and_undo_takes_only_own_text(
    page: Page, up: Up, browser: Browser, api: httpx.AsyncClient
) -> None:
    session = await new_session(api, files={PATH: TEXT})
    async with logged_in_as("bo", up, browser) as other:
        await share(api, session, "bo", "member")
        mine, theirs = await open_notes(page, up, session), await open_notes(other, up, session)
        await type_at_end(page, "from ada")
        await expect(theirs).to_contain_text("from ada")
        await other.locator(".cm-content").focus()
        await other.keyboard.press("Control+Home")
        await other.keyboard.type("from bo ")
        await expect(mine).to_contain_text("from bo one")
        await expect(page.locator(".other-flag[data-name=bo]")).to_have_count(1)

        await page.keyboard.press("Control+z")
        await expect(mine).not_to_contain_text("from ada")
        await page.keyboard.press("Control+z")
        await expect(theirs).not_to_contain_text("from ada")
        await saved(page)
        assert await content(api, session) == f"from bo {TEXT}"
        await page.keyboard.press("Control+y")
        await expect(theirs).to_contain_text("from ada")
        await other.close()
        await expect(page.locator(".other-caret")).to_have_count(0)


async def test_a_program_changes_the_file_while_a_person_types(
    page: Page, up: Up, api: httpx.AsyncClient
) -> None:
    session = await new_session(api, files={PATH: TEXT})
    editor = await open_notes(page, up, session)
    await type_at_end(page, "typed")
    answer = await api.post(f"/sessions/{session}/commands", json={"command": f"sed -i s/two/2/ {PATH}"})
    assert answer.status_code < 300, answer.text
    await expect(editor).to_contain_text("one2three")
    await page.keyboard.type(" on")
    await saved(page)
    assert await content(api, session) == "one\n2\nthree\ntyped on"


async def test_an_observer_reads_a_file_and_sees_it_change(
    up: Up, browser: Browser, api: httpx.AsyncClient
) -> None:
    session = await new_session(api, files={PATH: TEXT})
    async with logged_in_as("cy", up, browser) as page:
        await share(api, session, "cy", "observer")
        editor = await open_notes(page, up, session)
        await expect(page.get_by_text("read only: The server does not let you edit")).to_be_visible()
        await expect(editor).to_contain_text("three")
        await type_at_end(page, "typed")
        await api.put(f"/sessions/{session}/files/{PATH}", content=b"new\n")
        await expect(editor).to_contain_text("new")
        await expect(editor).not_to_contain_text("typed")


async def test_a_file_that_cannot_be_shared_is_shown_read_only_with_the_reason(
    page: Page, up: Up, api: httpx.AsyncClient
) -> None:
    session = await new_session(api, files={"mixed.txt": "a\r\nb\n"})
    editor = await open_notes(page, up, session, "mixed.txt")
    await expect(page.get_by_text("has line ends of several kinds")).to_be_visible()
    await editor.focus()
    await page.keyboard.type("x")
    await expect(editor).not_to_contain_text("x")


async def test_a_line_of_5_mb_is_shown_without_highlighting(
    page: Page, up: Up, api: httpx.AsyncClient
) -> None:
    session = await new_session(api, files={PATH: TEXT})
    await write(api, session, "bundle.js", "var text = '" + "x" * 5_000_000 + "';")
    editor = await open_notes(page, up, session, "bundle.js")
    await expect(page.get_by_text("Highlighting is off")).to_be_visible()
    await expect(editor).to_contain_text("var text = 'xxx")
    await page.get_by_label("Message to the agent").fill("Still answers.")  # the page is not frozen


async def crash(page: Page) -> None:
    """End the process of a page, without a chance to store anything."""
    cdp = await page.context.new_cdp_session(page)
    async with page.expect_event("crash"):
        dying = asyncio.ensure_future(cdp.send("Page.crash"))  # it gets no answer
    dying.cancel()
    await page.close()


async def test_nothing_typed_is_lost_or_doubled_while_the_server_is_killed(
    tmp_path: Path, browser: Browser
) -> None:
    home = Home(tmp_path, is_new=True)
    with home.up() as up:
        context = await log_in(up, browser, up.printed["link"])

        async def identify(request: httpx.Request) -> None:  # each start makes a new token
            request.headers.update(up.owner())

        async with httpx.AsyncClient(
            base_url=f"{up.url}/api/v1",
            event_hooks={"request": [identify]},
            timeout=TIMEOUT_S,
            trust_env=False,
        ) as api:
            session = await new_session(api, files={PATH: TEXT})
            page = await context.new_page()
            editor = await open_notes(page, up, session)
            await type_at_end(page, "before ")
            up.process.kill()
            up.process.wait(timeout=TIMEOUT_S)
            await page.keyboard.type("while ")
            await expect(page.locator(f"[data-tab='{PATH}']").get_by_text("⚠")).to_be_visible()
            await expect(page.get_by_text("1 file waits here")).to_be_visible()
            await expect(page.locator("header").get_by_text("was idle")).to_be_visible()  # nobody knows more
            with home.up("--port", str(urlsplit(up.url).port)):
                await expect(page.locator(f"[data-tab='{PATH}']").get_by_text("✓")).to_be_visible()
                await page.keyboard.type("after ")
                await saved(page)
                assert await content(api, session) == f"{TEXT}before while after "
            await expect(page.get_by_text("Reconnecting")).to_be_visible()
            await page.keyboard.type("kept")
            await crash(page)  # at once after the last key

            with home.up("--port", str(urlsplit(up.url).port)):
                page = await context.new_page()
                editor = await open_notes(page, up, session)
                await expect(editor).to_contain_text("before while after kept")
                await expect(page.locator(f"[data-tab='{PATH}']").get_by_text("✓")).to_be_visible()
                assert await content(api, session) == f"{TEXT}before while after kept"
            with home.up("--port", str(urlsplit(up.url).port)):  # the same page, with a closed jail
                closed = page.get_by_role("region", name="Editor").get_by_text("The jail is closed")
                await expect(closed).to_be_visible()
                await page.get_by_role("tab", name="Terminal").click()
                await page.get_by_role("button", name="Open a terminal").last.click()
                await expect(page.locator(".xterm-rows")).to_contain_text("$")
                await expect(closed).to_have_count(0)
    await context.close()
