"""People work in the page of a session, in a real browser."""

import asyncio
import json
import re
from pathlib import Path

import httpx
import pytest
from playwright.async_api import BrowserContext, Page, Route, WebSocketRoute, expect

from tests.cli.hutch_up_process import Up
from tests.deadline import DEADLINE_S
from tests.web.web_sessions import FILES, cassette, new_session

pytestmark = pytest.mark.anyio

PUSH = {"text": "Ready.", "calls": [{"tool": "bash", "args": {"command": "echo pushed"}}]}
FINISH = {"calls": [{"tool": "finish", "args": {"title": "Pushed it", "summary": "All is there."}}]}
HOSTILE = (
    "# Title\n\n<img src=//evil.example/a.png onerror=alert(1)> [click](javascript:alert(1)) "
    "![pixel](https://evil.example/b.png) [safe](https://evil.example/page)\n\n<script>alert(1)</script>\n\n"
    "- [ ] to do"
)
SCROLL_ENDS = (
    "each => each.addEventListener('scrollend', () => { window.hasScrolled = true; }, { once: true })"
)


async def test_the_sample_becomes_a_tested_change_by_keyboard_only(page: Page, up: Up) -> None:
    await page.goto(up.url)
    await expect(page.get_by_role("button", name="New session").first).to_be_visible()
    await page.keyboard.press("c")
    await page.get_by_role("radio", name="Sample with one failing test").focus()
    await page.keyboard.press("Space")
    await page.keyboard.press("Enter")
    await page.keyboard.press("Control+Enter")
    await expect(page.get_by_role("button", name="2 passed · fixed 1")).to_be_visible()
    await expect(page.locator("[data-item^='run:']").get_by_text("done")).to_be_visible()


async def test_a_failed_command_opens_itself_and_a_passing_one_does_not(
    page: Page, up: Up, api: httpx.AsyncClient, tmp_path: Path
) -> None:
    calls = [{"tool": "bash", "args": {"command": line}} for line in ("echo fine", "seq 200; false")]
    model = cassette(tmp_path, [{"calls": calls}, FINISH])
    session = await new_session(api, prompt="Try.", model=model)
    await page.goto(f"{up.url}/s/{session}")
    await expect(page.get_by_role("button", name="seq 200; false exit 1")).to_have_attribute(
        "aria-expanded", "true"
    )
    output = page.locator("pre").filter(has_text="199")  # its end says why, so that is shown
    assert await output.evaluate("each => each.scrollTop + each.clientHeight > each.scrollHeight - 2")
    await expect(page.get_by_role("button", name=re.compile("^echo fine"))).to_have_attribute(
        "aria-expanded", "false"
    )


async def test_keys_typed_while_a_card_appears_approve_nothing(
    page: Page, up: Up, api: httpx.AsyncClient, tmp_path: Path
) -> None:
    session = await new_session(api)
    await page.goto(f"{up.url}/s/{session}")
    composer = page.get_by_label("Message to the agent")
    await composer.click()
    await api.patch(
        f"/sessions/{session}", json={"persona": "pair", "model": cassette(tmp_path, [PUSH, FINISH])}
    )
    await api.post(f"/sessions/{session}/inputs", json={"type": "prompt", "text": "Push."})
    card = page.get_by_role("region", name="Needs you, 1 of 1")
    await expect(card).to_be_visible()
    await page.keyboard.type("1 d 3")
    await expect(composer).to_have_value("1 d 3")
    await expect(card).to_be_visible()

    await page.reload()
    await expect(card).to_be_visible()
    await expect(composer).to_have_value("1 d 3")  # the draft is kept
    await composer.click()
    await page.keyboard.press("Home")
    await page.keyboard.press("ArrowRight")
    await expect(card.locator("[data-ready=true]")).to_be_visible()  # it ignores keys until then
    await page.keyboard.press("Control+.")
    await page.keyboard.press("1")
    await expect(page.get_by_text("allowed once by")).to_be_visible()
    await expect(composer).to_be_focused()
    await page.keyboard.type("x")  # 18: the caret is where it was
    await expect(composer).to_have_value("1x d 3")
    await expect(page.locator("[data-item^='run:']").get_by_text("done")).to_be_visible()


async def test_an_approval_of_an_edit_shows_its_diff_and_its_keys_go_on_working(
    page: Page, up: Up, api: httpx.AsyncClient, tmp_path: Path
) -> None:
    whole = FILES["slugs.py"].replace("import re\n", "import re  # text\n")
    write = {"tool": "write_file", "args": {"path": "slugs.py", "content": whole}}
    edits = [{"old": "# text", "new": "# patterns"}]
    edit = {"tool": "edit_file", "args": {"path": "slugs.py", "edits": edits}}
    model = cassette(tmp_path, [{"calls": [write]}, {"calls": [edit]}, PUSH, FINISH])
    session = await new_session(api, prompt="Write.", model=model, persona="pair")
    await page.goto(f"{up.url}/s/{session}")
    card = page.get_by_role("region", name="Needs you, 1 of 1")
    diff = card.get_by_role("group", name="Changes of slugs.py")
    await expect(diff.get_by_role("row")).to_have_count(7)  # three lines before, two that differ, two after
    await expect(diff.get_by_role("row").filter(has_text="added,")).to_contain_text("import re  # text")
    await expect(card.get_by_text('{"path"')).to_have_count(0)
    await card.get_by_role("button", name="Allow once").click()

    # The focus stays in the dock: the next card is answered without a mouse, and nothing is typed.
    await expect(diff.get_by_role("row").filter(has_text="added,")).to_contain_text("# patterns")
    await expect(card.locator("[data-ready=true]")).to_be_visible()
    await page.keyboard.press("1")
    await expect(card.get_by_text("echo pushed", exact=True)).to_be_visible()
    await expect(card.locator("[data-ready=true]")).to_be_visible()
    await page.keyboard.press("1")
    await expect(page.get_by_text("allowed once by")).to_have_count(3)
    await expect(page.get_by_label("Message to the agent")).not_to_be_focused()
    await expect(page.get_by_label("Message to the agent")).to_have_value("")
    rows = page.get_by_role("log").get_by_role("button", name=re.compile(r"^slugs\.py"))
    await expect(rows.nth(0)).to_contain_text("rewritten")  # the call does not say how many lines differ
    await expect(rows.nth(1)).to_contain_text("+1 −1")


async def test_a_question_is_answered_in_its_card(
    page: Page, up: Up, api: httpx.AsyncClient, tmp_path: Path
) -> None:
    asks = {"calls": [{"tool": "ask_user", "args": {"question": "Which port?"}}]}
    session = await new_session(api, prompt="Ask.", model=cassette(tmp_path, [asks, FINISH]))
    await page.goto(up.url)
    await expect(page.get_by_text("question: Which port?")).to_be_visible()
    await page.goto(f"{up.url}/s/{session}")
    await page.get_by_label("Your answer").fill("The second one.")
    await page.keyboard.press("Enter")
    await expect(page.get_by_text(": The second one.")).to_be_visible()


async def test_hostile_markdown_fetches_and_runs_nothing(
    page: Page, up: Up, api: httpx.AsyncClient, tmp_path: Path
) -> None:
    model = cassette(tmp_path, [{"text": HOSTILE}])
    session = await new_session(api, prompt="Show.", model=model)
    await page.goto(f"{up.url}/s/{session}")
    await expect(page.get_by_role("heading", name="Title")).to_be_visible()
    links = await page.locator(".prose a").evaluate_all("links => links.map(link => link.href)")
    assert links == ["https://evil.example/b.png", "https://evil.example/page"]
    assert await page.locator(".prose :is(img, script)").count() == 0
    await expect(page.get_by_text("(evil.example)").first).to_be_visible()
    assert await page.locator(".prose li").all_inner_texts() == ["to do"]  # its mark is only a checkbox


async def test_no_link_lies_about_its_target(
    page: Page, up: Up, api: httpx.AsyncClient, tmp_path: Path
) -> None:
    hosts = {
        "[https://good.example/evil.example](https://evil.example)": "(evil.example)",
        "[good.example](https://good.example@evil.example/)": "(evil.example)",
        "<https://good.example@evil.example/>": "(evil.example)",
        "[goоd.example](https://goоd.example)": "(xn--god-ted.example)",  # with a Cyrillic character
        "[Pay](mailto:eve@evil.example)": "(eve@evil.example)",
        "<https://good.example/page>": "",
        "[good.example](https://good.example/page)": "",
    }
    text = "\n\n".join(f"See {link} now." for link in hosts)
    session = await new_session(api, prompt="Show.", model=cassette(tmp_path, [{"text": text}]))
    await page.goto(f"{up.url}/s/{session}")
    shown = page.locator(".prose p").filter(has_text="now.")
    await expect(shown).to_have_count(len(hosts))
    for number, (link, host) in enumerate(hosts.items()):
        told = await shown.nth(number).locator("a + span").all_inner_texts()
        assert [each.strip() for each in told] == ([host] if host else []), link


async def test_the_editor_saves_what_is_typed(page: Page, up: Up, api: httpx.AsyncClient) -> None:
    session = await new_session(api)
    await page.goto(f"{up.url}/s/{session}?file=slugs.py:1")
    await page.locator(".cm-content").click()
    await page.keyboard.press("Control+Home")
    await page.keyboard.type("# mine\n")
    await page.keyboard.press("Control+s")
    await expect(page.locator("[data-tab='slugs.py']").get_by_text("✓")).to_be_visible()
    read = await api.get(f"/sessions/{session}/files/slugs.py")
    assert read.text.startswith("# mine\n")

    await api.put(f"/sessions/{session}/files/slugs.py", content=b"theirs = 1\n")
    await expect(page.locator(".cm-content")).to_contain_text("theirs = 1")


async def test_a_terminal_shows_what_its_shell_prints(page: Page, up: Up, api: httpx.AsyncClient) -> None:
    session = await new_session(api)
    await page.goto(f"{up.url}/s/{session}?panel=terminal")
    await page.get_by_role("button", name="Open a terminal").last.click()
    await page.locator(".xterm-helper-textarea").focus()
    await expect(page.locator(".xterm-rows")).to_contain_text("$")
    await page.keyboard.type("echo $((6*7))\n")
    await expect(page.locator(".xterm-rows")).to_contain_text("42")
    await page.keyboard.press("Control+Backquote")
    await expect(page.get_by_label("Message to the agent")).to_be_focused()


async def test_a_message_without_a_server_is_kept_and_sent_once(
    page: Page, up: Up, api: httpx.AsyncClient, tmp_path: Path
) -> None:
    session = await new_session(api, model=cassette(tmp_path, [FINISH, FINISH]))
    inputs = f"{up.url}/api/v1/sessions/{session}/inputs"
    await page.route(inputs, lambda route: route.abort())
    await page.goto(f"{up.url}/s/{session}")
    composer = page.get_by_label("Message to the agent")
    await composer.fill("Do it.")
    await page.keyboard.press("Enter")
    await expect(page.get_by_text("1 message waits here")).to_be_visible()
    await expect(composer).to_have_value("")
    await page.reload()
    await expect(page.get_by_text("1 message waits here")).to_be_visible()
    await page.unroute(inputs)
    await page.evaluate("window.dispatchEvent(new Event('online'))")
    await expect(page.locator("[data-item^='run:']").get_by_text("done")).to_be_visible()
    kept = (await api.get(f"/sessions/{session}/inputs")).json()["items"]
    assert [each["input"]["text"] for each in kept] == ["Do it."]


async def test_a_message_that_is_refused_when_it_is_sent_late_returns_to_the_field(
    logged_in: BrowserContext, up: Up, api: httpx.AsyncClient
) -> None:
    page = await logged_in.new_page()  # the browser reports the refusal as an error
    session = await new_session(api)
    inputs = f"{up.url}/api/v1/sessions/{session}/inputs"
    await page.route(inputs, lambda route: route.abort())
    await page.goto(f"{up.url}/s/{session}")
    composer = page.get_by_label("Message to the agent")
    await composer.fill("Do it.")
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("listitem").filter(has_text="Do it.")).to_be_visible()
    await expect(composer).to_have_value("")
    problem = {"title": "Conflict", "status": 409, "code": "conflict", "detail": "It has ended."}
    await page.unroute(inputs)
    await page.route(inputs, lambda route: route.fulfill(status=409, json=problem))
    await page.evaluate("window.dispatchEvent(new Event('online'))")
    await expect(composer).to_have_value("Do it.")
    await expect(page.get_by_text("It has ended.")).to_be_visible()
    await page.close()


async def test_an_ended_session_offers_nothing_that_would_be_refused(
    page: Page, up: Up, api: httpx.AsyncClient, tmp_path: Path
) -> None:
    session = await new_session(api, prompt="End.", model=cassette(tmp_path, [FINISH]))
    await page.goto(f"{up.url}/s/{session}?panel=terminal")
    await expect(page.get_by_role("button", name="Open a terminal")).to_have_count(
        2
    )  # in the bar, and in the panel
    await expect(page.locator("[data-item^='run:']").get_by_text("done")).to_be_visible()
    await api.post(f"/sessions/{session}/inputs", json={"type": "end"})
    await expect(page.get_by_text("This session has ended.")).to_be_visible()
    await expect(page.get_by_role("link", name="Play back this session")).to_be_visible()
    await page.reload()
    await expect(page.get_by_text("No terminal is open.")).to_be_visible()
    await expect(page.get_by_role("treeitem", name="slugs.py").first).to_be_visible()
    await expect(page.get_by_role("button", name="Open a terminal")).to_have_count(0)
    await page.get_by_role("tab", name="Tests").click()
    await expect(page.get_by_role("button", name="Run all")).to_have_count(0)
    for menu in await page.get_by_role("button", name="More actions").all():  # of the session, and of its run
        await menu.click()
        await expect(page.get_by_role("menuitem").first).to_be_visible()
        for refused in ("Undo", "Run again", "Redo"):
            await expect(page.get_by_role("menuitem", name=refused)).to_have_count(0)
        await page.keyboard.press("Escape")


async def test_a_reader_who_scrolled_up_is_not_moved(
    page: Page, up: Up, api: httpx.AsyncClient, tmp_path: Path
) -> None:
    def part(n: int) -> object:
        calls = [{"tool": "glob", "args": {"pattern": f"*{n}"}}]
        return {"text": f"Part {n}.\n\n" + "Words. " * 60, "calls": calls}

    counts = "for i in $(seq 60); do echo $i; sleep 0.05; done; false"
    prints = {"calls": [{"tool": "bash", "args": {"command": counts}}]}
    asks = {"calls": [{"tool": "ask_user", "args": {"question": "Go on?"}}]}
    replies = [*map(part, range(20)), asks, prints, *map(part, range(20, 40)), FINISH]
    session = await new_session(api, prompt="Talk.", model=cassette(tmp_path, replies))
    await page.goto(f"{up.url}/s/{session}")
    await expect(page.get_by_label("Your answer")).to_be_visible()
    log = page.get_by_role("log")
    await expect(log.get_by_text("Part 19.")).to_be_in_viewport()  # it begins at the end
    await log.hover()
    await log.evaluate(SCROLL_ENDS)
    await page.mouse.wheel(0, -1200)
    await page.wait_for_function("() => window.hasScrolled")
    await expect(page.get_by_role("button", name="To the end")).to_be_visible()
    name = await log.get_by_text(re.compile(r"^Part 1[0-9]\.$")).first.inner_text()
    row = log.get_by_text(name, exact=True)
    top = "element => element.getBoundingClientRect().top"
    before = await row.evaluate(top)
    found = await api.get(f"/sessions/{session}/events/search?kind=question.asked")
    call = found.json()["items"][0]["event"]["call_id"]
    await api.post(f"/sessions/{session}/inputs", json={"type": "answer", "call_id": call, "text": "Yes."})
    await expect(page.locator("header").get_by_text("idle")).to_be_visible()
    await expect(page.get_by_role("button", name="New below")).to_be_visible()
    assert await row.evaluate(top) == before
    await page.get_by_role("button", name="Talk.").click()  # the prompt of this run stays in sight
    await expect(log.get_by_role("article", name="Talk.")).to_be_in_viewport()
    await expect(page.get_by_role("button", name="Talk.")).to_have_count(0)


async def test_a_session_that_is_still_starting_is_asked_again_and_an_undone_run_is_not_offered(
    logged_in: BrowserContext, up: Up, api: httpx.AsyncClient, tmp_path: Path
) -> None:
    write = {"calls": [{"tool": "write_file", "args": {"path": "new.txt", "content": "new\n"}}]}
    session = await new_session(api, prompt="Write.", model=cassette(tmp_path, [write, FINISH]))
    refusals = ["files", "diff"]

    async def refuse_once(route: Route) -> None:
        kind = next((each for each in refusals if f"/{each}?" in route.request.url + "?"), "")
        if not kind:
            return await route.fallback()
        refusals.remove(kind)
        problem = {"title": "Conflict", "status": 409, "code": "conflict", "detail": "It is starting."}
        await route.fulfill(status=409, content_type="application/problem+json", body=json.dumps(problem))

    page = await logged_in.new_page()
    await page.route(f"{up.url}/api/v1/sessions/{session}/**", refuse_once)
    await page.goto(f"{up.url}/s/{session}")
    await expect(page.get_by_text("new.txt").last).to_be_visible()
    assert refusals == []

    menu = page.get_by_role("button", name="More actions").first
    await menu.click()
    await expect(page.get_by_role("menuitem", name="Propose the change This session has no")).to_be_disabled()
    await page.get_by_role("menuitem", name="Undo the last run").click()

    async def refuse_undo(route: Route) -> None:
        problem = {"title": "Conflict", "status": 409, "code": "conflict", "detail": "It is running."}
        await route.fulfill(status=409, content_type="application/problem+json", body=json.dumps(problem))

    inputs = f"{up.url}/api/v1/sessions/{session}/inputs"
    await page.route(inputs, refuse_undo)
    await page.get_by_role("button", name="Undo", exact=True).click()
    dialog = page.get_by_role("dialog")
    await expect(dialog.get_by_text("It is running.")).to_be_visible()
    await expect(dialog.get_by_role("button")).to_have_text(["Close"])  # nothing to choose
    await page.unroute(inputs)
    await dialog.get_by_role("button", name="Close").click()
    await menu.click()
    await page.get_by_role("menuitem", name="Undo the last run").click()
    await page.get_by_role("button", name="Undo", exact=True).click()
    await expect(page.get_by_role("log").get_by_text("undone", exact=True)).to_be_visible()
    await expect(
        page.get_by_role("region", name="Changes").get_by_text("Nothing has changed")
    ).to_be_visible()
    await menu.click()
    await expect(page.get_by_role("menuitem", name="Redo")).to_be_visible()
    await expect(page.get_by_role("menuitem", name="Undo the last run")).to_have_count(0)
    await page.close()


async def test_connections_that_died_without_a_word_are_replaced(
    page: Page, up: Up, api: httpx.AsyncClient
) -> None:
    """No socket is closed: like those of a machine that slept, they are only silent."""
    sockets: list[str] = []
    dead: set[int] = set()
    renewed = asyncio.Event()

    def route(socket: WebSocketRoute) -> None:
        number, server = len(sockets), socket.connect_to_server()
        sockets.append(socket.url.rpartition("/api/")[2].partition("?")[0])
        if len(sockets) == 2 * len(dead) > 0:
            renewed.set()
        socket.on_message(lambda frame: None if number in dead else server.send(frame))
        server.on_message(lambda frame: None if number in dead else socket.send(frame))

    await page.route_web_socket("**/api/**", route)
    session = await new_session(api)
    await page.clock.install()
    await page.goto(f"{up.url}/s/{session}?panel=terminal&file=slugs.py")
    await page.get_by_role("button", name="Open a terminal").last.click()
    await expect(page.locator(".xterm-rows")).to_contain_text("$")
    await expect(page.locator(".cm-content")).to_contain_text("def slugify")
    first = sorted(sockets)
    assert len(first) == 4  # events, files, a terminal, and the list of sessions
    dead |= set(range(len(sockets)))
    await page.locator(".xterm-helper-textarea").focus()
    for _ in range(2):  # silent for long enough; then no answer
        await page.clock.fast_forward(25_000)
    await asyncio.wait_for(renewed.wait(), DEADLINE_S)
    await expect(page.get_by_text("reconnecting…")).to_have_count(0)
    await page.keyboard.type("echo $((40+2)) > answer.txt\n")
    await expect(page.get_by_role("treeitem", name="answer.txt")).to_be_visible()
    await api.put(f"/sessions/{session}/files/slugs.py", content=b"theirs = 1\n")
    await expect(page.locator(".cm-content")).to_contain_text("theirs = 1")
    assert sorted(sockets[len(first) :]) == first
