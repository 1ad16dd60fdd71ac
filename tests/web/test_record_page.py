"""A record file is opened and verified in the browser."""

import io
import zipfile
from pathlib import Path

import httpx
import pytest
from playwright.async_api import Page, expect

from tests.cli.hutch_up_process import Up
from tests.web.web_sessions import new_session

pytestmark = pytest.mark.anyio

VECTORS = Path(__file__).parents[2] / "docs/vectors"


async def test_a_record_of_this_server_is_verified_and_played_back(
    page: Page, up: Up, api: httpx.AsyncClient, tmp_path: Path
) -> None:
    session = await new_session(api, purpose="Signed")
    await api.post(f"/sessions/{session}/inputs", json={"type": "message", "text": "Keep this."})
    file = tmp_path / "record.zip"
    file.write_bytes((await api.get(f"/sessions/{session}/record")).content)
    with zipfile.ZipFile(file) as archive:
        key = archive.read("keys.json").decode().split('"')[1]
    await page.goto(f"{up.url}/record")
    await page.get_by_label("Choose a record file").set_input_files(file)
    await expect(page.get_by_text("The record is good.")).to_be_visible()
    await expect(page.get_by_text("anybody can sign a record")).to_be_visible()
    await page.get_by_label("Fingerprint of the key").fill(key)
    await expect(page.get_by_text("signed by the key that you gave")).to_be_visible()
    await page.get_by_role("button", name="Play it back").click()
    await expect(page.get_by_role("slider", name="Position")).to_be_visible()


async def test_an_altered_record_is_refused_with_the_place(page: Page, up: Up) -> None:
    await page.goto(f"{up.url}/record")
    choose = page.get_by_label("Choose a record file")
    await choose.set_input_files(VECTORS / "payload-changed.zip")
    alert = page.get_by_role("alert")
    await expect(alert).to_contain_text("Event 2: its payload is not the one that was recorded.")
    await expect(page.locator("[data-bad='2']")).to_be_visible()
    await expect(page.get_by_role("button", name="Play it back")).to_have_count(0)

    made = io.BytesIO()  # a zip, but no record
    with zipfile.ZipFile(made, "w") as archive:
        archive.writestr("README.txt", "hello")
    other = {"name": "other.zip", "mimeType": "application/zip", "buffer": made.getvalue()}
    await page.get_by_label("Open another").set_input_files(other)  # type: ignore[arg-type]
    await expect(alert).to_contain_text("This is not the zip of a record")
