"""Takes the pictures of the web app in docs/images: `python scripts/screenshots.py`.

A server of its own with the sample, a real Chromium, and each page in both themes. Pages are
taken at 1200 x 720; pictures of more than 150 KB are refused.
"""

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
from playwright.sync_api import BrowserContext, sync_playwright

ROOT = Path(__file__).parents[1]
IMAGES = ROOT / "docs/images"
SAMPLE = ROOT / "samples/slugs"
CHROMIUM = "/usr/bin/chromium-headless-shell"
MAX_BYTES = 150_000
ASKS = {
    "text": "The tests pass. I push it.",
    "calls": [{"tool": "bash", "args": {"command": "git push origin main"}}],
}
PAGES = {  # name -> path, a text that is there when the page is ready
    "start": ("/start", "Welcome"),
    "home": ("/", "Push the slugs"),
    "session": ("/s/{repaired}?panel=tests&view=work&file=slugs.py", "slugs.py"),
    "playback": ("/s/{repaired}/play", "Link to this moment"),
    "review": ("/c/{change}", "Merge"),
    "tasks": ("/tasks?view=board", "Drop accents"),
}

TASKS = (  # title, state, owner, priority, labels, and the criteria with their marks
    (
        "Fix the flaky login test",
        "doing",
        "ada",
        "urgent",
        ("auth", "flaky"),
        ("x reproduce it", "  it passes 100 times"),
    ),
    ("Drop accents in slugs", "review", "persona:engineer", "high", ("slugs",), ("x cafe for café",)),
    ("Payment page in French and German", "todo", "", "medium", ("i18n",), ()),
    ("Upgrade to Python 3.13", "blocked", "bo", "", ("deps",), ()),
    ("Limit requests to the search", "todo", "", "low", (), ()),
    (
        "Dark theme of the shop",
        "todo",
        "bo",
        "",
        ("ui",),
        ("  contrast of 4.5", "  no flash while it loads", "  a cookie keeps it"),
    ),
    ("Write the release notes", "todo", "", "high", ("docs",), ()),
    ("Invoices show the wrong tax", "done", "bo", "high", ("bug",), ()),
    ("Remove the old export", "done", "ada", "", (), ()),
    ("Buy a larger server", "cancelled", "", "", (), ()),
)


@contextmanager
def serving(home: Path) -> Iterator[tuple[str, str, httpx.Client]]:
    """A server: its address, its one-time link, and a client of its API."""
    command = [str(ROOT / ".venv/bin/hutch"), "up", "--port", "0", "--json"]
    environment = {"HUTCH_HOME": str(home), "PATH": "/usr/bin:/bin"}
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as up:
        try:
            assert up.stdout is not None
            said = json.loads(up.stdout.readline())
            token = (home / "data/keys/local.token").read_text()
            headers = {"Authorization": f"Bearer {token}"}
            with httpx.Client(
                base_url=f"{said['url']}/api/v1", headers=headers, timeout=60, trust_env=False
            ) as api:
                yield said["url"], said["link"], api
        finally:
            up.terminate()


def fill(api: httpx.Client, place: Path) -> dict[str, str]:
    """Sessions and a change to show, by name."""
    files = {name: (SAMPLE / name).read_text() for name in ("slugs.py", "test_slugs.py")}
    shop = place / "shop"
    shop.mkdir()
    for name, text in files.items():
        (shop / name).write_text(text)
    who = ["-c", "user.name=Ada", "-c", "user.email=ada@example.org"]
    for words in (["init", "-q", "-b", "main"], ["add", "-A"], [*who, "commit", "-qm", "start"]):
        subprocess.run(["git", *words], cwd=shop, check=True)
    cassette = place / "engineer.json"
    cassette.write_text(json.dumps({"replies": [ASKS]}))
    prompt = "Make the failing test pass."
    demo = {"repository": str(shop), "prompt": prompt, "purpose": "Drop accents", "model": "scripted:demo"}
    repaired = open_session(api, "idle", **demo, deliver=True)
    asking = {"files": files, "prompt": "Push it.", "purpose": "Push the slugs", "persona": "pair"}
    waiting = open_session(api, "waiting", **asking, model=f"scripted:{cassette}")
    while not (changes := api.get(f"/changes?session={repaired}").json()["items"]):
        time.sleep(0.2)
    change = changes[0]
    comment = {
        "path": "slugs.py",
        "line": 9,
        "side": "new",
        "body": "Why not `casefold`?",
        "commit": change["commit"],
    }
    api.post(f"/changes/{change['id']}/comments", json=comment)
    add_tasks(api, shop, repaired)
    return {"repaired": repaired, "waiting": waiting, "change": change["id"]}


def add_tasks(api: httpx.Client, repository: Path, session: str) -> None:
    for title, state, owner, priority, labels, criteria in TASKS:
        fields = {"title": title, "state": state, "owner": owner, "priority": priority, "labels": labels}
        marked = [{"text": each[2:], "done": each.startswith("x")} for each in criteria]
        made = api.post("/tasks", json={**fields, "repository": str(repository), "criteria": marked})
        made.raise_for_status()
        if title.startswith("Upgrade"):
            api.patch(f"/tasks/{made.json()['id']}", json={"depends_on": ["T-1"]})
        if state == "review":
            link = {"kind": "session", "target": session}
            api.post(f"/tasks/{made.json()['id']}/links", json=link)


def open_session(api: httpx.Client, until: str, **body: object) -> str:
    made = api.post("/sessions", json=body)
    made.raise_for_status()
    session = str(made.json()["id"])
    while api.get(f"/sessions/{session}").json()["state"] != until:
        time.sleep(0.2)
    return session


def take(context: BrowserContext, url: str, name: str, theme: str, ids: dict[str, str]) -> None:
    path, shows = PAGES[name]
    page = context.new_page()
    page.goto(url + path.format(**ids))
    page.get_by_text(shows).first.wait_for()
    page.wait_for_timeout(1500)  # fonts and highlighting
    target = IMAGES / f"{name}-{theme}.png"
    page.screenshot(path=target)
    page.close()
    if target.stat().st_size > MAX_BYTES:
        sys.exit(f"{target.name} is {target.stat().st_size} bytes, over the limit of {MAX_BYTES}.")
    print(target.relative_to(ROOT))


def main() -> None:
    IMAGES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as directory, sync_playwright() as playwright:
        place = Path(directory)
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        with serving(place / "home") as (url, link, api):
            state = None
            ids: dict[str, str] = {}
            for name in PAGES:  # the start page is for a server without sessions
                if name == "home":
                    ids = fill(api, place)
                for theme in ("light", "dark"):
                    context = browser.new_context(
                        viewport={"width": 1200, "height": 720},
                        color_scheme="light" if theme == "light" else "dark",
                        locale="en-GB",
                        storage_state=state,
                    )
                    if state is None:
                        context.request.post(
                            f"{url}/api/v1/login/link", data={"link": link.partition("#")[2]}
                        )
                        state = context.storage_state()
                    take(context, url, name, theme, ids)
                    context.close()
        browser.close()


if __name__ == "__main__":
    main()
