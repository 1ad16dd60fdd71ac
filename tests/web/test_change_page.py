"""People review a change in a real browser."""

import subprocess
from pathlib import Path

import httpx
import pytest
from playwright.async_api import Page, expect

from tests.cli.hutch_up_process import Up
from tests.web.web_sessions import FILES

pytestmark = pytest.mark.anyio


def repository(place: Path) -> Path:
    """A repository of the sample, with one commit."""
    place.mkdir()
    for name, text in FILES.items():
        (place / name).write_text(text)
    who = ["-c", "user.name=Ada", "-c", "user.email=ada@example.org"]
    for words in (["init", "-q", "-b", "main"], ["add", "-A"], [*who, "commit", "-qm", "start"]):
        subprocess.run(["git", *words], cwd=place, check=True)
    return place


async def test_a_change_is_commented_on_marked_and_merged(
    page: Page, up: Up, api: httpx.AsyncClient, tmp_path: Path
) -> None:
    body = {"repository": str(repository(tmp_path / "shop")), "prompt": "Make the failing test pass."}
    made = await api.post("/sessions", json={**body, "model": "scripted:demo", "deliver": True})
    assert made.status_code == 201, made.text
    await page.goto(up.url)
    await page.get_by_role("link", name="Drop accents before words are separated").click()
    article = page.get_by_role("article", name="slugs.py")
    await expect(article.get_by_text("title.lower()")).to_be_visible()
    tests = page.get_by_role("group", name="Tests")
    await expect(tests).to_contain_text("before: 1 failed, 1 passed")
    await expect(tests).to_contain_text("after: 2 passed")

    await page.keyboard.press("Control+k")
    await page.keyboard.type(">merg")
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("dialog", name="Merge this change?")).to_be_visible()
    await page.keyboard.press("Escape")
    await expect(page.get_by_role("dialog")).to_have_count(0)

    # Everything by keyboard: file, change, a comment, one that is not sent, layout, mark.
    await page.keyboard.press("]")
    await expect(article).to_be_focused()
    await page.keyboard.press("n")
    await page.keyboard.press("c")
    await page.keyboard.type("Why not casefold?")
    await page.keyboard.press("Control+Enter")
    await expect(article.get_by_text("Why not casefold?")).to_be_visible()
    await page.keyboard.press("u")
    await expect(page.get_by_role("button", name="Unified")).to_have_attribute("aria-pressed", "true")
    await page.keyboard.press("]")
    await page.keyboard.press("n")
    await page.keyboard.press("c")
    await page.keyboard.type("Half a thou")
    await page.reload()
    await expect(article.get_by_role("textbox")).to_have_value("Half a thou")
    await expect(article.get_by_text("Why not casefold?")).to_be_visible()
    await expect(page.get_by_role("button", name="Unified")).to_have_attribute("aria-pressed", "true")
    await article.get_by_role("textbox").press("Escape")
    await page.keyboard.press("v")
    await expect(page.get_by_text("1 of 1 viewed").first).to_be_visible()
    await page.reload()
    await expect(page.get_by_text("1 of 1 viewed").first).to_be_visible()

    await page.get_by_role("button", name="Send 1 comment to the agent").click()
    await expect(page.get_by_text("Sent. The agent works on them")).to_be_visible()
    session = made.json()["id"]
    given = (await api.get(f"/sessions/{session}/inputs")).json()["items"][-1]["input"]
    assert given["text"].startswith("slugs.py:9 (old): Why not casefold?")
    await page.get_by_role("button", name="Request changes").click()
    await page.get_by_role("dialog").get_by_role("textbox").fill("Name the reason.")
    await page.get_by_role("dialog").get_by_role("button", name="Send").click()
    merge = page.get_by_role("button", name="Merge", exact=True)
    await expect(merge).to_be_disabled()
    await expect(page.get_by_text("asked for changes").last).to_contain_text("Name the reason.")
    await page.get_by_role("button", name="Approve").click()
    await page.get_by_role("dialog").get_by_role("button", name="Send").click()
    await merge.click()
    await page.get_by_role("dialog").get_by_role("button", name="Merge").click()
    await expect(page.get_by_text("merged", exact=True)).to_be_visible()

    # The session and the list of all changes say so too.
    await page.goto(f"{up.url}/s/{session}")
    await expect(page.locator("header").get_by_text("merged", exact=True)).to_be_visible()
    await page.goto(f"{up.url}/changes?state=merged")
    row = page.get_by_role("listitem").filter(has_text="Drop accents before words are separated")
    await expect(row.get_by_text("merged")).to_be_visible()
    await page.get_by_label("State").select_option("Open")
    await expect(row).to_have_count(0)
    await page.get_by_label("State").select_option("Any state")
    await page.get_by_label("Filter by title").fill("no such title")
    await expect(page.get_by_text("No change matches.")).to_be_visible()
