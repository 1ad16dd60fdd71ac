"""The menu of the full screen, with a real server, driven by keys and on a real terminal."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from textual.widgets import OptionList

from hutch.cli import exit_codes
from hutch.cli.command_table import BY_NAME
from hutch.cli.screens.app import SessionsApp
from hutch.cli.screens.dialogs import Confirm, NewSession, PatchScreen
from hutch.cli.screens.session_list import ListScreen
from hutch.cli.screens.session_menu import ENTRIES, GENERAL, Menu, MenuScreen, entries_for
from hutch.cli.screens.session_screen import SessionScreen
from tests.cli.attached_users import ServerHome, running_server
from tests.cli.project_with_failing_test import FILES, FIXES, call
from tests.cli.test_full_screen_app import SIZE, Driven, choose, driven, see, shown, until
from tests.forge.repositories import git, make_repository


@pytest.fixture(scope="module")
def server() -> Iterator[ServerHome]:
    with running_server() as opened:
        yield opened


@pytest.fixture
def app(server: ServerHome, monkeypatch: pytest.MonkeyPatch) -> SessionsApp:
    monkeypatch.setenv("HUTCH_HOME", str(server.place / "home"))
    return SessionsApp()


def names(state: str, *, is_local: bool = True) -> list[str]:
    return [each.name for each in entries_for({"state": state}, is_local=is_local)]


def test_every_entry_has_a_key_of_its_own_and_a_method() -> None:
    keys = [each.key for each in (*ENTRIES, *GENERAL)]
    assert len(keys) == len(set(keys))
    for entry in (*ENTRIES, *GENERAL):
        assert hasattr(MenuScreen, f"menu_{entry.name}") or entry.name in ("attach", "new")
        assert entry.command.split()[1] in BY_NAME


def test_the_entries_fit_the_state_of_the_session() -> None:
    assert {"cancel", "pause"} <= {*names("running")} and "undo" not in names("running")
    assert {"undo", "edit", "shell"} <= {*names("idle")} and "cancel" not in names("idle")
    assert "resume" in names("paused") and "resume" not in names("idle")
    assert names("ended") == ["attach", "diff", "merge", "log", "new", "settings"]
    assert "log" not in names("ended", is_local=False)
    assert [each.name for each in entries_for(None, is_local=True)] == ["new", "settings"]


async def open_menu(pilot: Driven, app: SessionsApp) -> None:
    """Open the menu of the list, when the screen before it has closed."""
    await until(pilot, lambda: isinstance(app.screen, ListScreen))
    await pilot.press("m")
    await until(pilot, lambda: isinstance(app.screen, Menu))


@pytest.mark.anyio
async def test_the_menu_of_a_session_fits_a_small_terminal(server: ServerHome, app: SessionsApp) -> None:
    id = server.new({"text": "Hello.", "times": 10}, purpose="menu of mine", prompt="Say hello")
    server.until(id, "idle", "parked")
    async with driven(app) as pilot:
        await choose(pilot, app, id)
        await open_menu(pilot, app)
        options = app.screen.query_one(OptionList)
        assert options.virtual_size.height <= options.size.height  # all of it is visible
        text = shown(app)
        for words in ("menu of mine", f"hutch edit {id[-6:]} PATH", "Undo its last run", "Show the settings"):
            assert words in text
        await pilot.press("d")
        await until(pilot, lambda: isinstance(app.screen, PatchScreen))
        await pilot.press("escape")
        await open_menu(pilot, app)
        await pilot.press("down", "up", "enter")  # the first entry
        await until(pilot, lambda: isinstance(app.screen, SessionScreen))
        await pilot.press("f2")
        await until(pilot, lambda: isinstance(app.screen, Menu))
        assert "Attach" not in shown(app) and "New session" not in shown(app)
        await pilot.press("p")
        await see(pilot, app, "paused")
        await pilot.press("f2")
        await until(pilot, lambda: isinstance(app.screen, Menu))
        await pilot.press("r")
        await see(pilot, app, "resumed by you")
        await pilot.press("escape")
        await open_menu(pilot, app)
        await pilot.press("n")
        await until(pilot, lambda: isinstance(app.screen, NewSession))
        await pilot.press("escape")
        await open_menu(pilot, app)
        await pilot.press("escape")
        await open_menu(pilot, app)
        await pilot.press("x")
        await until(pilot, lambda: isinstance(app.screen, Confirm))
        await pilot.press(*"yes", "enter")
        await see(pilot, app, f"{id[-6:]} +ended")


@pytest.mark.anyio
async def test_a_run_is_undone_and_a_change_merged(
    server: ServerHome, app: SessionsApp, tmp_path: Path
) -> None:
    writes = call("write_file", path="a.txt", content="one\n")
    undone = server.new({"calls": [writes]}, {"text": "Written.", "times": 10}, prompt="Write")
    server.until(undone, "idle", "parked")
    repo = server.place / "repo"
    make_repository(repo, FILES)
    model = server.model(*FIXES)
    made = server.json(
        "sessions", "new", "--repo", str(repo), "--deliver", "--model", model, "--prompt", "Mend add"
    )["id"]
    server.until(made, "idle", "parked")
    async with app.run_test(size=SIZE, notifications=True) as pilot:
        await choose(pilot, app, undone)
        await open_menu(pilot, app)
        await pilot.press("u")
        await until(pilot, lambda: isinstance(app.screen, Confirm))
        await pilot.press(*"yes", "enter")
        await until(pilot, lambda: "a.txt" not in server.hutch("files", "ls", undone).stdout)
        await open_menu(pilot, app)
        await pilot.press("m")
        await see(pilot, app, "has no open")
        await until(pilot, lambda: server.json("sessions", "show", made)["delivered"])
        await choose(pilot, app, made)
        await open_menu(pilot, app)
        await pilot.press("m")
        await see(pilot, app, "Merge chg_.*Add instead of subtracting, into")
        await pilot.press(*"yes", "enter")
        await see(pilot, app, "Merged into")
    assert "Add instead of subtracting" in git(repo, "log", "--oneline", "main")


def test_commands_run_on_the_terminal_below_the_screen(server: ServerHome) -> None:
    (server.place / "work/a.txt").write_text("before\n")
    made = server.json("sessions", "new", "--file", str(server.place / "work/a.txt"), "--purpose", "below it")
    server.until(made["id"], "idle", "parked")
    script = server.place / "editor.sh"
    script.write_text('#!/bin/sh\necho edited > "$1"\n')
    script.chmod(0o755)
    with server.visitor(EDITOR=str(script)) as ada:
        ada.see("below it")
        ada.type("m")
        ada.see("Escape goes back")
        ada.type("l")
        ada.see("the workspace is ready|prepared")
        ada.see("Press Enter to go back")
        ada.type("\r")
        ada.see("below it")
        ada.type("m")
        ada.see("Escape goes back")
        ada.type("t")
        ada.see("[Tt]est")
        ada.see("Press Enter to go back")
        ada.type("\r")
        ada.see("below it")
        ada.type("m")
        ada.see("Escape goes back")
        ada.type("e")
        ada.see("The path of the file")
        ada.type("a.txt\r")
        ada.see(r"a\.txt: saved once")
        ada.see("Press Enter to go back")
        ada.type("\r")
        ada.see("below it")
        ada.type("m")
        ada.see("Escape goes back")
        ada.type("s")
        ada.see(r"\$ |# ")
        ada.type("cat a.txt; exit 3\r")
        ada.see("edited")
        ada.see("Press Enter to go back")
        ada.type("\x03\r")
        ada.see("below it")
        ada.type("q")
        assert ada.leave() == exit_codes.OK
    assert server.hutch("files", "cat", made["id"], "a.txt").stdout == "edited\n"
