"""The board, the list and the page of a task: by mouse, by keys, together, and offline."""

import re
from pathlib import Path

import httpx
import pytest
from playwright.async_api import Browser, BrowserContext, Locator, Page, Route, expect

from tests.cli.hutch_up_process import Up
from tests.forge.repositories import make_repository
from tests.gateway.api_server import eventually
from tests.web.test_accessibility import assert_no_violations
from tests.web.test_editing_together import logged_in_as
from tests.web.web_sessions import cassette

pytestmark = pytest.mark.anyio

SHOP = "https://github.com/acme/shop.git"
HOSTILE = "Fails **often**.\n\n<img src=//evil.example/x onerror=alert(1)> ![x](https://evil.example/x.png)"


async def new_task(api: httpx.AsyncClient, title: str, **fields: object) -> dict[str, object]:
    made = await api.post("/tasks", json={"title": title, "repository": SHOP, **fields})
    assert made.status_code == 201, made.text
    return dict(made.json())


async def stored(api: httpx.AsyncClient, task: dict[str, object]) -> dict[str, object]:
    return dict((await api.get(f"/tasks/{task['id']}")).json()["fields"])


def column(page: Page, state: str) -> Locator:
    return page.locator(f"section[data-column={state}]")


def card(page: Page, title: str) -> Locator:
    return page.get_by_role("listitem").filter(has_text=title)


async def test_cards_are_dragged_moved_by_keys_and_added_and_others_see_it(
    page: Page, browser: Browser, up: Up, api: httpx.AsyncClient
) -> None:
    await page.goto(f"{up.url}/tasks?view=board")
    await expect(page.get_by_text("hutch tasks sync --watch")).to_be_visible()  # nothing yet: how to begin
    await page.keyboard.press("c")
    await page.get_by_label("Repository of the new task").select_option("Another repository…")
    await page.get_by_label("Repository", exact=True).fill(SHOP)
    await page.get_by_role("textbox", name="New task").fill("Fix login")
    await page.keyboard.press("Enter")
    await expect(card(page, "Fix login")).to_contain_text("T-1")
    task = (await api.get("/tasks")).json()["items"][0]
    assert task["repository"] == "github.com/acme/shop"
    await page.keyboard.press("Escape")

    async with logged_in_as("bo", up, browser) as other:
        await other.goto(f"{up.url}/tasks?view=board")
        await expect(column(other, "todo").get_by_role("listitem")).to_contain_text("Fix login")
        await card(page, "Fix login").drag_to(column(page, "doing"))
        await expect(column(other, "doing").get_by_role("listitem")).to_contain_text("Fix login")
        assert (await stored(api, task))["state"] == "doing"

        await page.locator("[data-row]").focus()
        await page.keyboard.press("Space")
        spoken = page.locator("[aria-live=assertive]").last
        await expect(spoken).to_contain_text("T-1 Fix login is picked up, in Doing")
        await page.keyboard.press("ArrowRight")
        await page.keyboard.press("ArrowRight")
        await expect(spoken).to_contain_text("Review, column 4 of 6")
        await expect(column(other, "doing").get_by_role("listitem")).to_be_visible()  # not put down yet
        await page.keyboard.press("Escape")
        await expect(spoken).to_contain_text("stays in Doing")
        for key in ("Space", "ArrowRight", "ArrowRight", "Space"):
            await page.keyboard.press(key)
        await expect(spoken).to_contain_text("T-1 Fix login is in Review.")
        await expect(page.locator("[data-row]")).to_be_focused()
        await expect(column(other, "review").get_by_role("listitem")).to_contain_text("Fix login")
        await page.keyboard.press("x")
        await expect(column(other, "done").get_by_label("Done: Fix login")).to_be_checked()
        await page.keyboard.press("Enter")
        await expect(page.get_by_role("heading", name="Fix login")).to_be_visible()


async def test_a_filter_is_in_the_address_and_the_list_is_sorted(
    page: Page, up: Up, api: httpx.AsyncClient
) -> None:
    await new_task(api, "Slow search", priority="urgent", labels=["perf"], owner="bo")
    await new_task(api, "Typo on the first page", priority="low", labels=["docs"])
    await page.goto(f"{up.url}/tasks?view=list")
    rows = page.get_by_role("row")
    await page.get_by_role("button", name="Priority").click()
    await expect(rows.nth(1)).to_contain_text("Slow search")
    await page.get_by_label("Labels").select_option("docs")
    await expect(rows).to_have_count(2)
    await expect(page).to_have_url(re.compile(r"sort=priority&label=docs"))
    await page.reload()
    await expect(rows.nth(1)).to_contain_text("Typo on the first page")
    await page.get_by_role("button", name="Save filter").click()
    await page.get_by_label("Name", exact=True).fill("my docs")
    await assert_no_violations(page)
    await page.keyboard.press("Enter")
    await expect(page.get_by_label("Saved filters")).to_have_value("my docs")
    await page.get_by_label("Saved filters").select_option("Saved filters")
    await expect(rows.filter(has_text="Slow search")).to_be_visible()
    await page.get_by_label("Saved filters").select_option("my docs")
    await expect(rows).to_have_count(2)
    assert (await api.get("/task-filters")).json()["items"][0]["query"]["label"] == "docs"
    await page.get_by_role("button", name="Delete filter").click()
    await expect(page.get_by_label("Saved filters")).to_have_count(0)
    await page.keyboard.press("/")
    await page.keyboard.type("nothing like this")
    await expect(page.get_by_text("No task matches.")).to_be_visible()
    await page.locator("main").get_by_role("button", name="Clear the filter").last.click()
    await expect(rows.filter(has_text="Slow search")).to_be_visible()


async def test_a_task_is_edited_in_place_and_hostile_text_stays_text(
    page: Page, up: Up, api: httpx.AsyncClient
) -> None:
    task = await new_task(api, "Flaky upload", description=HOSTILE, criteria=[{"text": "green"}])
    await page.goto(f"{up.url}/tasks/{task['id']}")
    await expect(page.locator("strong", has_text="often")).to_be_visible()
    await expect(page.get_by_text("<img src=//evil.example/x onerror=alert(1)>")).to_be_visible()
    assert await page.locator("img").count() == 0
    await page.get_by_role("checkbox", name="green").check()
    await page.get_by_label("Add a criterion; Enter adds it").fill("fast")
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("checkbox", name="fast")).to_be_visible()
    await page.get_by_label("Owner").fill("ada")
    await page.keyboard.press("Enter")
    await page.get_by_label("Add a label").fill("bug io")
    await page.keyboard.press("Enter")
    await page.get_by_role("button", name="Edit: Title").click()
    await page.keyboard.type("Upload fails at night")
    await page.keyboard.press("Enter")
    await page.get_by_label("Write a comment").fill("Seen **again**.")
    await page.keyboard.press("Control+Enter")
    await expect(page.locator("li strong", has_text="again")).to_be_visible()
    await expect(page.get_by_text("changed title from Flaky upload to Upload fails at night")).to_be_visible()
    fields = await stored(api, task)
    assert fields["criteria"] == [{"text": "green", "done": True}, {"text": "fast", "done": False}]
    assert (fields["owner"], fields["labels"]) == ("ada", ["bug", "io"])
    await page.emulate_media(color_scheme="light", reduced_motion="reduce")
    await assert_no_violations(page)
    for path in ("/tasks?view=board", "/tasks?view=list"):
        await page.goto(up.url + path)
        await expect(page.get_by_text("Upload fails at night").first).to_be_visible()
        await page.emulate_media(color_scheme="light")
        await assert_no_violations(page)
        await page.set_viewport_size({"width": 320, "height": 640})
        await page.wait_for_function("() => document.documentElement.scrollWidth <= 320")
        await page.set_viewport_size({"width": 1280, "height": 800})


async def test_changes_wait_offline_and_a_conflict_is_shown_and_resolved(
    logged_in: BrowserContext, up: Up, api: httpx.AsyncClient
) -> None:
    page = await logged_in.new_page()  # a refused connection is an error of the console
    mine = await new_task(api, "Change me offline", labels=["one"])
    await page.goto(f"{up.url}/tasks/{mine['id']}")
    await expect(page.get_by_label("State")).to_have_value("todo")

    async def refuse(route: Route) -> None:
        await route.abort()

    await page.route("**/api/v1/tasks**", refuse)
    await page.get_by_label("State").select_option("Doing")
    await page.get_by_label("Owner").fill("ada")
    await page.keyboard.press("Enter")
    await page.get_by_label("Add a label").fill("two")
    await page.keyboard.press("Enter")
    await expect(page.get_by_text("3 changes of tasks wait here")).to_be_visible()
    await expect(page.get_by_label("State")).to_have_value("doing")
    # Somebody else changes the owner, a label and the priority meanwhile.
    theirs = {"owner": "bo", "labels": ["one", "three"], "priority": "high"}
    assert (await api.patch(f"/tasks/{mine['id']}", json=theirs)).status_code == 200
    await page.unroute("**/api/v1/tasks**")
    await page.get_by_role("button", name="Send now").click()
    await expect(page.get_by_text("1 change of yours meets a newer one")).to_be_visible()

    async def is_merged() -> bool:
        fields = await stored(api, mine)
        shown = (fields["state"], fields["owner"], fields["labels"])
        return shown == ("doing", "bo", ["one", "three", "two"])

    await eventually(is_merged)
    await page.reload()  # it is kept
    await page.get_by_role("button", name="Compare and choose").click()
    dialog = page.get_by_role("dialog")
    await expect(dialog.get_by_text("bo", exact=True)).to_be_visible()
    await dialog.get_by_label("Use yours").check()
    await dialog.get_by_role("button", name="Save").click()
    await expect(page.get_by_label("Owner")).to_have_value("ada")

    async def is_mine() -> bool:
        return (await stored(api, mine))["owner"] == "ada"

    await eventually(is_mine)
    fields = await stored(api, mine)
    assert (fields["owner"], fields["priority"]) == ("ada", "high")

    async def is_all_sent() -> bool:
        # A request without an answer is sent again by the next page, that of the next test.
        return not await page.evaluate(
            "Object.keys(localStorage).some((key) => key.startsWith('hutch.unsent'))"
        )

    await eventually(is_all_sent)
    await page.close()


async def test_an_agent_is_assigned_and_its_work_is_shown_until_it_is_done(
    page: Page, up: Up, api: httpx.AsyncClient, tmp_path: Path
) -> None:
    model = cassette(tmp_path, [{"calls": [{"tool": "finish", "args": {"title": "T", "summary": "Done."}}]}])
    task = await new_task(api, "Make it green", repository="", criteria=[{"text": "the test passes"}])
    await page.goto(f"{up.url}/tasks/{task['id']}")
    await page.get_by_role("button", name="Assign an agent").click()
    dialog = page.get_by_role("dialog")
    await expect(dialog.get_by_label("Reviewer of the change")).to_be_disabled()  # there is no change
    await dialog.get_by_label("Model").fill(model)
    await assert_no_violations(page)
    await dialog.get_by_role("button", name="Assign", exact=True).click()
    work = page.get_by_role("region", name="Agent")
    await expect(work).to_contain_text("Evidence for 0 of 1 criterion")
    await expect(work.get_by_text("failed", exact=True)).to_be_visible()  # nothing shows the criterion
    assert (await stored(api, task))["state"] == "blocked"
    await page.get_by_role("button", name="Assign an agent again").click()
    await dialog.get_by_role("button", name="Cancel").click()

    await work.get_by_role("link", name="Time and cost").click()
    table = page.get_by_role("region", name="Parts of the session")
    await expect(table.get_by_role("row").filter(has_text="Tool finish")).to_be_visible()
    await page.get_by_label("Show", exact=True).select_option("Model")
    await expect(table.get_by_role("row")).to_have_count(2)
    await assert_no_violations(page)
    async with page.expect_download() as started:
        await page.get_by_role("link", name="Download as CSV").click()
    assert (await started.value).suggested_filename == "waterfall.csv"


async def test_a_change_is_shown_once_below_its_session_with_who_did_what(
    page: Page, up: Up, api: httpx.AsyncClient, tmp_path: Path
) -> None:
    make_repository(tmp_path / "repo", {"a.txt": "a\n"})
    write = {"calls": [{"tool": "write_file", "args": {"path": "b.txt", "content": "b\n"}}]}
    finish = {"calls": [{"tool": "finish", "args": {"title": "Add b.txt", "summary": "It was missing."}}]}
    task = await new_task(api, "Say b", repository=str(tmp_path / "repo"))
    model = cassette(tmp_path, [write, finish])
    assigned = await api.post(f"/tasks/{task['id']}/assignments", json={"model": model})
    assert assigned.status_code == 201, assigned.text
    await page.goto(f"{up.url}/tasks/{task['id']}")
    work = page.get_by_role("region", name="Sessions and changes")
    await expect(work.get_by_role("link", name="Add b.txt")).to_have_count(1)
    await expect(
        page.get_by_role("region", name="Agent").get_by_text("change proposed", exact=True)
    ).to_be_visible()
    await expect(page.get_by_text("Hutch changed state from Doing to Review")).to_be_visible()
    await page.reload()  # both lists are there from the beginning
    await expect(page.get_by_text("Hutch changed state from Doing to Review")).to_be_visible()
    await expect(work.get_by_role("link", name="Add b.txt")).to_have_count(1)


async def test_a_conflict_with_the_file_is_shown_and_resolved(
    page: Page, up: Up, api: httpx.AsyncClient
) -> None:
    body = {"repository": "/srv/filed", "text": "- [ ] Fix login\n"}
    synced = (await api.post("/tasks/sync", json=body)).json()["text"]
    task = (await api.get("/tasks?repository=/srv/filed")).json()["items"][0]
    theirs = {"title": "From the board", "owner": "ada"}
    assert (await api.patch(f"/tasks/{task['id']}", json=theirs)).status_code == 200
    text = synced.replace("Fix login", "From the file @bo")
    again = await api.post("/tasks/sync", json={**body, "base": synced, "text": text})
    assert len(again.json()["conflicts"]) == 2
    await page.goto(f"{up.url}/tasks/{task['id']}")
    conflicts = page.get_by_role("region", name="TASKS.md and the board both changed this task")
    await expect(conflicts).to_contain_text("“From the file” in the file was used")
    title = conflicts.get_by_role("listitem").filter(has_text="Title")
    await title.get_by_role("button", name="Use the board's").click()
    await expect(page.get_by_role("heading", name="From the board")).to_be_visible()
    await expect(conflicts.get_by_role("listitem")).to_have_count(1)
    await conflicts.get_by_role("button", name="Keep the file's").click()
    await expect(conflicts).to_have_count(0)
    fields = await stored(api, task)
    assert (fields["title"], fields["owner"]) == ("From the board", "bo")
