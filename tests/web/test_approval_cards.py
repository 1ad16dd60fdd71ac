"""Cards that ask for an approval: their choices, their size, and several people who see one."""

import re
from pathlib import Path

import httpx
import pytest
from playwright.async_api import Browser, Page, expect

from tests.cli.hutch_up_process import Up
from tests.web.test_editing_together import logged_in_as, share
from tests.web.web_sessions import cassette, new_session

pytestmark = pytest.mark.anyio

FINISH = {"calls": [{"tool": "finish", "args": {"title": "Done", "summary": "All is there."}}]}


def bash(command: str) -> object:
    return {"calls": [{"tool": "bash", "args": {"command": command}}]}


async def test_the_buttons_of_a_long_command_stay_visible_and_a_reload_shows_the_card_again(
    page: Page, up: Up, api: httpx.AsyncClient, tmp_path: Path
) -> None:
    long = "\n".join(f"echo part {number}" for number in range(300))
    session = await new_session(api, prompt="Go.", persona="pair", model=cassette(tmp_path, [bash(long)]))
    await page.goto(f"{up.url}/s/{session}")
    card = page.get_by_role("region", name="Needs you, 1 of 1")
    for width, height in ((1280, 600), (390, 780), (320, 640)):
        await page.set_viewport_size({"width": width, "height": height})
        await page.reload()
        await expect(card.get_by_text("echo part 0")).to_be_visible()
        for name in ("Allow once", "Deny"):
            await expect(card.get_by_role("button", name=name)).to_be_in_viewport(ratio=1)
        await page.wait_for_function("width => document.documentElement.scrollWidth <= width", arg=width)
    shown = await card.locator("pre").inner_text()
    assert shown.startswith("echo part 0\n") and shown.rstrip().endswith("echo part 299")


async def test_each_choice_says_what_it_covers_and_a_call_that_no_rule_describes_has_two(
    page: Page, up: Up, api: httpx.AsyncClient, tmp_path: Path
) -> None:
    opaque = bash('$(printf "%s" git) push')  # the program is known only when it runs
    model = cassette(tmp_path, [bash("git push origin main"), opaque, FINISH])
    session = await new_session(api, prompt="Go.", persona="pair", model=model)
    await page.goto(f"{up.url}/s/{session}")
    card = page.get_by_role("region", name="Needs you, 1 of 1")
    await expect(card.get_by_role("button")).to_have_count(4)
    await expect(card.get_by_text("asked by the rule “ask bash” of persona pair")).to_be_visible()
    await expect(card.get_by_text("covers bash git push until the session ends")).to_be_visible()
    await expect(card.get_by_text("in every session that you own; withdraw it in Settings")).to_be_visible()
    await expect(card.locator("[data-ready=true]")).to_be_visible()
    await card.get_by_role("button", name="Allow once").click()
    await expect(card.get_by_text("This call can be allowed once only")).to_be_visible()
    await expect(card.get_by_role("button")).to_have_count(2)


async def test_a_call_of_the_tests_shows_their_command_and_the_tests_panel_names_the_runner(
    page: Page, up: Up, api: httpx.AsyncClient, tmp_path: Path
) -> None:
    model = cassette(tmp_path, [{"calls": [{"tool": "run_tests", "args": {}}]}, FINISH])
    session = await new_session(api, prompt="Go.", persona="pair", model=model)
    await page.goto(up.url)
    await expect(page.get_by_text("approval: run_tests", exact=True)).to_be_visible()
    await page.goto(f"{up.url}/s/{session}?panel=tests")
    card = page.get_by_role("region", name="Needs you, 1 of 1")
    await expect(card.get_by_text("Runs all tests of the repository")).to_be_visible()
    await expect(card.locator("pre")).to_have_text("python3 -m unittest")
    tests = page.get_by_role("region", name="Tests")
    await expect(tests.get_by_role("listitem")).to_have_text(
        "unittest in this repository: python3 -m unittest"
    )
    await expect(tests.get_by_role("button", name="Run all")).to_have_count(2)
    await page.get_by_role("tab", name="Log").click()
    row = page.get_by_role("region", name="Log").get_by_role("button", name="approval.requested")
    await expect(row).to_contain_text("run_tests")


async def test_an_answer_in_one_browser_changes_the_card_in_another(
    page: Page, up: Up, browser: Browser, api: httpx.AsyncClient, tmp_path: Path
) -> None:
    model = cassette(tmp_path, [bash("echo one"), bash("echo two"), FINISH])
    session = await new_session(api, prompt="Go.", persona="pair", model=model)
    async with logged_in_as("bo", up, browser) as other:
        await share(api, session, "bo", "member")
        await other.goto(f"{up.url}/s/{session}")
        await page.goto(f"{up.url}/s/{session}")
        mine, theirs = (each.get_by_role("region", name="Needs you, 1 of 1") for each in (page, other))
        await expect(theirs.locator("[data-ready=true]")).to_be_visible()
        await expect(mine.locator("[data-ready=true]")).to_be_visible()
        # Their answer is on its way when mine arrives: theirs is refused, and that is no error.
        inputs = f"{up.url}/api/v1/sessions/{session}/inputs"
        held = []
        await other.route(inputs, lambda route: held.append(route))
        await theirs.get_by_role("button", name="Allow once").click()
        await mine.get_by_role("button", name="Allow once").click()
        await expect(theirs.get_by_text("echo two", exact=True)).to_be_visible()
        await expect(other.get_by_text("allowed once by")).to_be_visible()
        async with other.expect_response(inputs) as refused:
            await held[0].continue_()
        assert (await refused.value).status == 409
        await expect(other.get_by_role("alert")).to_have_count(0)
        await expect(theirs.get_by_text("echo two", exact=True)).to_be_visible()  # not answered by that


async def test_after_once_the_row_offers_the_session(
    page: Page, up: Up, api: httpx.AsyncClient, tmp_path: Path
) -> None:
    push = bash("git push origin main")
    model = cassette(tmp_path, [push, push, bash("git push other"), FINISH, bash("git push later"), FINISH])
    session = await new_session(api, prompt="Go.", persona="pair", model=model)
    await page.goto(f"{up.url}/s/{session}")
    card = page.get_by_role("region", name="Needs you, 1 of 1")
    log = page.get_by_role("log")
    await expect(card.locator("[data-ready=true]")).to_be_visible()
    await card.get_by_role("button", name="Allow once").click()
    # The second call waits, because the first answer was for one call only.
    offer = log.get_by_role("button", name="Allow for this session: covers bash git push")
    await expect(log.get_by_text("allowed once by")).to_contain_text("rule “ask bash”")
    await expect(card).to_be_visible()
    await offer.click()
    await expect(log.get_by_text("allowed for this session by")).to_be_visible()
    await expect(offer).to_have_count(0)
    await expect(card.locator("[data-ready=true]")).to_be_visible()  # asked before
    await card.get_by_role("button", name="Allow once").click()
    ended = page.locator("[data-item^='run:']").get_by_text("done")
    await expect(ended).to_be_visible()  # the third call did not ask

    await api.post(f"/sessions/{session}/inputs", json={"type": "prompt", "text": "Again."})
    await expect(ended).to_have_count(2)  # nor did the next run
    found = (await api.get(f"/sessions/{session}/events/search?kind=approval.requested")).json()["items"]
    assert len(found) == 2
    again = {"type": "extend", "call_id": found[0]["event"]["call_id"]}
    refused = await api.post(f"/sessions/{session}/inputs", json=again)
    assert refused.status_code == 409, refused.text


async def test_a_name_with_hidden_characters_shows_them_in_card_tree_and_diff(
    page: Page, up: Up, api: httpx.AsyncClient, tmp_path: Path
) -> None:
    hidden = "safe\u202eyp.txt"
    write = {"calls": [{"tool": "write_file", "args": {"path": hidden, "content": "text\n"}}]}
    model = cassette(tmp_path, [write, bash(f"cat {hidden}"), FINISH])
    session = await new_session(api, prompt="Go.", persona="pair", model=model)
    await page.goto(f"{up.url}/s/{session}?panel=changes")
    card = page.get_by_role("region", name="Needs you, 1 of 1")
    await expect(card.get_by_text("safeU+202Eyp.txt").first).to_be_visible()
    await expect(card.locator("[data-ready=true]")).to_be_visible()
    await card.get_by_role("button", name="Allow once").click()
    await expect(card.get_by_text("cat safeU+202Eyp.txt")).to_be_visible()
    for name in ("Files", "Changes"):
        region = page.get_by_role("region", name=name)
        await expect(region.get_by_text("safeU+202Eyp.txt").first).to_be_visible()
    assert hidden not in await page.locator("body").inner_text()


async def test_what_a_helper_asks_is_answered_in_its_parent_and_counted_once(
    page: Page, up: Up, api: httpx.AsyncClient, tmp_path: Path
) -> None:
    for each in (await api.get("/sessions?state=waiting")).json()["items"]:  # of other tests
        await api.post(f"/sessions/{each['id']}/inputs", json={"type": "end", "reason": ""})
    (tmp_path / "helper").mkdir()
    writes = {"calls": [{"tool": "write_file", "args": {"path": "notes.txt", "content": "by a helper\n"}}]}
    model = cassette(tmp_path / "helper", [writes, bash("git push"), FINISH])
    made = await api.put("/personas/scribe", json={"prompt": "Write.", "model": model})
    assert made.status_code == 200, made.text
    task = {"task": "Write the notes.", "persona": "scribe"}
    take = {"tool": "helper_changes", "args": {"helper": "h1", "action": "merge"}}
    replies = [{"calls": [{"tool": "delegate", "args": {"tasks": [task]}}]}, {"calls": [take]}, FINISH]
    rules = ["ask write_file", "ask bash"]
    made = await api.put("/personas/lead", json={"prompt": "Delegate.", "rules": rules})
    assert made.status_code == 200, made.text
    model = cassette(tmp_path, replies)
    body = {"files": {"a.txt": "a\n"}, "prompt": "Go.", "persona": "lead", "purpose": "Delegated"}
    session = await new_session(api, **body, model=model)

    await page.goto(up.url)
    needs = page.locator("details", has=page.get_by_role("heading", name="Needs you"))
    await expect(needs.get_by_text("Helper of the session above")).to_be_visible()
    await expect(needs.get_by_text("approval: write_file notes.txt")).to_have_count(2)
    await expect(page).to_have_title("(1) Sessions · Hutch")
    await page.keyboard.press("Control+.")
    await expect(page).to_have_url(f"{up.url}/s/{session}")
    await expect(page).to_have_title(re.compile(r"^\(1\) .+ · Delegated · Hutch$"))
    card = page.get_by_role("region", name="Needs you, 1 of 1")
    await expect(card.get_by_text("helper h1 wants to use write_file")).to_be_visible()
    diff = card.get_by_role("group", name="Changes of notes.txt")
    await expect(diff.get_by_role("row").filter(has_text="added,")).to_contain_text("by a helper")
    await expect(card.get_by_role("link", name="open helper h1")).to_be_visible()
    await expect(card.locator("[data-ready=true]")).to_be_visible()
    await page.keyboard.press("1")
    await expect(card.get_by_text("git push", exact=True)).to_be_visible()
    log = page.get_by_role("log")
    row = log.locator("[data-item^='call:']").filter(has_text="notes.txt")
    await expect(row.get_by_text("allowed once by")).to_contain_text("open helper h1")
    await expect(row.locator(".dot-running")).to_have_count(0)  # what it did is in the helper's log
    await expect(row.get_by_role("button", name="Allow for this session")).to_have_count(0)
    await expect(card.locator("[data-ready=true]")).to_be_visible()
    await card.get_by_role("button", name="Deny").click()
    await expect(page.locator("[data-item^='run:']").get_by_text("done")).to_be_visible()
    await expect(card).to_have_count(0)
    await expect(row.locator("svg.text-bad")).to_have_count(0)  # no failure
    assert (await api.get(f"/sessions/{session}/files/notes.txt")).text == "by a helper\n"

    await row.get_by_role("link", name="open helper h1").click()
    await expect(page.get_by_role("log").get_by_text("denied by")).to_be_visible()
