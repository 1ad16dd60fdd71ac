"""The app on a plain http address of a local network, where browsers offer less."""

from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest
from playwright.async_api import Page, expect

from tests.cli.hutch_up_process import TIMEOUT_S, Home
from tests.gateway.headless_browser import chromium
from tests.web.conftest import WIDE
from tests.web.web_sessions import cassette, new_session, until_idle

pytestmark = pytest.mark.anyio

NAME = "hutch.example"  # leads to this machine, but is not a secure context as localhost is


@pytest.fixture
async def opened(tmp_path: Path) -> AsyncIterator[tuple[Page, httpx.AsyncClient, str]]:
    home = Home(tmp_path, is_new=True)
    with home.up(HUTCH_SERVER__HOSTNAMES=NAME) as up:
        address = f"http://{NAME}:{urlsplit(up.url).port}"
        headers = {"Authorization": f"Bearer {home.token}"}
        async with (
            chromium(NAME) as browser,
            httpx.AsyncClient(
                base_url=f"{up.url}/api/v1", headers=headers, timeout=TIMEOUT_S, trust_env=False
            ) as api,
        ):
            page = await browser.new_page(viewport=WIDE, locale="en-GB")
            page.set_default_timeout(TIMEOUT_S * 1000)
            await page.goto(up.printed["link"].replace(up.url, address))
            await page.get_by_role("button", name="Log in").click()
            await page.get_by_role("button", name="Not now").click()
            await expect(page.get_by_role("heading", name="Welcome")).to_be_visible()
            yield page, api, address


async def test_copying_works_and_what_the_browser_lacks_is_said(
    opened: tuple[Page, httpx.AsyncClient, str], tmp_path: Path
) -> None:
    page, api, address = opened
    assert not await page.evaluate("isSecureContext || 'clipboard' in navigator")
    finish = {"calls": [{"tool": "finish", "args": {"title": "Done", "summary": "All is there."}}]}
    model = cassette(tmp_path, [{"text": "See:\n\n```\nmake copy\n```"}, finish])
    session = await new_session(api, prompt="Copy this prompt.", model=model)
    await until_idle(api, session)
    await page.goto(f"{address}/s/{session}")
    log, composer = page.get_by_role("log"), page.get_by_label("Message to the agent")

    async def pasted() -> str:
        await composer.fill("")
        await composer.focus()
        await page.keyboard.press("Control+v")
        return await composer.input_value()

    await log.get_by_role("button", name="More actions").click()
    await page.get_by_role("menuitem", name="Copy").click()
    assert await pasted() == "Copy this prompt."
    await log.get_by_text("make copy").hover()
    await log.get_by_role("button", name="Copy").last.click()
    assert (await pasted()).strip() == "make copy"
    await page.goto(f"{address}/settings/you")
    await expect(page.get_by_text("offer notifications on https and on this machine only")).to_be_visible()
