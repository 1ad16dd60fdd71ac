"""People work in terminals, together and over cut connections."""

import re

import httpx
import pytest
from playwright.async_api import Browser, Dialog, Page, WebSocketRoute, expect

from tests.cli.hutch_up_process import Up
from tests.web.test_editing_together import logged_in_as, share
from tests.web.web_sessions import new_session

pytestmark = pytest.mark.anyio


async def open_terminal(page: Page, up: Up, session: str) -> None:
    """Open one, which has the focus then."""
    await page.goto(f"{up.url}/s/{session}?panel=terminal")
    await page.get_by_role("button", name="Open a terminal").last.click()
    await expect(page.locator(".xterm-rows")).to_contain_text("$")
    await expect(page.locator(".xterm-helper-textarea")).to_be_focused()


async def test_keys_reach_the_shell_text_of_programs_is_harmless_and_a_search_finds_it(
    page: Page, up: Up, api: httpx.AsyncClient
) -> None:
    await page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    session = await new_session(api)
    await open_terminal(page, up, session)
    rows = page.locator(".xterm-rows")
    await page.evaluate("navigator.clipboard.writeText('mine')")
    await page.keyboard.type(
        "printf '\\033]52;c;c3RvbGVu\\a'; seq 100 300; echo $((6*7))-end\n"
    )  # 48: "stolen"
    await expect(rows).to_contain_text("42-end")
    assert await page.evaluate("navigator.clipboard.readText()") == "mine"

    await page.keyboard.type("echo lost")
    await page.keyboard.press("Control+a")
    await page.keyboard.press("Control+k")  # 47: the line is deleted, no palette opens
    await page.keyboard.type("echo kept-$((1+1))\n")
    await expect(rows).to_contain_text("kept-2")
    await expect(page.get_by_role("dialog")).to_have_count(0)

    await page.keyboard.type("echo five-$((2+3))\n")
    await expect(rows).to_contain_text("five-5")
    await page.keyboard.press("Control+p")  # the shell's last line, and no list of files
    await page.keyboard.press("Enter")
    await expect(rows).to_contain_text(re.compile("five-5.*five-5", re.DOTALL))
    await page.keyboard.press("Control+r")  # a search in the shell's history, and no reload
    await page.keyboard.type("kept-")
    await expect(rows).to_contain_text("reverse-i-search")
    await page.keyboard.press("Enter")
    await expect(rows).to_contain_text(re.compile("five-5.*kept-2", re.DOTALL))
    await expect(page.get_by_role("dialog")).to_have_count(0)

    await page.keyboard.press("Control+Shift+F")
    field = page.get_by_label("Find in the terminal").last
    await field.fill("101")
    await page.keyboard.press("Enter")
    await expect(rows).to_contain_text("101")  # it was scrolled away
    await field.fill("nowhere at all")
    await expect(page.get_by_text("not found")).to_be_visible()
    await page.keyboard.press("Escape")
    await expect(page.locator(".xterm-helper-textarea")).to_be_focused()
    await page.keyboard.press("Shift+F6")  # after the last region F6 is the browser's
    await expect(page.locator(".xterm-helper-textarea")).not_to_be_focused()


async def test_no_byte_is_lost_or_doubled_when_the_socket_is_cut_in_mid_output(
    page: Page, up: Up, api: httpx.AsyncClient
) -> None:
    await page.add_init_script(
        "const Real = WebSocket; window.sockets = [];"
        "window.WebSocket = class extends Real { constructor(...all) { super(...all); sockets.push(this) } }"
    )
    session = await new_session(api)
    await open_terminal(page, up, session)
    await page.keyboard.type("clear; for i in $(seq 40); do echo part $i; sleep 0.1; done; echo e''nd\n")
    rows = page.locator(".xterm-rows")
    await expect(rows).to_contain_text("part 5")
    await page.evaluate("sockets.filter(each => each.url.includes('/terminals/')).at(-1).close(4000)")
    await expect(rows).to_contain_text("end")
    await page.keyboard.press("Control+Backquote")
    await page.get_by_role("button", name="Maximise or restore the panel").click()
    await expect(rows).to_contain_text("part 15")  # it is larger now
    lines = await rows.inner_text()
    shown = [line.strip() for line in lines.splitlines() if line.strip().startswith("part")]
    assert shown == [f"part {number}" for number in range(41 - len(shown), 41)] and len(shown) > 20


async def test_a_terminal_of_others_appears_and_unsent_keys_are_reported(
    page: Page, up: Up, api: httpx.AsyncClient
) -> None:
    sockets: list[WebSocketRoute] = []
    is_away = False

    async def route(socket: WebSocketRoute) -> None:
        if is_away:
            await socket.close()
            return
        socket.connect_to_server()
        sockets.append(socket)

    await page.route_web_socket("**/terminals/**", route)
    session = await new_session(api)
    await page.goto(f"{up.url}/s/{session}?panel=terminal")
    await expect(page.get_by_text("No terminal is open.")).to_be_visible()
    made = await api.post(f"/sessions/{session}/terminals", json={"columns": 80, "rows": 24})
    assert made.status_code == 201, made.text
    rows = page.locator(".xterm-rows")
    await expect(rows).to_contain_text("$")
    is_away = True
    await sockets.pop().close()
    await expect(page.get_by_text("Reconnecting")).to_be_visible()
    await page.locator(".xterm-helper-textarea").focus()
    await page.keyboard.type("x")
    told = page.get_by_text("Your keys are not sent while there is no connection.")
    await expect(told).to_be_visible()
    is_away = False
    await expect(told).to_have_count(0)
    await page.keyboard.type("echo $((40+2))\n")
    await expect(rows).to_contain_text("42")
    await expect(rows).not_to_contain_text("xecho")
    await page.keyboard.type("exit 3\n")
    await expect(page.get_by_text("Ended with 3")).to_be_visible()
    head = page.get_by_role("region", name="Terminal")
    await expect(head.get_by_role("button", name="Take over")).to_have_count(0)
    await head.get_by_role("button", name="Open a terminal").last.click()
    await expect(head.get_by_role("button", name="Terminal 2", exact=True)).to_be_visible()


async def test_a_terminal_that_a_limit_has_ended_names_it(page: Page, up: Up, api: httpx.AsyncClient) -> None:
    session = await new_session(api, resources={"file_bytes": 1024**2})
    await open_terminal(page, up, session)
    await page.keyboard.type("exec dd if=/dev/zero of=big bs=1M count=4\n")
    await expect(page.get_by_text("Stopped by the limit file_bytes 1 MiB")).to_be_visible()


async def test_keys_of_a_second_person_are_refused_visibly_and_either_can_take_over(
    page: Page, up: Up, browser: Browser, api: httpx.AsyncClient
) -> None:
    session = await new_session(api)
    await open_terminal(page, up, session)
    await page.keyboard.type("echo $((20+1))\n")
    await page.get_by_role("button", name="Take over").click()
    async with logged_in_as("dee", up, browser) as other:
        await share(api, session, "dee", "member")
        await other.goto(f"{up.url}/s/{session}?panel=terminal")
        await expect(other.locator(".xterm-rows")).to_contain_text("21")
        await other.locator(".xterm-helper-textarea").focus()
        await other.keyboard.type("x")
        region = other.get_by_role("region", name="Terminal")
        await expect(region.locator(".text-bad")).to_be_visible()  # why the key was not sent
        await region.get_by_role("button", name="Take over").click()
        await expect(region.get_by_text("you type")).to_be_visible()
        await expect(other.locator(".xterm-helper-textarea")).to_be_focused()
        await other.keyboard.type("echo $((40+2))\n")
        await expect(page.locator(".xterm-rows")).to_contain_text("42")
        await expect(page.get_by_text("dee types")).to_be_visible()
        await page.get_by_role("button", name="Take over").click()
        await expect(page.get_by_text("you type")).to_be_visible()


async def test_a_link_shows_its_real_target_before_it_opens(
    page: Page, up: Up, api: httpx.AsyncClient
) -> None:
    session = await new_session(api)
    await open_terminal(page, up, session)
    asked: list[str] = []

    async def dismiss(dialog: Dialog) -> None:
        asked.append(dialog.message)
        await dialog.dismiss()

    page.on("dialog", dismiss)
    lies = "printf '\\033]8;;{0}\\033\\\\{1}\\033]8;;\\033\\\\\\n'"
    await page.keyboard.type("clear\n")
    await page.keyboard.type(lies.format("https://evil.example/x", "good''.example/page") + "\n")
    await page.keyboard.type(lies.format("javascript:alert(1)", "run''.example/page") + "\n")
    rows = page.locator(".xterm-rows")
    link = rows.locator("span").get_by_text("good.example/page", exact=True)
    await expect(rows.get_by_text("run.example/page").last).to_be_visible()
    head = page.get_by_role("region", name="Terminal")
    await link.hover(force=True)
    await expect(head.get_by_text("https://evil.example/x", exact=True)).to_be_visible()
    await link.click(force=True)
    assert asked == []  # only with Ctrl
    await link.click(modifiers=["Control"], force=True)
    await expect(head.get_by_text("https://evil.example/x", exact=True)).to_be_visible()
    assert asked == ["Open this address in a new tab?\n\nhttps://evil.example/x"]
    await (
        rows.locator("span")
        .get_by_text("run.example/page", exact=True)
        .click(modifiers=["Control"], force=True)
    )
    await expect(head.get_by_text("https://evil.example/x", exact=True)).to_have_count(0)
    assert len(asked) == 1
    assert await page.locator("canvas").count() == 0  # 44: no graphics context that could be lost


async def test_many_lines_are_pasted_into_a_program_only_after_a_question(
    page: Page, up: Up, api: httpx.AsyncClient
) -> None:
    await page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    session = await new_session(api)
    await open_terminal(page, up, session)
    rows = page.locator(".xterm-rows")
    asked: list[str] = []

    async def dismiss(dialog: Dialog) -> None:
        asked.append(dialog.message)
        await dialog.dismiss()

    page.on("dialog", dismiss)
    await page.evaluate("navigator.clipboard.writeText('echo first\\necho second\\n')")
    await page.keyboard.press("Control+Shift+V")  # bash takes it as one text, and runs nothing yet
    await expect(rows).to_contain_text("echo second")
    assert asked == []
    await page.keyboard.press("Control+c")
    await page.keyboard.type("clear; cat\n")
    await expect(rows).not_to_contain_text("echo")
    async with page.expect_event("dialog"):  # the clipboard is read first
        await page.keyboard.press("Control+Shift+V")
    await page.keyboard.type("typed\n")
    await expect(rows).to_contain_text("typedtyped")
    assert asked == ["Paste 2 lines? This program runs each line as you paste it."]
