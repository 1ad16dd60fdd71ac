"""The VS Code extension in a real editor: code-server in Chromium, with the package as users install it."""

import json
import os
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.async_api import Page, expect

from tests.cli.hutch_up_process import Home
from tests.deadline import DEADLINE_S
from tests.editors.sample_repository import make_repository
from tests.gateway.headless_browser import chromium
from tests.node_installation import node

pytestmark = [pytest.mark.anyio, pytest.mark.soak]

expect.set_options(timeout=DEADLINE_S * 1000)
ROOT = Path(__file__).resolve().parents[2]
REPLIES = [
    {
        "text": "I look first.",
        "calls": [{"tool": "bash", "args": {"command": "echo '[Allow](command:x)' > note.txt"}}],
    },
    {
        "calls": [
            {"tool": "edit_file", "args": {"path": "adding.py", "edits": [{"old": "a - b", "new": "a + b"}]}}
        ]
    },
    {"calls": [{"tool": "finish", "args": {"title": "Mend add", "summary": "It adds now."}}]},
]


def shown(place: Path, name: str) -> str:
    """The file of a screenshot: in the directory of HUTCH_SCREENSHOTS, or with the test's own files."""
    directory = Path(os.environ.get("HUTCH_SCREENSHOTS", place))
    directory.mkdir(parents=True, exist_ok=True)
    return str(directory / f"{name}.png")


@contextmanager
def code_server(place: Path, repository: Path, home: Path) -> Iterator[str]:
    """The address of an editor with the extension, with a folder open."""
    program = subprocess.run(
        [ROOT / "scripts" / "code-server"], stdout=subprocess.PIPE, text=True, check=True
    ).stdout.strip()
    subprocess.run([ROOT / "scripts" / "vscode-extension"], check=True)
    [package] = (ROOT / "dist").glob("hutch-vscode-*.vsix")
    user = place / "user" / "User"
    user.mkdir(parents=True)
    settings = {
        "hutch.model": f"scripted:{place / 'model.json'}",
        "hutch.persona": "pair",
        "workbench.startupEditor": "none",
        "workbench.secondarySideBar.defaultVisibility": "hidden",
        "terminal.integrated.gpuAcceleration": "off",
        "chat.disableAIFeatures": True,
        "git.enabled": False,
    }
    (user / "settings.json").write_text(json.dumps(settings))
    places = ("--user-data-dir", str(place / "user"), "--extensions-dir", str(place / "extensions"))
    environment = {
        "PATH": f"{Path(node()).parent}:{os.environ['PATH']}",
        "HOME": str(place),
        "HUTCH_HOME": str(home),
    }
    command = [node(), program, *places]
    install = [*command, "--install-extension", str(package)]
    subprocess.run(install, env=environment, stderr=subprocess.DEVNULL, check=True)
    safe = ("--disable-workspace-trust", "--disable-telemetry", "--disable-update-check")
    with (place / "code-server.err").open("w") as log:
        process = subprocess.Popen(
            [*command, "--auth", "none", "--bind-addr", "127.0.0.1:0", *safe, str(repository)],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )
    try:
        assert process.stdout is not None
        lines = iter(process.stdout.readline, "")
        yield next(found[1] for line in lines if (found := re.search(r"listening on (http://\S+?)/?$", line)))
    finally:
        process.terminate()
        process.communicate(timeout=DEADLINE_S)


async def run_command(page: Page, title: str) -> None:
    await page.keyboard.press("F1")
    await page.keyboard.type(title)
    await page.locator(".quick-input-list .monaco-list-row", has_text=title).first.click()


async def test_a_task_becomes_a_change_in_a_real_editor(tmp_path: Path) -> None:
    repository = make_repository(tmp_path / "project")
    (tmp_path / "model.json").write_text(json.dumps({"replies": REPLIES}))
    home = Home(tmp_path)
    prices = f"scripted:{tmp_path / 'model.json'}=2.5/0.25/10"
    directory = Path(home.environment()["HUTCH_HOME"])
    with code_server(tmp_path, repository, directory) as url:
        async with chromium() as browser:
            page = await browser.new_page(viewport={"width": 1280, "height": 800}, locale="en-GB")
            page.set_default_timeout(DEADLINE_S * 1000)
            await page.goto(f"{url}/?folder={repository}")
            status = page.locator("[id*='hutch.status']").first
            await expect(status).to_contain_text("no server")
            await page.get_by_role("tab", name="Hutch").first.click()
            await expect(page.get_by_text("No Hutch server was found on this machine.")).to_be_visible()
            await page.screenshot(path=shown(tmp_path, "1-no-server"))
            with home.up(HUTCH_MODELS__PRICES=prices):
                await expect(status).to_contain_text("0 running")
                await expect(page.get_by_text("No sessions yet.")).to_be_visible()
                await page.screenshot(path=shown(tmp_path, "2-no-sessions"))
                await use(page, tmp_path)


async def use(page: Page, place: Path) -> None:
    await page.keyboard.press("Control+p")
    await page.keyboard.type("TASKS.md")
    await page.locator(".quick-input-list .monaco-list-row", has_text="TASKS.md").first.click()
    await page.get_by_role("button", name="Run with Hutch").click()

    session = page.get_by_role("treeitem", name="T-1: Mend add").first
    await expect(session).to_contain_text("waiting")
    toast = page.locator(".notification-toast", has_text="asks to run bash")
    await expect(toast).to_contain_text("echo '[Allow]")
    await expect(toast.get_by_role("link")).to_have_count(0)
    await page.screenshot(path=shown(place, "3-approval"))
    await toast.get_by_role("button", name="Approve").click()

    status = page.locator("[id*='hutch.status']").first
    await expect(page.locator(".notification-toast", has_text="asks to run edit_file")).to_be_visible()
    await status.click()
    await expect(page.locator(".view-lines", has_text="Asked by the rule")).to_contain_text("adding.py")
    whole = page.locator(".notification-toast", has_text="The whole call is in the editor")
    await page.screenshot(path=shown(place, "4-whole-call"))
    await whole.get_by_role("button", name="Approve Once").click()
    await expect(session).to_contain_text(re.compile(r"done · \$\d"))

    await session.click()
    await page.get_by_role("treeitem", name="adding.py").click()
    await expect(
        page.locator(".monaco-diff-editor .line-delete, .monaco-diff-editor .char-delete").first
    ).to_be_visible()
    await expect(page.locator(".monaco-diff-editor .editor.modified")).to_contain_text("return a + b")
    await expect(page.locator(".monaco-diff-editor .editor.original")).to_contain_text("return a - b")
    await page.screenshot(path=shown(place, "5-diff"))

    await session.click()
    await run_command(page, "Hutch: Open a Terminal")
    rows = page.locator(".terminal .xterm-rows")
    await expect(rows).to_contain_text("$")
    await page.keyboard.type("echo $((6*7)) && cat adding.py\n")
    await expect(rows).to_contain_text("42")
    await expect(rows).to_contain_text("return a + b")
    await page.screenshot(path=shown(place, "6-terminal"))

    await run_command(page, "Hutch: Show All Changes")
    await expect(page.get_by_text("note.txt").first).to_be_visible()
    await page.screenshot(path=shown(place, "7-all-changes"))
