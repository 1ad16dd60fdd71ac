"""Interviews in two browsers, the assessor's and the candidate's, that share nothing but the server."""

import json
import re
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest
from playwright.async_api import Browser, Locator, Page, expect

from tests.cli.hutch_up_process import TIMEOUT_S, Home, Up
from tests.gateway.api_server import eventually
from tests.gateway.interview_rooms import a_plan, write_bank
from tests.web.conftest import WIDE
from tests.web.test_accessibility import DIALOG, assert_no_violations
from tests.web.web_sessions import cassette

pytestmark = pytest.mark.anyio

REPLY = {"text": "What does the failing test say? Read it **aloud** first."}
PASSWORD = "correct horse battery"
READ_ONLY, WRITABLE = ".cm-content[aria-readonly=true]", ".cm-content:not([aria-readonly=true])"
CONSENT = "You agree that this is recorded."


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    place = tmp_path_factory.mktemp("interviews")
    write_bank(place / "bank")
    with Home(place, is_new=True).up(**settings_of(place)) as server:
        yield server


def settings_of(place: Path) -> dict[str, str]:
    """The settings of the server, also of the one that takes its place."""
    return {"HUTCH_QUESTIONS__BANKS": str(place / "bank"), "HUTCH_MODEL": cassette(place, [REPLY] * 20)}


@pytest.fixture(scope="module")
def next_server(up: Up) -> Iterator[Callable[[], None]]:
    """Starts the server again, at its address, after it was killed."""
    with ExitStack() as stack:

        def start() -> None:
            address = ("--port", str(urlsplit(up.url).port))
            stack.enter_context(up.home.up(*address, **settings_of(up.home.place)))

        yield start


@asynccontextmanager
async def invited_by(link: str, name: str, browser: Browser) -> AsyncIterator[Page]:
    """The browser of somebody who opens an invitation link and chooses a name."""
    context = await browser.new_context(viewport=WIDE, locale="en-GB", reduced_motion="reduce")
    page = await context.new_page()
    page.set_default_timeout(TIMEOUT_S * 1000)
    await page.goto(link)
    await page.get_by_role("textbox", name="Name").fill(name)
    await page.get_by_role("textbox", name="Password").fill(PASSWORD)
    await page.get_by_role("button", name="Come in").click()
    yield page
    await context.close()


async def planned(api: httpx.AsyncClient, **changes: object) -> tuple[str, str]:
    """An interview, and the link of its candidate."""
    made = await api.post("/interviews", json=a_plan(**changes))
    assert made.status_code == 201, made.text
    invited = await api.post(f"/interviews/{made.json()['id']}/invitations", json={"role": "candidate"})
    assert invited.status_code == 201, invited.text
    return made.json()["id"], invited.json()["url"]


async def events_of(api: httpx.AsyncClient, interview: str, kind: str) -> list[dict[str, object]]:
    found = await api.get(f"/sessions/{interview}/events?limit=1000")
    return [each["event"] for each in found.json()["items"] if each["event"]["type"] == kind]


async def type_at_end(page: Page, text: str) -> None:
    await page.locator(".cm-content").click()
    await page.keyboard.press("Control+End")
    await page.keyboard.insert_text(text)


def confirmed(page: Page, name: str) -> Locator:
    return page.get_by_role("dialog").get_by_role("button", name=name, exact=True)


async def clock_of(page: Page) -> str:
    return await page.get_by_role("timer").locator("[data-clock]").get_attribute("data-clock") or ""


async def plan_by_form(page: Page, up: Up) -> str:
    """Plan an interview with both questions in the form. Returns the candidate's link."""
    await page.goto(f"{up.url}/interviews")
    await page.get_by_role("button", name="New interview").first.click()
    await page.get_by_label("Title").fill("Platform engineer")
    await page.get_by_label("Add a question").select_option("triple")
    await page.get_by_label("Add a question").select_option("double")
    await page.get_by_role("button", name="Move Double a number up").nth(1).click()
    await page.get_by_label("Language: Double a number").first.select_option("python")
    await page.get_by_role("button", name="Plan it").click()
    await page.get_by_role("button", name="Make a link").click()
    link = await page.get_by_label("Invitation link").input_value()
    await page.get_by_role("button", name="Close", exact=True).click()
    return link


async def test_a_whole_interview_in_two_browsers(
    page: Page, up: Up, browser: Browser, api: httpx.AsyncClient, next_server: Callable[[], None]
) -> None:
    link = await plan_by_form(page, up)
    interview = page.url.split("/")[-2]
    await expect(page.get_by_role("button", name="Begin")).to_be_disabled()
    async with invited_by(link, "carla", browser) as candidate:
        await join_and_begin(page, candidate)
        await work_and_converse(page, candidate)
        await pause_and_reload(page, candidate)
        await lose_the_connection(page, candidate)
        assert await events_of(api, interview, "candidate.reconnected")
        credited_ms = (await api.get(f"/interviews/{interview}")).json()["clock"]["credited_ms"]
        await kill_the_server(page, candidate, up, next_server)
        api.headers.update(up.owner())  # each start makes a new token
        clock = (await api.get(f"/interviews/{interview}")).json()["clock"]
        assert clock["credited_ms"] > credited_ms + 10_000
        workspace = candidate.url.partition("ws=")[2].partition("&")[0]
        file = await api.get(f"/sessions/{workspace}/files/double.py")
        typed = ("# by carla", "# typed without a connection", "# before the kill", "# without a server")
        assert [each for each in typed if each not in file.text] == []
        await finish(page, candidate)
        reported = await events_of(api, interview, "client.reported")
        assert "paste" in json.dumps(reported)
    await read_report(page)


async def join_and_begin(page: Page, candidate: Page) -> None:
    await expect(candidate).to_have_url(re.compile(r"/i/ses_\w+$"))
    await expect(candidate.get_by_role("navigation")).to_have_count(0)  # a candidate has no rail
    await expect(candidate.get_by_text("No camera, no microphone")).to_be_visible()
    await expect(candidate.get_by_role("listitem").filter(has_text="python")).to_contain_text("works")
    await candidate.get_by_role("button", name="I have read this, and I agree.").click()
    await expect(candidate.get_by_text("You are ready.")).to_be_visible()
    await page.get_by_role("button", name="Begin").click()
    await expect(candidate.locator("[data-statement]")).to_contain_text("Return twice the number.")
    await expect(candidate.get_by_text("Question 1 of 2")).to_be_visible()
    await expect(candidate.get_by_text("AI: Consultant")).to_be_visible()
    await expect(candidate.locator(".cm-content")).to_contain_text("def double(n):")


async def work_and_converse(page: Page, candidate: Page) -> None:
    await type_at_end(candidate, "# by carla\n")
    await expect(page.locator(".cm-content")).to_contain_text("# by carla")  # live, before it is saved
    await expect(page.locator(READ_ONLY)).to_be_visible()
    await candidate.evaluate(
        "document.querySelector('.cm-content').dispatchEvent(new ClipboardEvent('paste', {bubbles: true}))"
    )
    await candidate.get_by_role("button", name="Run all").first.click()
    await expect(page.get_by_text("1 failed, 0 passed").first).to_be_visible()
    await candidate.get_by_role("tab", name="Assistant").click()
    await candidate.locator("[data-composer]").fill("Why does it fail?")
    await candidate.keyboard.press("Enter")
    await expect(candidate.get_by_text("What does the failing test say?")).to_be_visible()
    await candidate.get_by_role("button", name="More actions").first.click()
    await expect(candidate.get_by_role("menuitem", name="Run again")).to_be_visible()
    await expect(candidate.get_by_role("menuitem", name="Fork from here")).to_have_count(0)
    await candidate.keyboard.press("Escape")
    await page.get_by_role("tab", name="Conversation").click()
    await expect(page.get_by_text("What does the failing test say?")).to_be_visible()
    await page.get_by_role("tab", name="Work").click()

    await page.get_by_label("Private note").fill("Asks before reading.")
    await page.keyboard.press("Control+Enter")
    note = page.get_by_role("link").filter(has_text="Asks before reading.")
    await expect(note).to_have_attribute("href", re.compile(r"^/s/ses_\w+/play\?at=\d+$"))
    await expect(candidate.get_by_text("Asks before reading.")).to_have_count(0)
    await page.get_by_role("tab", name="Messages").click()
    await page.get_by_label("Message to the candidate").fill("Think aloud, please.")
    await page.keyboard.press("Enter")
    await candidate.get_by_role("button", name="Reply").click()
    await candidate.get_by_label("Message to the assessors").fill("I will.")
    await candidate.keyboard.press("Enter")
    await expect(page.get_by_text("I will.")).to_be_visible()
    await page.get_by_label("only to other assessors").check()
    await page.get_by_label("Message to the other assessors").fill("Good answer.")
    await page.keyboard.press("Enter")
    await expect(page.get_by_text("Good answer.")).to_be_visible()
    await page.get_by_role("tab", name="Rating").click()
    await expect(page.get_by_role("tab", name="Messages", exact=True)).to_be_visible()  # all were read
    await page.get_by_role("button", name="Correctness: 4 · well").click()
    await expect(page.get_by_text("✓ saved")).to_be_visible()
    await page.get_by_role("button", name="Pair", exact=True).click()
    await page.get_by_role("button", name="Switch to Pair").click()
    await expect(candidate.get_by_text("The AI now works as Pair.")).to_be_visible()
    await page.get_by_role("tab", name="Hidden tests").click()
    await page.get_by_role("button", name="Run on a copy of the work now").click()
    await expect(page.get_by_text("0 of 2 pass")).to_be_visible()


async def pause_and_reload(page: Page, candidate: Page) -> None:
    await page.get_by_role("button", name="Pause").click()
    await page.get_by_label("Reason").fill("Fire alarm")
    await confirmed(page, "Pause").click()
    await expect(candidate.get_by_text("Paused: Fire alarm.")).to_be_visible()
    await expect(candidate.locator("[data-clock=stands]")).to_be_visible()
    await candidate.reload()
    await expect(candidate.get_by_text("Paused: Fire alarm.")).to_be_visible()
    await expect(candidate.locator(READ_ONLY)).to_be_visible()
    await page.get_by_role("button", name="Continue").click()
    await expect(candidate.get_by_text("Paused: Fire alarm.")).to_have_count(0)
    await expect(candidate.locator(WRITABLE)).to_be_visible()
    await expect(candidate.locator(".cm-content")).to_contain_text("# by carla")
    await candidate.get_by_role("tab", name="Assistant").click()
    await expect(candidate.get_by_text("What does the failing test say?")).to_be_visible()
    await expect(candidate.locator("[data-clock=runs]")).to_be_visible()


async def lose_the_connection(page: Page, candidate: Page) -> None:
    await candidate.context.set_offline(True)
    await type_at_end(candidate, "# typed without a connection\n")
    await expect(candidate.get_by_text("No connection since")).to_be_visible()
    assert await clock_of(candidate) == "stands"
    await expect(page.get_by_text("offline for")).to_be_visible()
    await candidate.context.set_offline(False)
    await expect(candidate.get_by_text("No connection since")).to_have_count(0)
    await expect(page.locator(".cm-content")).to_contain_text("# typed without a connection")
    await expect(candidate.locator("[data-clock=runs]")).to_be_visible()
    await expect(candidate.get_by_text("given back")).to_be_visible()


async def kill_the_server(page: Page, candidate: Page, up: Up, start: Callable[[], None]) -> None:
    await type_at_end(candidate, "# before the kill\n")
    up.process.kill()
    up.process.wait(timeout=TIMEOUT_S)
    await candidate.keyboard.insert_text("# without a server\n")
    await expect(candidate.get_by_text("No connection since")).to_be_visible()
    assert await clock_of(candidate) == "stands"
    start()
    await expect(candidate.get_by_text("No connection since")).to_have_count(0)
    await expect(candidate.locator("[data-clock=runs]")).to_be_visible()
    await expect(candidate.locator("[data-tab='double.py']").get_by_text("✓")).to_be_visible()
    await expect(page.locator(".cm-content")).to_contain_text("# without a server")
    await expect(page.locator("header").get_by_text("offline given back")).to_be_visible()
    await candidate.locator("[data-composer]").fill("Are you still there?")  # the AI is, too
    await candidate.keyboard.press("Enter")
    await expect(candidate.get_by_text("What does the failing test say?")).to_have_count(2)


async def finish(page: Page, candidate: Page) -> None:
    await candidate.get_by_label("Language").select_option("javascript")
    await confirmed(candidate, "Switch").click()
    await expect(candidate.locator(".cm-content")).to_contain_text("exports.double")
    await candidate.get_by_label("Language").select_option("python")
    await confirmed(candidate, "Switch").click()
    await expect(candidate.locator(".cm-content")).to_contain_text(
        "# by carla"
    )  # each language keeps its work
    await candidate.get_by_role("button", name="Next question").click()
    await confirmed(candidate, "Next question").click()
    await expect(candidate.get_by_text("Question 2 of 2")).to_be_visible()
    await expect(candidate.locator("[data-statement]")).to_contain_text("Return twice the number.")
    await expect(candidate.locator(".cm-content")).to_contain_text("def triple(n):")
    await expect(page.get_by_text("Question 2 of 2").first).to_be_visible()
    await page.get_by_role("tab", name="Rating").click()
    await page.get_by_label("Question", exact=True).select_option(
        "Question 1 of 2"
    )  # earlier ones can be rated
    rated = page.get_by_role("button", name="Correctness: 4 · well")
    await expect(rated).to_have_attribute("aria-pressed", "true")
    await candidate.get_by_role("button", name="Finish").click()
    await confirmed(candidate, "Finish").click()
    await expect(candidate.get_by_text("The interview is over")).to_be_visible()
    await expect(candidate.get_by_role("link", name="Download your record")).to_be_visible()


async def read_report(page: Page) -> None:
    await page.get_by_role("link", name="Report").click()
    await expect(page.get_by_role("heading", name="Question 1: Double a number")).to_be_visible()
    for shown in ("Asks before reading.", "Correctness", "are credited"):
        await expect(page.get_by_text(shown).first).to_be_visible()
    await expect(page.get_by_text("2 pass").first).to_be_visible()
    await page.get_by_role("link", name=re.compile(r"^#\d+$")).first.click()
    await expect(page).to_have_url(re.compile(r"/s/ses_\w+/play\?at=\d+"))
    await expect(page.get_by_text("Link to this moment")).to_be_visible()


async def test_without_an_ai_and_without_assessors_the_candidate_begins_and_has_no_chat(
    up: Up, browser: Browser, api: httpx.AsyncClient
) -> None:
    _, link = await planned(api, ai=False, attended=False, title="Alone")
    async with invited_by(link, "dora", browser) as candidate:
        await candidate.get_by_role("button", name="Begin the interview").click()
        await expect(candidate.locator("[data-statement]")).to_be_visible()
        await expect(candidate.get_by_role("tab", name="Messages")).to_be_visible()
        await expect(candidate.get_by_role("tab", name="Assistant")).to_have_count(0)
        await expect(candidate.get_by_text("AI: ")).to_have_count(0)
        for path in ("/", "/start", "/changes"):  # all lead back to the interview
            await candidate.goto(f"{up.url}{path}")
            await expect(candidate).to_have_url(re.compile(r"/i/ses_\w+"))
        await candidate.goto(f"{candidate.url.partition('?')[0]}/assess")
        await expect(candidate.get_by_text("There is nothing here")).to_be_visible()


async def test_an_assessor_edits_visibly_and_only_after_saying_so(
    page: Page, up: Up, browser: Browser, api: httpx.AsyncClient
) -> None:
    interview, link = await planned(api, title="Together")
    async with invited_by(link, "emil", browser) as candidate:
        await expect(candidate.get_by_text("You are ready.")).to_be_visible()
        await page.goto(f"{up.url}/interviews")
        row = page.get_by_role("listitem").filter(has_text="Together")
        await expect(row).to_contain_text("the candidate waits to begin")
        await row.get_by_role("link", name="Together").click()
        await page.get_by_role("button", name="Begin").click()
        await expect(candidate.locator(".cm-content")).to_be_visible()
        await expect(page.locator(READ_ONLY)).to_be_visible()
        await page.get_by_role("button", name="Intervene…").click()
        await confirmed(page, "Intervene").click()
        await expect(candidate.get_by_text("I am editing your files now.").first).to_be_visible()
        await expect(page.locator(WRITABLE)).to_be_visible()
        await type_at_end(page, "# by the assessor\n")
        await expect(candidate.locator(".cm-content")).to_contain_text("# by the assessor")
        await page.get_by_role("button", name="Stop intervening").click()
        await expect(page.locator(READ_ONLY)).to_be_visible()
        await page.get_by_role("button", name="More time…").click()
        await page.get_by_label("Minutes").fill("30")
        await confirmed(page, "Give more time").click()
        await expect(candidate.get_by_role("timer")).to_contain_text(re.compile(r"4\d:\d\d"))
        await expect(candidate.get_by_text("You have more time: +30 min.")).to_be_visible()
        await page.get_by_role("button", name="End…").click()
        await confirmed(page, "End it").click()
        await expect(candidate.get_by_text("The interview is over")).to_be_visible()
    assert (await api.get(f"/interviews/{interview}")).json()["phase"] == "ended"
    await page.goto(up.url)  # rooms and workspaces are no sessions of their own
    await expect(page.get_by_text("No sessions yet", exact=False)).to_be_visible()


async def test_invited_assessors_conduct_and_observers_only_watch(
    up: Up, browser: Browser, api: httpx.AsyncClient
) -> None:
    interview, link = await planned(api, title="With others")
    links = {
        role: (await api.post(f"/interviews/{interview}/invitations", json={"role": role})).json()["url"]
        for role in ("assessor", "observer")
    }
    async with (
        invited_by(link, "hugo", browser) as candidate,
        invited_by(links["assessor"], "iris", browser) as assessor,
        invited_by(links["observer"], "jan", browser) as observer,
    ):
        for watcher in (assessor, observer):
            await watcher.get_by_role("link", name="With others").click()  # the link led to the interviews
        await expect(candidate.get_by_text("You are ready.")).to_be_visible()
        await assessor.get_by_role("button", name="Begin").click()
        await expect(candidate.locator(WRITABLE)).to_be_visible()
        await assessor.get_by_label("Private note").fill("Only for us.")
        await assessor.get_by_role("button", name="Add note").click()
        await expect(assessor.get_by_role("link").filter(has_text="Only for us.")).to_be_visible()
        await type_at_end(candidate, "# by hugo\n")
        for watcher in (assessor, observer):
            await expect(watcher.locator(READ_ONLY)).to_contain_text("# by hugo")
        await expect(observer.get_by_role("button", name="Intervene…")).to_have_count(0)
        await assessor.get_by_role("button", name="Intervene…").click()
        await confirmed(assessor, "Intervene").click()
        await expect(candidate.get_by_text("Message from iris")).to_be_visible()
        await type_at_end(assessor, "# by iris\n")
        await expect(candidate.locator(".cm-content")).to_contain_text("# by iris")
        await expect(candidate.locator("[data-name=iris]")).to_be_visible()  # at their cursor
        await assessor.get_by_role("tab", name="Terminal").click()
        await expect(assessor.get_by_role("button", name="Open a terminal")).to_have_count(0)
        await expect(observer.get_by_text("You observe.")).to_be_visible()
        for name in ("Pause", "End…", "Invite…"):
            await expect(observer.get_by_role("button", name=name)).to_have_count(0)
        await expect(observer.get_by_text("Only for us.")).to_have_count(0)
        await observer.goto(f"{up.url}/i/{interview}/report")
        await expect(observer.get_by_text("There is nothing here")).to_be_visible()


async def test_help_is_offered_after_failures_and_taken_in_the_room(
    browser: Browser, api: httpx.AsyncClient
) -> None:
    _, link = await planned(api, attended=False, proactive_help=True, title="Stuck")
    async with invited_by(link, "finn", browser) as candidate:
        await candidate.get_by_role("button", name="Begin the interview").click()
        await expect(candidate.locator(".cm-content")).to_be_visible()
        workspace = candidate.url.partition("ws=")[2].partition("&")[0]
        for count in range(3):
            await type_at_end(candidate, f"# try {count}\n")
            await candidate.get_by_role("button", name="Run all").first.click()

            async def is_run(expected: int = count + 1) -> bool:
                runs = (await api.get(f"/sessions/{workspace}/tests")).json()["items"]
                return len(runs) == expected and all(each["state"] != "running" for each in runs)

            await eventually(is_run)
        await candidate.get_by_role("button", name="Yes, help me").click()
        await expect(candidate.get_by_text("My test runs keep failing.")).to_be_visible()
        await expect(candidate.get_by_text("What does the failing test say?")).to_be_visible()
        await expect(candidate.get_by_role("button", name="Yes, help me")).to_have_count(0)


async def test_pages_of_an_interview_are_accessible(
    page: Page, up: Up, browser: Browser, api: httpx.AsyncClient
) -> None:
    interview, link = await planned(api, consent=CONSENT, title="For everybody")
    light = {"color_scheme": "light", "reduced_motion": "reduce"}

    async def examine(opened: Page, within: str = "html") -> None:
        await opened.emulate_media(**light)  # type: ignore[arg-type]
        await assert_no_violations(opened, within)
        await opened.emulate_media(**light)  # type: ignore[arg-type]

    await page.goto(f"{up.url}/interviews")
    await expect(page.get_by_role("link", name="For everybody")).to_be_visible()
    await examine(page)
    await page.goto(f"{up.url}/interviews/new")
    await page.get_by_label("Add a question").select_option("double")
    for each in await page.get_by_role("dialog").locator("summary").all():
        await each.click()
    await examine(page, DIALOG)
    await page.goto(f"{up.url}/i/{interview}/assess?invite=assessor")
    await page.get_by_role("button", name="Make a link").click()
    await expect(page.get_by_label("Invitation link")).to_be_visible()
    await examine(page, DIALOG)
    await page.get_by_role("button", name="Close", exact=True).click()
    async with invited_by(link, "gina", browser) as candidate:
        await expect(candidate.get_by_text(CONSENT)).to_be_visible()
        await expect(candidate.get_by_role("listitem").filter(has_text="python")).to_contain_text("works")
        await examine(candidate)
        await candidate.get_by_role("button", name="I have read this, and I agree.").click()
        await page.get_by_role("button", name="Begin").click()
        await expect(candidate.locator(".cm-content")).to_be_visible()
        await api.post(f"/interviews/{interview}/messages", json={"text": "Hello"})
        await api.post(f"/interviews/{interview}/notes", json={"text": "Calm"})
        await expect(candidate.get_by_text("Hello")).to_be_visible()
        await examine(candidate)
        await candidate.get_by_role("tab", name="Messages").click()
        await expect(candidate.get_by_label("Message to the assessors")).to_be_visible()
        await examine(candidate)
        await candidate.set_viewport_size({"width": 390, "height": 780})
        for name in ("Question", "Assistant", "Messages", "Work"):
            await candidate.get_by_role("tab", name=name).click()
        await candidate.wait_for_function("() => document.documentElement.scrollWidth <= 390")
        await expect(candidate.get_by_role("timer")).to_be_in_viewport()
        await expect(page.locator(".cm-content")).to_be_visible()
        await expect(page.get_by_text("Calm")).to_be_visible()
        await examine(page)
        for name in ("Rating", "Hidden tests", "History"):
            await page.get_by_role("tab", name=name).click()
            await examine(page)
        await api.post(f"/interviews/{interview}/end", json={})
        await expect(candidate.get_by_text("The interview is over")).to_be_visible()
        await examine(candidate)
    await page.goto(f"{up.url}/i/{interview}/report")
    await expect(page.get_by_role("heading", name="Question 1: Double a number")).to_be_visible()
    await examine(page)
    await page.get_by_label("Points", exact=True).select_option("1")
    await page.get_by_label("Comment", exact=True).fill("heard it")
    await page.get_by_role("button", name="Save the mark").click()
    await expect(page.get_by_text("Set by").first).to_contain_text("heard it")
    moment = page.get_by_role("region", name="The interview").get_by_role("link").first
    assert re.fullmatch(rf"/s/{interview}/play\?at=\d+", await moment.get_attribute("href") or "")
    async with page.expect_download() as downloading:
        await page.get_by_role("link", name="Download as PDF").click()
    assert await (await downloading.value).failure() is None
    await page.get_by_role("link", name="Compare candidates on Double a number").click()
    await page.get_by_role("button", name="Time used").click()
    await expect(page.get_by_role("columnheader", name="Time used")).to_have_attribute(
        "aria-sort", "ascending"
    )
    await expect(page.get_by_role("row").filter(has_text="gina")).to_contain_text("For everybody")
    await examine(page)
