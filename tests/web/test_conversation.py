"""People read a long conversation, search it, and come back to where they were."""

from pathlib import Path

import httpx
import pytest
from playwright.async_api import Page, expect

from tests.cli.hutch_up_process import Up
from tests.web.web_sessions import cassette, new_session, write

pytestmark = pytest.mark.anyio

FINISH = {"calls": [{"tool": "finish", "args": {"title": "Done", "summary": "All is there."}}]}


async def test_search_finds_a_row_that_is_scrolled_away_and_a_reload_keeps_the_place(
    page: Page, up: Up, api: httpx.AsyncClient, tmp_path: Path
) -> None:
    def part(n: int) -> object:
        calls = [{"tool": "glob", "args": {"pattern": f"*{n}"}}]
        return {"text": f"Part {n}{' needle' if n == 3 else ''}.\n\n" + "Words. " * 60, "calls": calls}

    model = cassette(tmp_path, [*map(part, range(40)), FINISH])
    session = await new_session(api, prompt="Talk.", model=model)
    await page.goto(f"{up.url}/s/{session}")
    log = page.get_by_role("log")
    await expect(log.get_by_text("Part 39.")).to_be_in_viewport()
    await expect(page.locator("header").get_by_text("idle")).to_be_visible()
    await expect(log.get_by_text("needle")).to_have_count(0)  # not in the page
    composer = page.get_by_label("Message to the agent")
    await composer.click()
    await page.keyboard.press("Control+f")
    await page.keyboard.type("needle")
    await expect(page.get_by_text("1 found")).to_be_visible()
    await page.keyboard.press("Enter")
    await expect(log.get_by_text("needle")).to_be_in_viewport()
    await page.keyboard.press("Escape")
    await expect(composer).to_be_focused()
    await expect(log.get_by_text("needle")).to_be_in_viewport()

    row = log.get_by_text("Part 3 needle.")
    top = "element => Math.round(element.getBoundingClientRect().top)"
    before = await row.evaluate(top)

    async def is_at_the_same_height() -> None:
        await expect(row).to_be_in_viewport()
        await page.wait_for_function(
            "([text, top]) => [...document.querySelectorAll('[role=log] p')].some(each => "
            "each.textContent === text && Math.abs(each.getBoundingClientRect().top - top) <= 2)",
            arg=["Part 3 needle.", before],
        )

    await page.reload()
    await is_at_the_same_height()
    await page.get_by_role("navigation", name="Main").get_by_role("link", name="Home").click()
    await expect(page.get_by_role("searchbox")).to_be_visible()
    await page.go_back()
    await is_at_the_same_height()


async def test_a_message_waits_for_the_next_step_and_a_prompt_is_taken_back_and_edited(
    page: Page, up: Up, api: httpx.AsyncClient, tmp_path: Path
) -> None:
    asks = {
        "calls": [
            {"tool": "bash", "args": {"command": "until test -e go; do sleep 0.1; done", "timeout_s": 600}}
        ]
    }
    model = cassette(tmp_path, [asks, FINISH, FINISH])
    session = await new_session(api, prompt="Wait.", model=model, files={"a.txt": "a\n"})
    await page.goto(f"{up.url}/s/{session}")
    await expect(page.get_by_role("button", name="until test -e go")).to_be_visible()
    composer = page.get_by_label("Message to the agent")
    await composer.fill("Use tabs.")
    await page.keyboard.press("Enter")
    await composer.fill("Then write notes.")
    await page.keyboard.press("Control+Enter")
    tray = page.get_by_role("list", name="Sent and waiting")
    await expect(tray.get_by_text("Use tabs.")).to_be_visible()
    await tray.get_by_role("listitem").filter(has_text="Then write notes.").get_by_role("button").click()
    await expect(composer).to_have_value("Then write notes.")
    await composer.press("Control+Enter")
    await expect(tray.get_by_text("Then write notes.")).to_be_visible()
    await composer.press("ArrowUp")  # in an empty field
    await expect(composer).to_have_value("Then write notes.")
    await composer.fill("Then write more notes.")
    await composer.press("Control+Enter")
    await expect(tray.get_by_text("Then write more notes.")).to_be_visible()
    await write(api, session, "go", "")
    await expect(page.locator("[data-item^='run:']").get_by_text("done")).to_have_count(2)
    await expect(page.get_by_role("log").get_by_text("Use tabs.")).to_be_visible()
    runs = (await api.get(f"/sessions/{session}/runs")).json()["items"]
    assert [(each["prompt"], each["outcome"]) for each in runs] == [
        ("Then write more notes.", "done"),
        ("Then write notes.", "cancelled"),
        ("Then write notes.", "cancelled"),
        ("Wait.", "done"),
    ]


async def test_a_question_with_choices_is_answered_by_a_button(
    page: Page, up: Up, api: httpx.AsyncClient, tmp_path: Path
) -> None:
    args = {"question": "Which storage?", "choices": ["SQLite", "PostgreSQL"]}
    asks = {"calls": [{"tool": "ask_user", "args": args}]}
    session = await new_session(api, prompt="Ask.", model=cassette(tmp_path, [asks, FINISH]))
    await page.goto(f"{up.url}/s/{session}")
    await expect(page.get_by_role("button", name="PostgreSQL")).to_be_visible()
    await expect(page.locator("[data-pinned]")).to_have_count(0)  # its row is in sight
    await page.get_by_role("button", name="PostgreSQL").click()
    await expect(page.get_by_text(": PostgreSQL")).to_be_visible()


async def test_a_reader_at_the_end_stays_there_and_an_opened_row_stays_open(
    page: Page, up: Up, api: httpx.AsyncClient, tmp_path: Path
) -> None:
    def part(n: int) -> object:
        calls = [{"tool": "bash", "args": {"command": f"echo printed-{n}"}}]
        return {"text": f"Part {n}.\n\n" + "Words. " * 60, "calls": calls}

    asks = {"calls": [{"tool": "ask_user", "args": {"question": "Go on?"}}]}
    whole = "".join(f"line {number}\n" for number in range(400))
    writes = {"calls": [{"tool": "write_file", "args": {"path": "long.txt", "content": whole}}]}
    talks = {"text": "token " * 2000 + "last", "pace_s": 0.001}
    model = cassette(tmp_path, [*map(part, range(20)), asks, writes, talks])
    session = await new_session(api, prompt="Talk.", model=model)
    await page.goto(f"{up.url}/s/{session}")
    log = page.get_by_role("log")
    await expect(page.get_by_label("Your answer")).to_be_visible()
    row = log.get_by_role("button", name="echo printed-19")
    await row.click()  # 10
    output = log.locator("pre").get_by_text("printed-19", exact=True)
    await expect(output).to_be_visible()
    await log.evaluate("element => { element.scrollTop = 0; }")
    await expect(row).to_have_count(0)  # not in the page
    await page.get_by_role("button", name="To the end").click()
    await expect(output).to_be_in_viewport()

    # 8: at each frame the end is in view, while a diff opens and 2,000 tokens arrive
    await page.evaluate(
        """() => {
            window.furthest = 0;
            const log = document.querySelector('[role=log]');
            const look = () => {
                const below = log.scrollHeight - log.scrollTop - log.clientHeight;
                window.below = below;
                window.isAway = below > 64 ? (window.isAway ?? 0) + 1 : 0;
                window.furthest = Math.max(window.furthest, window.isAway);
                requestAnimationFrame(look);
            };
            look();
        }"""
    )
    await page.get_by_label("Your answer").fill("Yes.")
    await page.keyboard.press("Enter")
    await expect(page.locator("header").get_by_text("idle")).to_be_visible()
    await expect(log.get_by_text("token last")).to_be_attached()
    await page.wait_for_function("() => window.below < 64")
    assert await page.evaluate("furthest") <= 10  # frames in a row
    await log.get_by_role("button", name="long.txt").click()
    await expect(log.get_by_text("line 399")).to_be_attached()
