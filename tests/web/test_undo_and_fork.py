"""People undo runs, fork from one, and see why that was refused."""

import asyncio
import json
from pathlib import Path

import httpx
import pytest
from playwright.async_api import BrowserContext, Page, Route, expect

from tests.cli.hutch_up_process import Up
from tests.deadline import DEADLINE_S
from tests.web.web_sessions import cassette, new_session

pytestmark = pytest.mark.anyio

FINISH = {"calls": [{"tool": "finish", "args": {"title": "Done", "summary": "All is there."}}]}


def writes(name: str) -> object:
    return {"calls": [{"tool": "write_file", "args": {"path": f"{name}.txt", "content": f"{name}\n"}}]}


async def three_runs(api: httpx.AsyncClient, place: Path) -> str:
    """A session with three runs, each of which has written a file."""
    names = ("one", "two", "three")
    replies = [reply for name in names for reply in (writes(name), FINISH)]
    session = await new_session(api, files={"a.txt": "a\n"}, model=cassette(place, replies))
    for name in names:
        await api.post(f"/sessions/{session}/inputs", json={"type": "prompt", "text": f"Write {name}."})
    ended = 0
    async with asyncio.timeout(DEADLINE_S), api.stream("GET", f"/sessions/{session}/events/stream") as events:
        async for line in events.aiter_lines():
            ended += line == "event: run.ended"
            if ended == len(names):
                break
    return session


async def open_menu(page: Page, prompt: str) -> None:
    row = page.get_by_role("article", name=prompt)
    await row.get_by_role("button", name="More actions").click()


async def test_undo_to_here_takes_back_a_run_and_all_later_ones(
    page: Page, up: Up, api: httpx.AsyncClient, tmp_path: Path
) -> None:
    session = await three_runs(api, tmp_path)
    await page.goto(f"{up.url}/s/{session}")
    await expect(page.get_by_role("article", name="Write three.")).to_be_visible()
    await open_menu(page, "Write two.")
    await page.get_by_role("menuitem", name="Undo to here").click()
    dialog = page.get_by_role("dialog", name="Undo the last 2 runs?")
    await expect(dialog.get_by_role("listitem")).to_have_text(["two.txt", "three.txt"])
    await expect(dialog.get_by_role("button", name="Undo", exact=True)).to_be_focused()
    await page.keyboard.press("Enter")
    await expect(dialog).to_have_count(0)
    for name, count in (("one", 0), ("two", 1), ("three", 1)):
        row = page.get_by_role("article", name=f"Write {name}.")
        await expect(row.get_by_text("undone", exact=True)).to_have_count(count)
    listed = (await api.get(f"/sessions/{session}/glob", params={"pattern": "**/*"})).json()["paths"]
    assert sorted(listed) == ["a.txt", "one.txt"]


async def test_a_fork_has_the_files_and_the_conversation_of_its_run_and_a_refusal_is_shown(
    logged_in: BrowserContext, up: Up, api: httpx.AsyncClient, tmp_path: Path
) -> None:
    session = await three_runs(api, tmp_path)
    page = await logged_in.new_page()  # a refusal is an error of the console
    await page.goto(f"{up.url}/s/{session}")

    async def refuse(route: Route) -> None:
        problem = {"title": "Conflict", "status": 409, "code": "conflict", "detail": "Too many sessions."}
        await route.fulfill(status=409, content_type="application/problem+json", body=json.dumps(problem))

    await page.route("**/fork", refuse)
    await open_menu(page, "Write two.")
    await page.get_by_role("menuitem", name="Fork from here").click()
    await expect(page.get_by_role("alert").get_by_text("Too many sessions.")).to_be_visible()
    await page.unroute("**/fork")
    await open_menu(page, "Write two.")
    await page.get_by_role("menuitem", name="Fork from here").click()
    await page.wait_for_url(lambda address: "/s/ses_" in address and session not in address)
    await expect(page.get_by_role("tree").get_by_text("two.txt")).to_be_visible()
    await expect(page.get_by_role("tree").get_by_text("three.txt")).to_have_count(0)
    await page.close()
