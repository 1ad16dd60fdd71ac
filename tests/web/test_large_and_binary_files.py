"""Files that cannot be edited are shown in parts, with their size and a download."""

import httpx
import pytest
from playwright.async_api import Page, expect

from tests.cli.hutch_up_process import Up
from tests.web.web_sessions import new_session, write

pytestmark = pytest.mark.anyio

LINE = "é line of a log\n"
LARGE = LINE * 700_000  # over 10 MB


async def test_a_file_over_10_mb_is_read_in_parts_and_a_binary_one_in_hex(
    page: Page, up: Up, api: httpx.AsyncClient
) -> None:
    session = await new_session(api)
    await write(api, session, "big.log", LARGE)
    await page.goto(f"{up.url}/s/{session}?file=big.log")
    await expect(page.get_by_text("A file of 11.3 MB")).to_contain_text("You see 0 B to 1.0 MB.")
    lines = page.locator(".cm-content")
    await expect(lines).to_contain_text("é line of a log")
    await expect(lines).to_have_attribute("aria-readonly", "true")
    await page.get_by_role("button", name="Later part").click()
    await expect(page.get_by_text("You see 1.0 MB to 2.0 MB.")).to_be_visible()
    await page.get_by_role("button", name="Earlier part").click()
    await expect(page.get_by_text("You see 0 B to 1.0 MB.")).to_be_visible()
    async with page.expect_download() as download:
        await page.get_by_role("link", name="Download").click()
    assert (await (await download.value).path()).stat().st_size == len(LARGE.encode())

    answer = await api.put(f"/sessions/{session}/files/mark.png", content=b"\x89PNG\r\n\x1a\n\x00\x01")
    assert answer.status_code < 300, answer.text
    await page.goto(f"{up.url}/s/{session}?file=mark.png")
    await expect(page.get_by_text("A binary file of 10 B, shown in hex.")).to_be_visible()
    await expect(lines).to_contain_text("89 50 4e 47 0d 0a 1a 0a 00 01")
