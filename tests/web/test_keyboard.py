"""Everything by keyboard: regions, panels, keys that can be switched off; and little speech and motion."""

from itertools import pairwise
from pathlib import Path

import httpx
import pytest
from playwright.async_api import Page, expect

from tests.cli.hutch_up_process import Up
from tests.web.web_sessions import cassette, new_session

pytestmark = pytest.mark.anyio

FINISH = {"calls": [{"tool": "finish", "args": {"title": "Done", "summary": "All is there."}}]}
REGION = "document.activeElement.closest('section[aria-label], nav')?.getAttribute('aria-label') ?? ''"
HAS_RING = """() => {
    for (let each = document.activeElement; each && each !== document.body; each = each.parentElement) {
        const style = getComputedStyle(each);
        if (style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) > 0) return true;
        if (getComputedStyle(each, '::after').borderTopWidth === '2px') return true; // above an editor
        if (each.matches('[role=separator]')) return true; // it takes the colour of the accent
    }
    return false;
}"""
SPEECH = """() => {
    window.spoken = [];
    const listen = (element) => {
        let before = element.textContent;
        new MutationObserver(() => {
            const text = element.textContent;
            if (text && text !== before) spoken.push([performance.now(), element.ariaLive, text]);
            before = text;
        }).observe(element, { subtree: true, childList: true, characterData: true });
    };
    document.querySelectorAll('[aria-live]:not([aria-live=off])').forEach(listen);
}"""


async def test_f6_and_tab_reach_and_leave_every_region_with_a_visible_ring(
    page: Page, up: Up, api: httpx.AsyncClient
) -> None:
    session = await new_session(api)
    await page.goto(f"{up.url}/s/{session}?file=slugs.py&panel=terminal")
    await expect(page.locator(".cm-content")).to_be_visible()
    await page.get_by_role("button", name="Open a terminal").last.click()
    await expect(page.locator(".xterm-helper-textarea")).to_be_focused()
    found = ["Terminal"]
    for _ in range(4):  # backwards, out of the terminal
        await page.keyboard.press("Shift+F6")
        found.append(await page.evaluate(REGION))
        await page.wait_for_function(HAS_RING)
    assert found == ["Terminal", "Editor", "Files", "Conversation", "Main"]
    for expected in ("Conversation", "Files", "Editor", "Terminal"):
        await page.keyboard.press("F6")
        assert await page.evaluate(REGION) == expected
    await page.locator(".cm-content").focus()
    await page.keyboard.press("Escape")
    await page.keyboard.press("Tab")  # Tab alone indents
    await expect(page.locator(".cm-content")).not_to_be_focused()
    await page.evaluate("document.activeElement.blur()")
    skip = page.get_by_role("button", name="Skip to the message field")
    await skip.focus()
    await expect(skip).to_be_in_viewport()
    await page.keyboard.press("Enter")
    await expect(page.get_by_label("Message to the agent")).to_be_focused()
    seen = set()
    for _ in range(60):  # Tab gets from the conversation to the panels, and is held nowhere before the editor
        await page.keyboard.press("Tab")
        await page.wait_for_function(HAS_RING)
        seen.add(await page.evaluate(REGION))
        if await page.evaluate("document.activeElement.matches('.cm-content')"):
            await page.keyboard.press("Escape")
        if "Terminal" in seen or await page.evaluate("document.activeElement.matches('[role=tab]')"):
            break
    assert {"Files", "Editor"} <= seen


async def test_panels_collapse_and_a_reload_keeps_them_so(page: Page, up: Up, api: httpx.AsyncClient) -> None:
    session = await new_session(api)
    await page.goto(f"{up.url}/s/{session}?panel=log")
    log, files = page.get_by_role("region", name="Log"), page.get_by_role("region", name="Files")
    await expect(log).to_be_visible()
    await page.get_by_role("button", name="Collapse the panel").click()
    await page.keyboard.press("Control+b")
    await expect(files).to_have_count(0)
    await expect(log).to_be_hidden()
    await page.reload()
    await expect(page.get_by_role("button", name="Show the files")).to_be_visible()
    await expect(log).to_be_hidden()
    await page.keyboard.press("Control+j")
    await page.keyboard.press("l")
    await expect(log).to_be_visible()
    await page.get_by_role("button", name="Show the files").click()
    await expect(files).to_be_visible()
    await page.get_by_role("separator", name="Height of the panel").focus()
    await page.keyboard.press("Enter")
    await expect(log).to_be_hidden()
    await page.get_by_role("tab", name="Log").click()
    await expect(log).to_be_visible()
    await page.keyboard.press("Control+p")  # a file of the palette leaves the panel as it is
    await page.keyboard.type("test_slugs")
    await expect(page.get_by_role("option").first).to_contain_text("test_slugs.py")
    await page.keyboard.press("Enter")
    await expect(page.locator("[data-tab='test_slugs.py']")).to_be_visible()
    await expect(log).to_be_visible()


async def test_keys_of_one_character_can_be_switched_off(page: Page, up: Up) -> None:
    await page.goto(f"{up.url}/settings/you")
    choice = page.get_by_label("Use keys without Ctrl")
    await expect(choice).to_be_checked()
    await choice.uncheck()
    await page.goto(up.url)
    await expect(page.get_by_role("searchbox")).to_be_visible()
    for key in ("?", "c", "/"):
        await page.keyboard.press(key)
    await expect(page.get_by_role("dialog")).to_have_count(0)
    await expect(page.get_by_role("searchbox")).not_to_be_focused()
    await page.keyboard.press("Control+k")
    await expect(page.get_by_role("dialog")).to_be_visible()
    await page.keyboard.press("Escape")
    await page.goto(f"{up.url}/settings/you")
    await choice.check()
    await page.goto(up.url)
    await expect(page.get_by_role("searchbox")).to_be_visible()
    await page.keyboard.press("?")
    await expect(page.get_by_role("dialog", name="Keys")).to_be_visible()


async def test_a_palette_that_replaces_another_one_gets_all_keys(page: Page, up: Up) -> None:
    """The first one gives the focus back after the second one has taken it."""
    await page.goto(up.url)
    search = page.get_by_role("searchbox")
    await expect(search).to_be_visible()
    await search.focus()
    await page.keyboard.press("Control+k")
    words = page.get_by_role("dialog").get_by_role("combobox")
    await expect(words).to_be_focused()
    await page.evaluate("""async () => {
        const press = (more) => document.activeElement.dispatchEvent(
            new KeyboardEvent("keydown", { bubbles: true, cancelable: true, ...more }));
        press({ key: "Escape", code: "Escape" });
        for (let i = 0; i < 20; i++) await Promise.resolve(); // React removes the first one, no timer fires
        press({ key: "k", code: "KeyK", ctrlKey: true });
    }""")
    await page.keyboard.type("settings")
    await expect(words).to_have_value("settings")
    await page.keyboard.press("Escape")
    await expect(page.get_by_role("dialog")).to_have_count(0)


async def test_a_run_is_announced_in_few_sentences_and_only_the_dot_is_animated(
    page: Page, up: Up, api: httpx.AsyncClient, tmp_path: Path
) -> None:
    def part(number: int) -> object:
        calls = [{"tool": "bash", "args": {"command": f"sleep 0.2; echo {number}"}}]
        return {"text": "Words of the model. " * 20, "pace_s": 0.01, "calls": calls}

    await page.emulate_media(reduced_motion="reduce")
    session = await new_session(api, model=cassette(tmp_path, [*map(part, range(8)), FINISH]))
    await page.goto(f"{up.url}/s/{session}")
    await expect(page.get_by_role("region", name="Files").get_by_text("slugs.py").first).to_be_visible()
    await page.evaluate(SPEECH)
    await page.get_by_label("Message to the agent").fill("Go.")
    await page.keyboard.press("Enter")
    await expect(page.get_by_text("echo 5")).to_be_visible()
    moving = await page.evaluate(
        "document.getAnimations().filter(each => each.effect.getComputedTiming().duration > 0)"
        ".map(each => each.effect.target.getAttribute('class'))"
    )
    assert [each for each in moving if "dot-running" not in each] == []
    await expect(page.locator("header").get_by_text("idle")).to_be_visible()
    await page.wait_for_function("() => spoken.some(([, , text]) => text.startsWith('done'))")
    spoken = await page.evaluate("spoken")
    assert spoken != [] and not any("Words of the model" in text for _, _, text in spoken)
    gaps = [later[0] - earlier[0] for earlier, later in pairwise(spoken)]
    assert [gap for gap in gaps if gap < 1900] == []


async def test_keys_go_from_row_to_row_of_the_conversation_and_open_them(
    page: Page, up: Up, api: httpx.AsyncClient, tmp_path: Path
) -> None:
    def part(number: int) -> object:
        return {"calls": [{"tool": "bash", "args": {"command": f"echo row-{number}"}}]}

    writes = {"calls": [{"tool": "write_file", "args": {"path": "new.txt", "content": "text\n"}}]}
    model = cassette(tmp_path, [*map(part, range(60)), writes, FINISH])
    session = await new_session(api, files={"a.txt": "a\n"}, prompt="Go.", model=model)
    await page.goto(f"{up.url}/s/{session}")
    log = page.get_by_role("log")
    await expect(page.locator("header").get_by_text("idle")).to_be_visible()
    await expect(log.get_by_role("button", name="new.txt")).to_be_visible()
    focused = log.locator("[data-index]:focus")
    await page.keyboard.press("PageUp")  # scrolls: no row has the focus
    await page.keyboard.press("k")
    await expect(focused).to_contain_text("Done")
    await page.keyboard.press("k")
    await expect(focused).to_contain_text("new.txt")
    await page.wait_for_function(HAS_RING)
    row = log.get_by_role("button", name="new.txt")
    await page.keyboard.press("ArrowRight")
    await expect(row).to_have_attribute("aria-expanded", "true")
    await page.keyboard.press("ArrowLeft")
    await expect(row).to_have_attribute("aria-expanded", "false")
    await page.keyboard.press("o")
    await expect(page.locator("[data-tab='new.txt']")).to_be_visible()
    await page.keyboard.press("PageUp")
    await expect(focused).to_contain_text("Go.")  # the prompt, far above
    await page.keyboard.press("ArrowDown")
    await page.keyboard.press("j")
    await page.keyboard.press("j")
    await expect(focused).to_contain_text("row-")
    await page.get_by_label("Message to the agent").fill("")
    await page.keyboard.type("jkoy")  # a field has the focus
    await expect(page.get_by_label("Message to the agent")).to_have_value("jkoy")


async def test_files_of_the_editor_are_walked_and_closed_by_keys(
    page: Page, up: Up, api: httpx.AsyncClient
) -> None:
    session = await new_session(api, files=dict.fromkeys(["a.txt", "b.txt", "c.txt"], "text\n"))
    await page.goto(f"{up.url}/s/{session}")
    tabs = page.locator("[data-tab]")
    for count, name in enumerate(("a.txt", "b.txt", "c.txt"), start=1):
        await page.get_by_role("treeitem", name=name).dblclick()
        await expect(tabs).to_have_count(count)
        await page.locator(f"[data-tab='{name}']").dblclick()  # it stays open

    async def press(key: str) -> None:
        await page.keyboard.press("Control+j")
        await page.keyboard.press(key)

    shown = page.locator("[data-tab] [aria-pressed=true]")
    await expect(shown).to_have_text("c.txt")
    await press("]")
    await expect(shown).to_have_text("a.txt")
    await expect(page.locator(".cm-content")).to_be_focused()
    await press("[")
    await expect(shown).to_have_text("c.txt")
    await expect(page.locator(".cm-content")).to_be_focused()
    await press("w")
    await expect(tabs).to_have_count(2)
    await expect(page.locator(".cm-content")).to_be_focused()
    assert (await api.get(f"/sessions/{session}/files/a.txt")).text == "text\n"  # no key was typed
    await page.get_by_role("button", name="Close b.txt").click()
    await expect(tabs).to_have_count(1)
    await expect(shown).to_be_focused()
