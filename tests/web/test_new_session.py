"""The dialog for a new session, in a real browser: branches of the chosen repository."""

from pathlib import Path

import httpx
import pytest
from playwright.async_api import Page, expect

from tests.cli.hutch_up_process import Up
from tests.forge.repositories import git, make_repository

pytestmark = pytest.mark.anyio


async def test_a_branch_is_chosen_from_those_of_the_repository_or_typed(
    page: Page, up: Up, api: httpx.AsyncClient, tmp_path: Path
) -> None:
    project = tmp_path / "project"
    make_repository(project, {"a": "1"}, branch="trunk")
    for name in ("feature/one", "feature/two", "x\u202egpj.exe"):
        git(project, "branch", name)
    await page.goto(f"{up.url}/new")
    asked: list[str] = []
    page.on("request", lambda sent: "repository-branches" in sent.url and asked.append(sent.url))
    await page.get_by_role("combobox", name="Repository").last.fill(str(project))
    assert asked == []  # no host is contacted while its address is typed
    field = page.get_by_role("combobox", name="Branch, tag or commit")
    await field.focus()
    branches = page.get_by_role("listbox", name="Branches").get_by_role("option")
    # A name that reorders text shows the character that does it.
    await expect(branches).to_have_text(["trunkdefault", "feature/one", "feature/two", "xU+202Egpj.exe"])
    await page.keyboard.type("two")
    await expect(branches).to_have_text(["feature/two"])
    await page.keyboard.press("Escape")  # closes the list, not the dialog
    await expect(branches).to_have_count(0)
    await expect(page.get_by_role("dialog")).to_be_visible()
    await page.keyboard.press("ArrowDown")
    await page.keyboard.press("ArrowDown")
    await expect(branches.first).to_have_attribute("aria-selected", "true")
    await page.keyboard.press("Enter")
    await expect(field).to_have_value("feature/two")
    await field.fill("fea")
    await branches.filter(has_text="one").click()
    await expect(field).to_have_value("feature/one")
    await field.fill(git(project, "rev-parse", "HEAD"))  # text of one's own
    await expect(page.get_by_text("A tag or a commit can be typed")).to_be_visible()
    await field.fill("feature/two")
    await page.keyboard.press("Tab")
    await expect(branches).to_have_count(0)
    await page.get_by_role("button", name="Next").click()
    await page.get_by_label("What should the agent do?").fill("")
    await page.get_by_role("button", name="Start").click()
    await page.wait_for_url(f"{up.url}/s/*")
    opened = (await api.get(f"/sessions/{page.url.rpartition('/')[2]}")).json()
    assert opened["revision"] == "feature/two"
