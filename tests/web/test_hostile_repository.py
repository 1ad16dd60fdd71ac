"""A hostile repository opens every page: nothing runs, nothing is fetched, nothing hides."""

import subprocess
from pathlib import Path

import httpx
import pytest
from playwright.async_api import Browser, Page, expect

from tests.cli.hutch_up_process import TIMEOUT_S, Up
from tests.gateway.headless_browser import page_of_another
from tests.web.web_sessions import cassette, until_idle, until_prepared

pytestmark = pytest.mark.anyio

MARKUP = (
    "<img src=//evil.example/a.png onerror=document.title='run'><script>document.title='run'</script>"
    "<style>*{display:none}</style> [x](javascript:alert(1)) ![p](https://evil.example/p.png)"
)
HIDDEN = "safe\u202eyp.txt"  # shown by programs that obey U+202E as "safetxt.py"


def hostile_repository(place: Path) -> Path:
    place.mkdir()
    (place / "README.md").write_text(MARKUP)
    who = ["-c", "user.name=Eve", "-c", "user.email=eve@example.org"]
    for words in (["init", "-q", "-b", "main"], ["add", "-A"], [*who, "commit", "-qm", MARKUP]):
        subprocess.run(["git", *words], cwd=place, check=True)
    return place


@pytest.fixture(scope="module")
async def change(api: httpx.AsyncClient, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """A change whose names, texts, output and diff are hostile."""
    place = hostile_repository(tmp_path_factory.mktemp("hostile") / "<b>repo")
    calls = [
        {
            "tool": "write_file",
            "args": {"path": HIDDEN, "content": f"{MARKUP}\n\u202e hidden\n{'x' * 1_000_000}"},
        },
        {
            "tool": "bash",
            "args": {"command": "printf '\\033]52;c;ZXZpbA==\\007\\033]8;;javascript:1\\033\\\\link'"},
        },
        {"tool": "bash", "args": {"command": f"echo '{MARKUP.replace(chr(39), '')}'; false"}},
    ]
    title = f"{MARKUP}\u202e"
    finish = {"calls": [{"tool": "finish", "args": {"title": title[:70], "summary": MARKUP}}]}
    model = cassette(place.parent, [{"text": MARKUP, "calls": calls}, finish])
    body = {"repository": str(place), "prompt": MARKUP, "purpose": title, "model": model, "deliver": True}
    made = await api.post("/sessions", json=body)
    assert made.status_code == 201, made.text
    session = made.json()["id"]
    await until_idle(api, session)
    async with api.stream("GET", f"/sessions/{session}/events/stream") as events:
        async for line in events.aiter_lines():
            if line in ("event: change.proposed", "event: delivery.ended"):
                break
    found = (await api.get(f"/changes?session={session}")).json()["items"]
    return {"session": session, "change": found[0]["id"]}


async def assert_nothing_runs(page: Page) -> None:
    """The page's own fixture fails at a request to another origin, a refusal of the policy, or an error."""
    assert await page.title() != "run"
    elements = await page.locator("script, img, iframe, style").evaluate_all(
        "all => all.map(e => e.outerHTML)"
    )
    assert "\u202e" not in await page.locator("body").inner_text() + await page.title()
    tooltips = await page.locator("[title]").evaluate_all("all => all.map(each => each.title)")
    assert not any("\u202e" in each for each in tooltips)
    found = [each for each in elements if "evil" in each or "document.title" in each]
    assert found == []
    links = await page.locator("main a").evaluate_all("links => links.map(link => link.protocol)")
    assert set(links) <= {"http:", "https:"}


@pytest.mark.parametrize(
    ("path", "shows"),
    [
        ("/", "<img src=//evil.example"),
        ("/s/{session}", "<script>"),
        ("/s/{session}?panel=changes&view=work", "U+202E"),
        ("/s/{session}?panel=log&view=work", "delivery.ended"),
        ("/s/{session}/play", "U+202E"),
        ("/c/{change}", "U+202E"),
        ("/settings/audit", "Audit"),
    ],
)
async def test_every_page_shows_it_as_text(
    only_page: Page, up: Up, change: dict[str, str], path: str, shows: str
) -> None:
    await only_page.goto(up.url + path.format(**change))
    await expect(only_page.get_by_text(shows).first).to_be_visible()
    await assert_nothing_runs(only_page)


async def test_lists_tasks_reports_and_interviews_show_it_as_text(
    page: Page, up: Up, api: httpx.AsyncClient, change: dict[str, str]
) -> None:
    title = f"{MARKUP[:80]}\u202e"
    criterion = {"text": MARKUP, "done": False}
    fields = {"title": title[:-1], "description": MARKUP, "criteria": [criterion], "repository": "<i>shop"}
    task = (await api.post("/tasks", json=fields)).json()["id"]  # its title has no hidden characters
    await api.post(f"/tasks/{task}/comments", json={"text": MARKUP})
    plan = {"title": title, "questions": [{"id": "meeting-rooms"}], "company": MARKUP[:80]}
    made = await api.post("/interviews", json=plan)
    assert made.status_code == 201, made.text
    interview = made.json()["id"]
    for path in (
        f"/s/{change['session']}?panel=tests&view=work",
        "/tasks?view=board",
        "/tasks?view=list",
        f"/tasks/{task}",
        "/changes",
        "/activity",
        "/analytics?report=spend&by=repository",
        "/interviews",
        f"/i/{interview}/assess",
        f"/i/{interview}/report",
    ):
        await page.goto(up.url + path)
        shown = "<b>repo" if path.startswith("/analytics") else "<img src=//evil.example"
        await expect(page.get_by_text(shown).filter(visible=True).first, path).to_be_visible()
        await assert_nothing_runs(page)


async def test_hostile_tests_files_and_terminals_are_text(
    page: Page, up: Up, api: httpx.AsyncClient, tmp_path: Path
) -> None:
    method = f"    def test_it(self):\n        self.fail({MARKUP!r})\n"
    failing = f"import unittest\n\nclass T(unittest.TestCase):\n{method}"
    files = {
        "test_evil.py": failing,
        "evil.svg": f"<svg xmlns='http://www.w3.org/2000/svg' onload='document.title=1'>{MARKUP}</svg>",
        "evil.html": MARKUP,
        "two\nlines.txt": "A name that looks like another.",
    }
    runs = {"calls": [{"tool": "run_tests", "args": {}}]}
    finish = {"calls": [{"tool": "finish", "args": {"title": "Done", "summary": MARKUP}}]}
    body = {"files": files, "prompt": "Test.", "model": cassette(tmp_path, [runs, finish])}
    made = await api.post("/sessions", json=body)
    session = made.json()["id"]
    await until_idle(api, session)
    await page.goto(f"{up.url}/s/{session}?panel=tests&file=evil.svg")
    await expect(page.get_by_role("region", name="Tests").get_by_text("<script>").first).to_be_visible()
    await expect(page.locator(".cm-content")).to_contain_text("<svg xmlns=")
    await expect(page.get_by_role("treeitem").filter(has_text="two↵lines.txt")).to_be_visible()
    await assert_nothing_runs(page)
    await page.goto(f"{up.url}/s/{session}?panel=terminal&file=evil.html")
    await page.get_by_role("button", name="Open a terminal").last.click()
    await expect(page.locator(".xterm-rows")).to_contain_text("$")
    await page.keyboard.type("cat evil.html; echo; echo e''nd\n")
    await expect(page.locator(".xterm-rows")).to_contain_text("end")
    await expect(page.locator(".cm-content")).to_contain_text("<script>")
    await assert_nothing_runs(page)

    # The file itself is a download that no browser runs, also if its address is opened.
    answer = await page.context.request.get(f"{up.url}/api/v1/sessions/{session}/files/evil.html")
    assert answer.headers["content-disposition"].startswith("attachment")
    assert "sandbox" in answer.headers["content-security-policy"]


async def test_values_in_the_debugger_are_text(page: Page, up: Up, api: httpx.AsyncClient) -> None:
    program = f"def show(evil):\n    print(evil)\n\nprint({MARKUP!r}, flush=True)\nshow({MARKUP!r})\n"
    made = await api.post("/sessions", json={"files": {"evil.py": program}})
    session = made.json()["id"]
    await until_prepared(api, session)
    debugger = f"/sessions/{session}/debugger"
    lines = {"path": "evil.py", "breakpoints": [{"line": 2, "condition": ""}]}
    assert (await api.put(f"{debugger}/breakpoints", json=lines)).status_code == 200
    assert (await api.post(debugger, json={"path": "evil.py"})).status_code < 300
    await page.goto(f"{up.url}/s/{session}?file=evil.py&panel=debugger")
    for name in ("Variables", "Output"):
        region = page.get_by_role("region", name=name)
        await expect(region.get_by_text("<img src=//evil.example").first).to_be_visible()
    await assert_nothing_runs(page)
    await api.delete(debugger)


async def test_sessions_changes_and_playbacks_of_others_are_not_found(
    browser: Browser, up: Up, api: httpx.AsyncClient, change: dict[str, str]
) -> None:
    user = (await api.post("/users", json={"name": "mallory", "role": "member"})).json()
    link = (await api.post(f"/users/{user['id']}/link")).json()["url"]
    context = await browser.new_context()
    context.set_default_timeout(TIMEOUT_S * 1000)
    answer = await context.request.post(f"{up.url}/api/v1/login/link", data={"link": link.partition("#")[2]})
    assert answer.status == 200
    page = await context.new_page()
    for path in ("/s/{session}", "/s/{session}/play", "/c/{change}"):
        await page.goto(up.url + path.format(**change))
        await expect(page.get_by_text("There is nothing here, or it is not yours to see.")).to_be_visible()
    await context.close()


async def test_the_page_cannot_be_framed_and_its_cookie_is_out_of_reach(page: Page, up: Up) -> None:
    answer = await page.goto(f"{up.url}/")
    assert answer is not None
    policy = answer.headers["content-security-policy"]
    assert "frame-ancestors 'none'" in policy and "script-src 'self';" in policy
    assert "hutch_session" not in await page.evaluate("document.cookie")
    cookies = [each for each in await page.context.cookies() if each["name"] != "hutch_theme"]
    async with page_of_another(f"<iframe src='{up.url}/'></iframe>") as port:
        other = await page.context.new_page()
        async with other.expect_event("console", lambda said: "frame-ancestors" in said.text):
            await other.goto(f"http://127.0.0.1:{port}/")
        assert await other.frames[1].locator("main").count() == 0
        await other.close()
    assert all(each["httpOnly"] and each["sameSite"] in ("Lax", "Strict") for each in cookies)
    assert cookies != []
