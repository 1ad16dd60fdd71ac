"""The message field: drafts, input methods, the key Escape, and long pastes."""

from pathlib import Path

import httpx
import pytest
from playwright.async_api import Page, expect

from tests.cli.hutch_up_process import Up
from tests.web.test_editing_together import crash
from tests.web.web_sessions import cassette, new_session

pytestmark = pytest.mark.anyio

FINISH = {"calls": [{"tool": "finish", "args": {"title": "Done", "summary": "All is there."}}]}
WAITS = {
    "calls": [{"tool": "bash", "args": {"command": "until test -e go; do sleep 0.1; done", "timeout_s": 600}}]
}
STORED = (
    "name => Object.entries(localStorage).some(([key, text]) => key.includes(name) && text.includes('Do'))"
)


async def test_a_draft_survives_a_reload_a_crash_and_is_in_a_second_tab(
    page: Page, up: Up, api: httpx.AsyncClient
) -> None:
    session = await new_session(api)
    address = f"{up.url}/s/{session}"
    await page.goto(address)
    composer = page.get_by_label("Message to the agent")
    await composer.fill("Do this")
    await page.wait_for_function(STORED, arg=session)
    await page.reload()
    await expect(composer).to_have_value("Do this")
    second = await page.context.new_page()
    await second.goto(address)
    await expect(second.get_by_label("Message to the agent")).to_have_value("Do this")
    await second.get_by_label("Message to the agent").fill("Do that\ntoo")
    await expect(composer).to_have_value("Do that\ntoo")
    await second.wait_for_function(STORED, arg=session)
    await crash(second)
    third = await page.context.new_page()
    await third.goto(address)
    await expect(third.get_by_label("Message to the agent")).to_have_value("Do that\ntoo")
    await third.close()


async def test_enter_of_an_input_method_commits_its_text_and_sends_nothing(
    page: Page, up: Up, api: httpx.AsyncClient
) -> None:
    session = await new_session(api)
    await page.goto(f"{up.url}/s/{session}")
    composer = page.get_by_label("Message to the agent")
    await composer.click()
    cdp = await page.context.new_cdp_session(page)
    await cdp.send("Input.imeSetComposition", {"text": "日本", "selectionStart": 2, "selectionEnd": 2})
    key = {"key": "Enter", "code": "Enter", "windowsVirtualKeyCode": 229}
    await cdp.send("Input.dispatchKeyEvent", {"type": "rawKeyDown", **key})
    await cdp.send("Input.insertText", {"text": "日本"})
    await expect(composer).to_have_value("日本")
    assert (await api.get(f"/sessions/{session}/inputs")).json()["items"] == []


async def test_escape_closes_the_list_of_files_first_and_stops_a_run_when_pressed_twice(
    page: Page, up: Up, api: httpx.AsyncClient, tmp_path: Path
) -> None:
    session = await new_session(api, prompt="Wait.", model=cassette(tmp_path, [WAITS, FINISH]))
    await page.clock.install()
    await page.goto(f"{up.url}/s/{session}")
    await expect(page.get_by_role("button", name="until test -e go")).to_be_visible()
    composer = page.get_by_label("Message to the agent")
    await composer.click()
    await page.keyboard.type("See @slu")
    files = page.get_by_role("listbox")
    await expect(files.get_by_role("option").first).to_be_visible()
    await page.keyboard.press("Escape")
    await expect(files).to_have_count(0)
    await expect(page.get_by_text("Press Esc again to stop the run")).to_have_count(0)
    await page.keyboard.press("Backspace")
    await expect(files.get_by_role("option", name="slugs.py", exact=True)).to_be_visible()
    await page.keyboard.press("Enter")
    await expect(composer).to_have_value("See @slugs.py ")
    await composer.fill("/te")
    await expect(files.get_by_role("option", name="/tests")).to_be_visible()
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("tab", name="Tests")).to_have_attribute("aria-selected", "true")

    run = page.locator("[data-item^='run:']")
    await composer.click()
    # The second key counts for 1.5 s: the page's clock stands until it was pressed.
    await page.clock.pause_at(await page.evaluate("Date.now() / 1000") + 20)
    await page.keyboard.press("Escape")
    await expect(page.get_by_text("Press Esc again to stop the run")).to_be_visible()
    await expect(run.get_by_text("running")).to_be_visible()
    await page.keyboard.press("Escape")
    await page.clock.resume()
    await expect(run.get_by_text("stopped")).to_be_visible()


async def test_a_long_paste_is_one_line_that_can_be_read_removed_and_is_sent_whole(
    page: Page, up: Up, api: httpx.AsyncClient, tmp_path: Path
) -> None:
    await page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    session = await new_session(api, model=cassette(tmp_path, [FINISH]))
    await page.goto(f"{up.url}/s/{session}")
    composer = page.get_by_label("Message to the agent")
    await composer.fill("Explain this log.")
    log = "\n".join(f"line {number} of a log" for number in range(6000))
    assert len(log) > 100_000

    async def paste(text: str) -> None:
        await page.evaluate("text => navigator.clipboard.writeText(text)", text)
        await composer.focus()
        await page.keyboard.press("Control+v")

    chips = page.get_by_role("list", name="Pasted texts").get_by_role("listitem")
    await paste(log)
    await paste("x" * 3000)
    await expect(chips).to_have_count(2)
    await expect(composer).to_have_value("Explain this log.")
    await page.get_by_role("button", name="Remove pasted text 2").click()
    await chips.get_by_role("button", name="Pasted text, 6,000 lines").click()
    await expect(page.get_by_text("line 17 of a log")).to_be_visible()
    await page.reload()
    await expect(chips).to_have_count(1)
    await composer.focus()
    await page.keyboard.press("Enter")
    await expect(page.locator("[data-item^='run:']").get_by_text("done")).to_be_visible()
    await expect(chips).to_have_count(0)
    sent = (await api.get(f"/sessions/{session}/inputs")).json()["items"]
    assert [each["input"]["text"] for each in sent] == [f"Explain this log.\n\n{log}"]
    prompt = page.get_by_role("log").get_by_role("article")
    await expect(prompt).not_to_contain_text("line 5999")  # folded
    await prompt.get_by_role("button", name="Show all").click()
    await expect(prompt).to_contain_text("line 5999")
