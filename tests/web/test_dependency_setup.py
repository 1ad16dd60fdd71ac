"""The set-up of a repository's dependencies is shown in a summary before it is accepted."""

from pathlib import Path

import httpx
import pytest
from playwright.async_api import Page, expect

from tests.cli.hutch_up_process import Up
from tests.forge.repositories import make_repository

pytestmark = pytest.mark.anyio


async def test_a_set_up_that_nobody_accepted_is_summarised_and_can_be_put_off(
    page: Page, up: Up, api: httpx.AsyncClient, tmp_path: Path
) -> None:
    make_repository(tmp_path / "shop", {"requirements.txt": "six==1.17.0\n", "a.py": "import six\n"})
    made = await api.post("/sessions", json={"repository": str(tmp_path / "shop")})
    assert made.status_code == 201, made.text
    await page.goto(f"{up.url}/s/{made.json()['id']}")
    line = page.get_by_role("note").filter(has_text="The dependencies of this repository are not installed.")
    await line.get_by_role("button", name="Review and install").click()
    dialog = page.get_by_role("dialog", name="Install the dependencies of this repository?")
    await expect(dialog.get_by_text("1 command from requirements.txt would run in a jail")).to_be_visible()
    whole = dialog.locator("pre")
    await expect(whole).to_be_hidden()
    await dialog.get_by_text("Show the whole commands").click()
    await expect(whole).to_contain_text("pip install -r requirements.txt")
    await expect(dialog.get_by_role("button", name="Install")).to_be_enabled()
    await dialog.get_by_role("button", name="Not now").click()
    await line.get_by_role("button", name="Not now").click()
    await page.reload()
    await expect(page.get_by_label("Message to the agent")).to_be_visible()
    await page.keyboard.press("Control+k")
    await page.keyboard.type("install")
    await expect(page.get_by_role("option", name="Install the dependencies")).to_be_visible()
    await expect(line).to_have_count(0)
