"""People play sessions back in a real browser."""

import json
from typing import Any

import httpx
import pytest
from playwright.async_api import Page, WebSocketRoute, expect

from tests.cli.hutch_up_process import Up
from tests.web.web_sessions import new_session, until_idle

pytestmark = pytest.mark.anyio

HOURS_MS = 3_600_000


@pytest.fixture(scope="module")
async def repaired(api: httpx.AsyncClient) -> str:
    """A session in which the agent repaired the sample, and a person then added a line and ran a command."""
    session = await new_session(api, prompt="Make the failing test pass.", model="scripted:demo")
    await until_idle(api, session)
    path = f"/sessions/{session}/files/slugs.py"
    await api.put(path, content=(await api.get(path)).content + b"# by a person\n")
    await api.post(f"/sessions/{session}/commands", json={"command": "echo printed later"})
    return session


async def events(api: httpx.AsyncClient, session: str, kind: str) -> list[dict[str, Any]]:
    answer = await api.get(f"/sessions/{session}/events/search?kind={kind}")
    found: list[dict[str, Any]] = answer.json()["items"]
    return found


async def test_a_link_to_a_moment_opens_everything_at_that_event(
    page: Page, up: Up, api: httpx.AsyncClient, repaired: str
) -> None:
    first_run, second_run = await events(api, repaired, "tests.run")
    edit = (await events(api, repaired, "file.changed"))[0]
    await page.goto(f"{up.url}/s/{repaired}/play?at={first_run['seq']}&speed=4")
    talk = page.get_by_role("log", name="Conversation")
    await expect(talk.get_by_text("1 failed, 1 passed")).to_be_visible()
    await expect(page.get_by_label("Speed")).to_have_value("4")
    await expect(page.get_by_text("No file has changed up to this moment.")).to_be_visible()
    await expect(page.get_by_text("Nothing has been printed up to this moment.")).to_be_visible()
    await page.get_by_role("tab", name="Tests").click()
    await expect(page.get_by_label("Failing").get_by_text("test_accents").first).to_be_visible()

    await page.goto(f"{up.url}/s/{repaired}/play?at={edit['seq']}")
    code = page.locator(".cm-content")
    await expect(code).to_contain_text('unicodedata.normalize("NFKD", title).encode')
    await expect(code).not_to_contain_text("# by a person")
    await expect(page.get_by_text("changed by agent")).to_be_visible()
    await expect(talk.get_by_text("2 passed")).to_have_count(0)

    await page.keyboard.press("End")
    await expect(code).to_contain_text("# by a person")
    await expect(page.locator(".xterm-rows")).to_contain_text("printed later")
    await expect(talk.get_by_text("2 passed")).to_be_visible()
    await expect(page.locator(f"[data-event='{second_run['seq']}']")).to_have_count(0)


async def test_keys_search_link_and_compare(
    page: Page, up: Up, api: httpx.AsyncClient, repaired: str
) -> None:
    first_run, second_run = await events(api, repaired, "tests.run")
    await page.goto(f"{up.url}/s/{repaired}/play?at=1")
    await expect(page.locator("[data-event='1']")).to_be_visible()
    await page.keyboard.press(".")
    await page.keyboard.press(".")
    await page.keyboard.press(",")
    await expect(page.locator("[data-event='2']")).to_be_visible()
    await page.keyboard.press(">")
    await expect(page.get_by_label("Speed")).to_have_value("2")
    await page.keyboard.press("/")
    await page.keyboard.type("tests.run")
    await expect(page.get_by_text("0 of 2")).to_be_visible()
    await page.keyboard.press("Enter")
    await expect(page.locator(f"[data-event='{first_run['seq']}']")).to_be_visible()
    await page.keyboard.press("Escape")
    await expect(page).to_have_url(f"{up.url}/s/{repaired}/play?at={first_run['seq']}&speed=2")

    await page.get_by_role("button", name="Compare with this moment").click()
    await page.keyboard.press("End")
    compared = page.get_by_role("article", name="slugs.py")
    await expect(compared.get_by_text("# by a person")).to_be_visible()
    await expect(page.get_by_text("1 failed, 1 passed")).to_be_visible()
    await page.get_by_role("button", name="End the comparison").click()

    await page.get_by_role("tab", name="Markers").click()
    await page.get_by_label("Kind of marker").select_option("Test runs")
    await page.get_by_role("button", name="tests: 2 passed").click()
    await expect(page.locator(f"[data-event='{second_run['seq']}']")).to_be_visible()
    await page.get_by_role("button", name="Play").click()
    await expect(page.get_by_role("button", name="Live")).to_have_attribute("aria-pressed", "true")


async def test_a_pause_of_three_hours_is_cut_and_every_event_is_reached(
    page: Page, up: Up, repaired: str
) -> None:
    """The log comes from the test, because no session of a test lasts for three hours."""
    count = 1200

    def entry(seq: int) -> str:
        event = {"type": "message.sent", "author": "user", "text": f"message {seq}", "by": "", "input": seq}
        if seq == 1:
            event = {"type": "session.opened", "purpose": "", "owner": "ada"}
        at_ms = seq * 100 + (3 * HOURS_MS if seq > count // 2 else 0)
        return json.dumps({"type": "entry", "seq": seq, "at_ms": at_ms, "event": event})

    def serve(socket: WebSocketRoute) -> None:
        for seq in range(1, count + 1):
            socket.send(entry(seq))

    await page.route_web_socket(f"**/{repaired}/events/socket**", serve)
    await page.goto(f"{up.url}/s/{repaired}/play?at={count // 2}")
    talk = page.get_by_role("log", name="Conversation")
    await expect(talk.get_by_text(f"message {count // 2}", exact=True)).to_be_visible()
    await expect(page.locator("[data-clock]")).to_have_text(
        "0:59 / 2:01"
    )  # two minutes of events, and 2 s for the pause
    for seq in (count, 501, 1099, 2):
        await page.get_by_label("Time or event").fill(f"#{seq}")
        await page.keyboard.press("Enter")
        await expect(talk.get_by_text(f"message {seq}", exact=True)).to_be_visible()
        await expect(talk.get_by_text(f"message {seq + 1}", exact=True)).to_have_count(0)
