"""The agent writes into open files while people type in them."""

import re
from pathlib import Path

import httpx
import pytest
from playwright.async_api import Page, expect

from tests.cli.hutch_up_process import Up
from tests.deadline import DEADLINE_S
from tests.web.web_sessions import cassette, new_session

pytestmark = pytest.mark.anyio

FINISH = {"calls": [{"tool": "finish", "args": {"title": "Done", "summary": "All is there."}}]}
TEXT = "".join(f"line {number}\n" for number in range(1, 41))
ADDED = "".join(f"written by the agent, part {number}\n" for number in range(12))


def edit(path: str, old: str, new: str, pace_s: float = 0.0) -> object:
    return {
        "pace_s": pace_s,
        "calls": [{"tool": "edit_file", "args": {"path": path, "edits": [{"old": old, "new": new}]}}],
    }


async def prompt(api: httpx.AsyncClient, session: str, model: str) -> None:
    await api.patch(f"/sessions/{session}", json={"model": model})
    answer = await api.post(f"/sessions/{session}/inputs", json={"type": "prompt", "text": "Write."})
    assert answer.status_code == 202, answer.text


async def test_a_person_types_while_the_agent_streams_into_the_same_file(
    page: Page, up: Up, api: httpx.AsyncClient, tmp_path: Path
) -> None:
    session = await new_session(api, files={"notes.txt": TEXT})
    await page.goto(f"{up.url}/s/{session}?file=notes.txt")
    editor = page.locator(".cm-content")
    await editor.click()
    await page.keyboard.press("Control+Home")
    await page.keyboard.press("ArrowDown")
    slow = edit("notes.txt", "line 30\n", f"line 30\n{ADDED}", pace_s=0.12)
    await prompt(api, session, cassette(tmp_path, [slow, FINISH]))
    await editor.evaluate("element => { element.closest('.cm-scroller').scrollTop = 400 }")
    await expect(page.locator(".agent-ghost")).to_contain_text("part 1")
    flag = page.locator(".agent-flag")
    await expect(flag).to_have_attribute("data-name", "engineer")
    typed = "typed by a person, beside the agent. " * 6
    for word in re.findall(r"\S+\s", typed):
        await page.keyboard.type(word)
    assert len(typed) > 200
    await expect(page.locator("[data-item^='run:']").get_by_text("done")).to_be_visible()
    await expect(page.locator(".agent-ghost")).to_have_count(0)
    await page.keyboard.type("!")  # the caret is where it was
    await page.keyboard.press("Control+s")
    await expect(page.locator("[data-tab='notes.txt']").get_by_text("✓")).to_be_visible()
    whole = TEXT.replace("line 30\n", f"line 30\n{ADDED}").replace("line 2\n", f"{typed}!line 2\n")
    assert (await api.get(f"/sessions/{session}/files/notes.txt")).text == whole

    await page.keyboard.press("Control+z")  # 34: only one's own text
    await expect(editor).to_contain_text("part 11")
    # Typed quickly, all of the person's text is one step.
    await page.keyboard.press("Control+y")
    await expect(editor).to_contain_text("typed by a person")
    await page.keyboard.press("Control+s")
    await expect(page.locator("[data-tab='notes.txt']").get_by_text("✓")).to_be_visible()

    # 35: reject this edit leaves the person's line
    row = page.locator("[data-item^='call:']").filter(has_text="notes.txt")
    await row.get_by_role("button", name="notes.txt").first.click()
    await row.get_by_role("button", name="Reject this edit").click()
    await expect(row.get_by_text("rejected")).to_be_visible()
    await expect(editor).not_to_contain_text("part 1")
    kept = (await api.get(f"/sessions/{session}/files/notes.txt")).text
    assert "written by the agent" not in kept and "typed by a person" in kept


async def test_following_keeps_the_focus_and_ends_when_the_person_scrolls(
    page: Page, up: Up, api: httpx.AsyncClient, tmp_path: Path
) -> None:
    names = [f"part{number}.txt" for number in range(5)]
    session = await new_session(api, files=dict.fromkeys(names, TEXT))
    await page.goto(f"{up.url}/s/{session}")
    composer = page.get_by_label("Message to the agent")
    await composer.click()
    await page.evaluate(
        "window.shown = new Set(); window.focused = [];"
        "document.addEventListener('focusin', event => focused.push(event.target.outerHTML));"
        "new MutationObserver(() => document.querySelectorAll('[data-tab]').forEach("
        "each => shown.add(each.dataset.tab))).observe(document.body, { subtree: true, childList: true })"
    )
    writes = [edit(name, "line 20\n", ADDED, pace_s=0.03) for name in names]
    asks = {"calls": [{"tool": "ask_user", "args": {"question": "Go on?"}}]}
    model = cassette(tmp_path, [*writes, asks, *(edit(name, "line 30\n", ADDED) for name in names), FINISH])
    await prompt(api, session, model)
    await expect(page.get_by_label("Your answer")).to_be_visible()
    await expect(page.locator("[data-tab='part4.txt']")).to_be_visible()
    await expect(composer).to_be_focused()
    assert await page.evaluate("focused") == []
    assert len(await page.evaluate("[...shown]")) > 1  # it went from file to file
    await expect(page.locator("[data-tab]")).to_have_count(1)  # the files came in one preview tab
    follow = page.get_by_role("button", name="Following")
    await expect(follow).to_have_attribute("aria-pressed", "true")
    await page.locator(".cm-content").hover()
    await page.mouse.wheel(0, 200)
    await page.get_by_role("button", name="Follow the agent").click()  # 37: it returns to following
    await expect(follow).to_have_attribute("aria-pressed", "true")
    await page.locator(".cm-content").hover()
    await page.mouse.wheel(0, 200)
    await expect(page.get_by_role("button", name="Follow the agent")).to_be_visible()
    await page.get_by_label("Your answer").fill("Yes.")
    await page.keyboard.press("Enter")
    await expect(page.locator("[data-item^='run:']").get_by_text("done")).to_be_visible()
    await expect(page.locator("[data-tab='part4.txt']")).to_be_visible()  # it stayed


async def test_a_reply_is_whole_after_a_reload_in_its_middle(
    page: Page, up: Up, api: httpx.AsyncClient, tmp_path: Path
) -> None:
    words = [f"word{number}" for number in range(int(DEADLINE_S / 0.1) + 100)]  # longer than any wait below
    session = await new_session(api)
    await page.goto(f"{up.url}/s/{session}")
    await prompt(api, session, cassette(tmp_path, [{"text": " ".join(words), "pace_s": 0.1}]))
    log = page.get_by_role("log")
    await expect(log).to_contain_text("word20 ")
    await page.reload()
    await expect(log).to_contain_text(" ".join(words[:80]))
    await expect(log).not_to_contain_text(words[-1])  # the model is still writing


async def test_a_reply_that_breaks_off_and_is_streamed_again_is_never_shown_twice(
    page: Page, up: Up, api: httpx.AsyncClient, tmp_path: Path
) -> None:
    text = "Once only. " + " ".join(f"word{number}" for number in range(60))
    broken = {"text": text, "pace_s": 0.1, "fault": {"kind": "cut"}}
    session = await new_session(api)
    await page.goto(f"{up.url}/s/{session}")
    await page.evaluate(
        """() => {
            window.most = 0;
            const count = () => document.body.innerText.split("Once only").length - 1;
            new MutationObserver(() => { window.most = Math.max(window.most, count()); })
                .observe(document.body, { subtree: true, childList: true, characterData: true });
        }"""
    )
    await prompt(api, session, cassette(tmp_path, [broken, {"text": text, "pace_s": 0.1}]))
    log = page.get_by_role("log")
    await expect(log).to_contain_text("word5 ")
    await expect(log).to_contain_text("word59")  # only the second time
    assert await page.evaluate("window.most") == 1


async def test_write_file_does_not_replace_what_a_person_has_typed_unless_the_agent_has_read_it(
    page: Page, up: Up, api: httpx.AsyncClient, tmp_path: Path
) -> None:
    session = await new_session(api, files={"notes.txt": TEXT, "other.txt": TEXT})
    await page.goto(f"{up.url}/s/{session}?file=notes.txt")
    await page.locator(".cm-content").click()
    await page.keyboard.type("typed by a person ")
    await page.keyboard.press("Control+s")
    await expect(page.locator("[data-tab='notes.txt']").get_by_text("✓")).to_be_visible()

    def call(path: str) -> object:
        return {"calls": [{"tool": "write_file", "args": {"path": path, "content": "new\n"}}]}

    await prompt(api, session, cassette(tmp_path, [call("notes.txt"), call("other.txt"), FINISH]))
    await expect(page.locator("[data-item^='run:']").get_by_text("done")).to_be_visible()
    await expect(
        page.get_by_role("log").get_by_text("changes of a person that you have not read")
    ).to_be_visible()
    assert "typed by a person" in (await api.get(f"/sessions/{session}/files/notes.txt")).text
    assert (await api.get(f"/sessions/{session}/files/other.txt")).text == "new\n"
