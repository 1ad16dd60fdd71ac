"""People read what has changed, keep parts of it, and say what is wrong."""

from pathlib import Path

import httpx
import pytest
from playwright.async_api import Page, expect

from tests.cli.hutch_up_process import Up
from tests.web.test_change_page import repository
from tests.web.web_sessions import FILES, cassette, new_session, until_prepared, write

pytestmark = pytest.mark.anyio

FINISH = {"calls": [{"tool": "finish", "args": {"title": "Done", "summary": "All is there."}}]}
LINES = "".join(f"line {number}\n" for number in range(1, 41))
LOCK = "{\n" + "".join(f'  "package{number}": "1.0.0",\n' for number in range(30_000)) + "}\n"


async def test_a_lock_file_is_folded_and_a_line_of_2_mb_is_cut(
    page: Page, up: Up, api: httpx.AsyncClient
) -> None:
    files = {**FILES, "package-lock.json": LOCK, "a.txt": "x" * 2_000_000 + "\n"}
    session = await new_session(api, files=files)
    await write(api, session, "package-lock.json", LOCK.replace("1.0.0", "1.1.0"))
    await write(api, session, "a.txt", "y" * 2_000_000 + "\n")
    await write(api, session, "slugs.py", FILES["slugs.py"] + "# end\n")
    await page.goto(f"{up.url}/s/{session}?panel=changes")
    panel = page.get_by_role("region", name="Changes")
    await expect(panel.get_by_text("60,000 changed lines, folded")).to_be_visible()
    await expect(panel.get_by_text("1,998,000 more characters").first).to_be_attached()
    await expect(panel.get_by_text("# end")).to_be_visible()  # a file after the end of a patch that was cut
    await panel.get_by_role("button", name="package-lock.json").click()
    await expect(panel.get_by_text('"package5": "1.')).to_have_count(1)
    assert await page.locator("*").count() < 5000


async def test_a_comment_on_three_lines_reaches_the_agent_with_path_and_text(
    page: Page, up: Up, api: httpx.AsyncClient, tmp_path: Path
) -> None:
    session = await new_session(api, files={"a.txt": LINES}, model=cassette(tmp_path, [FINISH]))
    changed = LINES.replace("line 3\nline 4\nline 5\n", "three\nfour\nfive\n").replace(
        "line 30\n", "thirty\n"
    )
    await write(api, session, "a.txt", changed)
    await page.goto(f"{up.url}/s/{session}?panel=changes")
    panel = page.get_by_role("region", name="Changes")
    last = panel.get_by_role("button", name="Comment on line 30", exact=True).last
    await last.evaluate("each => each.scrollIntoView({ block: 'end' })")
    await last.click()
    form = panel.get_by_role("textbox", name="Comment on line 30")
    await expect(form).to_be_in_viewport(ratio=1)  # though there is no room below the line
    await form.press("Escape")
    await panel.get_by_role("button", name="Comment on line 3", exact=True).last.click()
    await panel.get_by_role("button", name="Comment on line 5", exact=True).last.click(modifiers=["Shift"])
    await panel.get_by_role("textbox", name="Comment on lines 3 to 5").fill("Why words?")
    await page.keyboard.press("Control+Enter")
    await page.reload()
    await expect(panel.get_by_text("Why words?")).to_be_visible()  # it waits, also over a reload
    await panel.get_by_role("button", name="Send 1 to the agent").click()
    await expect(page.locator("[data-item^='run:']").get_by_text("done")).to_be_visible()
    sent = (await api.get(f"/sessions/{session}/inputs")).json()["items"][-1]["input"]["text"]
    assert sent == "a.txt:3-5: Why words?\n> three\n> four\n> five"

    # one hunk is kept, the other is taken back
    await panel.get_by_role("checkbox", name="Keep the change at line 27").uncheck()
    await panel.get_by_role("button", name="Take back 1 part").click()
    await expect(panel.get_by_text("thirty")).to_have_count(0)
    kept = (await api.get(f"/sessions/{session}/files/a.txt")).text
    assert kept == changed.replace("thirty\n", "line 30\n")
    await panel.get_by_role("button", name="Show two columns").click()
    await expect(panel.get_by_text("four", exact=True)).to_be_visible()


async def test_work_is_proposed_afterwards_and_old_test_results_say_so(
    page: Page, up: Up, api: httpx.AsyncClient, tmp_path: Path
) -> None:
    body = {"repository": str(repository(tmp_path / "shop")), "prompt": "Make the failing test pass."}
    made = await api.post("/sessions", json={**body, "model": "scripted:demo"})
    session = made.json()["id"]
    await until_prepared(api, session)
    await page.goto(f"{up.url}/s/{session}?panel=tests")
    tests = page.get_by_role("region", name="Tests", exact=True)
    await expect(tests.get_by_text("2 passed · fixed 1")).to_be_visible()
    await expect(page.locator("[data-item^='run:']").get_by_text("done")).to_be_visible()
    await page.get_by_role("button", name="More actions").first.click()
    await page.get_by_role("menuitem", name="Propose the change").click()
    await expect(page.get_by_role("dialog").get_by_role("button", name="Propose")).to_be_focused()
    await page.keyboard.press("Enter")
    await expect(page.get_by_text("Change proposed: Drop accents")).to_be_visible()
    await page.keyboard.press("Control+k")
    await page.keyboard.type("merge")
    await expect(page.get_by_role("option").first).to_have_text("Review or merge the changeDo")
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("button", name="Merge", exact=True)).to_be_visible()
    await page.go_back()

    await write(api, session, "slugs.py", FILES["slugs.py"])  # the fault is back
    await expect(tests.get_by_text("not run since slugs.py changed")).to_be_visible()
    await tests.get_by_role("button", name="Run all").click()
    await expect(tests.get_by_text("1 failed, 1 passed · broke 1")).to_be_visible()
    await tests.get_by_role("button", name="test_accents_are_dropped", exact=True).click()  # 49
    await expect(page.locator("[data-tab='test_slugs.py']")).to_be_visible()
    await expect(page.locator(".cm-activeLine")).to_contain_text("assertEqual(slugify")
