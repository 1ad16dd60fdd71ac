"""The tree of files: create, move, delete, upload and download, and a directory of 10,000 files."""

import asyncio
from pathlib import Path

import httpx
import pytest
from playwright.async_api import BrowserContext, Locator, Page, Route, expect

from tests.cli.hutch_up_process import Up
from tests.web.web_sessions import new_session, write

pytestmark = pytest.mark.anyio

MANY = 10_000


async def open_tree(page: Page, up: Up, session: str) -> Locator:
    await page.goto(f"{up.url}/s/{session}")
    tree = page.get_by_role("tree", name="Files")
    await expect(tree.get_by_role("treeitem").first).to_be_visible()
    return tree


async def choose(page: Page, path: str, action: str) -> None:
    await page.locator(f"[data-path='{path}']").hover()
    await page.get_by_role("button", name=f"Actions for {path}", exact=True).click()
    await page.get_by_role("menuitem", name=action).click()


async def names(api: httpx.AsyncClient, session: str) -> set[str]:
    listed = (await api.get(f"/sessions/{session}/glob", params={"pattern": "**/*"})).json()
    return set(listed["paths"])


async def test_files_are_created_moved_uploaded_downloaded_and_deleted(
    logged_in: BrowserContext, up: Up, api: httpx.AsyncClient, tmp_path: Path
) -> None:
    page = await logged_in.new_page()  # refusals are errors of the console
    session = await new_session(api, files={"src/a.py": "a = 1\n", "notes.txt": "mine\n"})
    tree = await open_tree(page, up, session)
    await tree.get_by_role("treeitem", name="src").click()
    await page.get_by_role("region", name="Files").get_by_role("button", name="More actions").click()
    await page.get_by_role("menuitem", name="New file").click()
    field = page.get_by_label("Path")
    await expect(field).to_have_value("src/")  # where the selection is
    await field.fill("src/../../evil.py")  # which a browser would turn into the address of something else
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("dialog").get_by_role("alert")).to_contain_text("cannot have . or ..")
    await field.fill("src/new.py")
    await page.keyboard.press("Enter")
    await expect(page.locator("[data-tab='src/new.py']")).to_be_visible()
    await expect(tree.get_by_role("treeitem", name="new.py")).to_be_visible()

    await choose(page, "src/new.py", "Rename or move")
    await field.fill("notes.txt")
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("dialog").get_by_role("alert")).to_contain_text("notes.txt")
    await field.fill("lib/renamed.py")
    await page.keyboard.press("Enter")
    await expect(tree.get_by_role("treeitem", name="lib")).to_be_visible()
    await page.locator("[data-path='notes.txt']").drag_to(page.locator("[data-path='lib']"))
    await expect(page.locator("[data-path='notes.txt']")).to_have_count(0)
    assert await names(api, session) == {"src/a.py", "lib/renamed.py", "lib/notes.txt"}

    # An upload goes where the selection is, and replaces nothing unasked.
    (tmp_path / "a.py").write_text("uploaded = 1\n")
    (tmp_path / "b.py").write_text("b = 1\n")
    await page.get_by_role("treeitem", name="a.py").click()
    await page.locator("input[type=file]").set_input_files([tmp_path / "a.py", tmp_path / "b.py"])
    await expect(tree.get_by_role("treeitem", name="b.py")).to_be_visible()
    refusal = page.get_by_role("region", name="Files").get_by_role("alert")
    await expect(refusal).to_contain_text("src/a.py")
    assert (await api.get(f"/sessions/{session}/files/src/a.py")).text == "a = 1\n"
    await refusal.get_by_role("button", name="Replace it").click()
    await expect(refusal).to_have_count(0)
    await expect(page.locator(".cm-content")).to_contain_text("uploaded = 1")
    async with page.expect_download() as download:
        await choose(page, "src/b.py", "Download")
    stored = await (await download.value).path()
    assert await asyncio.to_thread(stored.read_text) == "b = 1\n"

    await choose(page, "src", "Delete")
    await expect(page.get_by_role("dialog")).to_contain_text("2 files in it.")
    await page.get_by_role("button", name="Delete").click()
    await expect(page.locator("[data-path='src']")).to_have_count(0)
    assert await names(api, session) == {"lib/renamed.py", "lib/notes.txt"}
    await page.close()


async def test_the_tree_stays_while_a_directory_is_listed_again(
    page: Page, up: Up, api: httpx.AsyncClient
) -> None:
    session = await new_session(api, files={"a.txt": "a\n"})
    await write(api, session, "b.txt", "b\n")
    tree = await open_tree(page, up, session)
    await expect(tree.get_by_role("treeitem")).to_have_text(["a.txt", "b.txtA"])
    await page.wait_for_load_state("networkidle")
    released = asyncio.Event()

    async def hold(route: Route) -> None:
        await released.wait()
        await route.continue_()

    await page.route("**/files?*", hold)
    async with page.expect_request("**/files?*"):
        await api.put(f"/sessions/{session}/files/c.txt", content=b"new\n")
    await api.put(f"/sessions/{session}/files/d.txt", content=b"new\n")
    assert await tree.get_by_role("treeitem").count() == 2
    released.set()
    await expect(tree.locator("[data-path='d.txt']")).to_be_visible()
    await expect(tree.get_by_role("treeitem")).to_have_count(4)


async def test_a_directory_of_10_000_files_is_filtered_and_walked_by_keys(
    page: Page, up: Up, api: httpx.AsyncClient
) -> None:
    session = await new_session(api, files={"many/file_0.txt": "x\n"})
    await write(api, session, "zebra.txt", "z\n")
    command = f"cd many && seq -f 'file_%.0f.txt' 1 {MANY - 1} | xargs touch"
    answer = await api.post(f"/sessions/{session}/commands", json={"command": command})
    assert answer.status_code < 300, answer.text
    tree = await open_tree(page, up, session)
    await tree.focus()
    await page.keyboard.press("ArrowDown")
    await expect(tree.get_by_role("treeitem", name="many")).to_have_attribute("aria-selected", "true")
    await page.keyboard.press("ArrowRight")
    many = tree.get_by_role("treeitem", name="many")
    await expect(many).to_have_attribute("aria-expanded", "true")
    child = page.locator("[data-path='many/file_0.txt']")
    await expect(child).to_have_attribute("aria-setsize", str(MANY))
    assert [await child.get_attribute(f"aria-{name}") for name in ("level", "posinset")] == ["2", "1"]
    assert await tree.get_by_role("treeitem").count() < 100  # the others are not in the page
    await page.keyboard.press("z")  # type-ahead, to a row far away
    chosen = page.locator("[role=treeitem][aria-selected=true]")
    await expect(chosen).to_have_attribute("data-path", "zebra.txt")
    await expect(chosen).to_be_in_viewport()
    await page.keyboard.press("ArrowUp")
    await expect(chosen).to_have_attribute("data-path", "many/file_9999.txt")
    await page.keyboard.press("Home")
    await expect(chosen).to_have_attribute("data-path", "many")
    await page.keyboard.press("ArrowLeft")
    await expect(many).to_have_attribute("aria-expanded", "false")
    await page.get_by_label("Filter files").fill("9876")
    await expect(tree.get_by_role("treeitem")).to_have_text(["many/file_9876.txt"])

    await page.keyboard.press("Control+k")  # which reads the sessions
    options = page.get_by_role("option")
    await expect(options.filter(has_text="Sessions").first).to_be_visible()
    await page.keyboard.press("Escape")
    await page.keyboard.press("Control+p")  # only files, also by their directory and in other cases
    await page.keyboard.type("e")
    await expect(options.filter(has_text=".txt").first).to_be_visible()
    assert all(text.endswith(".txt") for text in await options.all_inner_texts())
    await page.keyboard.press("Backspace")
    await page.keyboard.type("MANY 9876")
    await expect(options).to_have_text(["many/file_9876.txt"])
    await page.keyboard.press("Control+a")
    await page.keyboard.type("zebra")
    await expect(options).to_have_text(["zebra.txt"])
    await page.keyboard.press("Enter")
    await expect(page.locator(".cm-content")).to_have_text("z")
    await page.goto(f"{up.url}/s/{session}")  # without a file in its address
    await expect(page.locator(".cm-content")).to_have_text("z")
