"""The debugger in two browsers: breakpoints beside the text, and one state for everyone in the session."""

import httpx
import pytest
from playwright.async_api import Browser, Locator, Page, expect

from tests.cli.hutch_up_process import Up
from tests.web.test_accessibility import assert_no_violations
from tests.web.test_editing_together import logged_in_as, share
from tests.web.web_sessions import new_session, until_prepared

pytestmark = pytest.mark.anyio
LINE = 'plain = unicodedata.normalize("NFKD", plain)'


def button(page: Page, name: str) -> Locator:
    return page.get_by_role("button", name=name, exact=True)


async def click_beside(page: Page, line: int) -> None:
    row = page.locator(".cm-lineNumbers .cm-gutterElement").get_by_text(str(line), exact=True)
    at = await row.bounding_box()
    left = await page.locator(".cm-breakpoints").bounding_box()
    assert at is not None
    assert left is not None
    await page.mouse.click(left["x"] + left["width"] / 2, at["y"] + at["height"] / 2)


async def test_a_breakpoint_beside_the_text_stops_the_program_for_everyone(
    page: Page, up: Up, browser: Browser, api: httpx.AsyncClient
) -> None:
    session = await new_session(api)
    await until_prepared(api, session)
    async with logged_in_as("dora", up, browser) as other:
        await share(api, session, "dora", "member")
        await other.goto(f"{up.url}/s/{session}?file=slugs.py&panel=debugger")
        await page.goto(f"{up.url}/s/{session}?file=slugs.py&panel=debugger")
        await expect(page.locator(".cm-line", has_text=LINE)).to_be_visible()

        await click_beside(page, 10)
        for each in (page, other):
            await expect(each.locator(".breakpoint-set")).to_be_visible()
            await expect(button(each, "slugs.py:10")).to_be_visible()

        await page.goto(f"{up.url}/s/{session}?file=test_slugs.py&panel=debugger")
        await button(page, "Debug the tests of test_slugs.py").click()
        for each in (page, other):
            await expect(each.get_by_text("Stopped at slugs.py:10")).to_be_visible()
            await expect(each.locator(".debugger-line", has_text=LINE)).to_be_visible()
            await expect(each.get_by_role("region", name="Variables").get_by_text("title")).to_be_visible()
        await assert_no_violations(page)

        await expect(other.get_by_text("drives", exact=False)).to_be_visible()
        await expect(button(other, "Continue")).to_have_count(0)
        await button(other, "Take over").click()
        await expect(button(page, "Continue")).to_have_count(0)
        await other.get_by_role("textbox", name="Evaluate an expression").fill("len(title) * 1000")
        await button(other, "Evaluate").click()
        output = page.get_by_role("region", name="Output")
        await expect(output.get_by_text("len(title) * 1000")).to_be_visible()

        await button(other, "Step over").click()
        await expect(page.get_by_text("Stopped at slugs.py:11")).to_be_visible()
        await click_beside(other, 10)
        await expect(page.locator(".breakpoint-set")).to_have_count(0)
        await button(other, "Continue").click()
        await expect(page.get_by_text("Has ended, exit code 1")).to_be_visible()
