"""`hutch` alone: the full screen with a real server, driven by keys."""

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot
from textual.widgets import Input, RichLog, Static

from hutch.cli import exit_codes
from hutch.cli.render.transcript import Line
from hutch.cli.screens.app import SessionsApp, StartServer
from hutch.cli.screens.dialogs import Confirm, Help, NewSession, PatchScreen
from hutch.cli.screens.session_list import ListScreen, SessionTable
from hutch.cli.screens.session_screen import SessionScreen
from hutch.cli.screens.transcript_panel import TranscriptView
from tests.cli.attached_users import ServerHome, new_server_home, running_server
from tests.cli.project_with_failing_test import call
from tests.deadline import DEADLINE_S

pytestmark = pytest.mark.anyio
TIMEOUT_S = DEADLINE_S
SIZE = (80, 24)


@pytest.fixture(scope="module")
def server() -> Iterator[ServerHome]:
    with running_server() as opened:
        yield opened


@pytest.fixture
def app(server: ServerHome, monkeypatch: pytest.MonkeyPatch) -> SessionsApp:
    monkeypatch.setenv("HUTCH_HOME", str(server.place / "home"))
    return SessionsApp()


Driven = Pilot[None]


@asynccontextmanager
async def driven(app: SessionsApp, size: tuple[int, int] = SIZE) -> AsyncIterator[Driven]:
    async with app.run_test(size=size) as pilot:
        yield pilot


async def until(pilot: Driven, is_so: Callable[[], Any]) -> None:
    """Wait for something, and then for what the screen still has to do: a new one is composed later."""
    async with asyncio.timeout(TIMEOUT_S):
        while not is_so():
            await asyncio.sleep(0.05)
            await pilot.pause()
        await pilot.pause()


def shown(app: SessionsApp) -> str:
    """All that the screen shows, row by row."""
    return "\n".join(
        "".join(segment.text for segment in strip) for strip in app.screen._compositor.render_strips()
    )


async def see(pilot: Driven, app: SessionsApp, pattern: str) -> None:
    try:
        await until(pilot, lambda: re.search(pattern, shown(app), re.S))
    except TimeoutError:
        raise AssertionError(f"{pattern} is not in:\n{shown(app)}") from None


async def choose(pilot: Driven, app: SessionsApp, session_id: str) -> None:
    """Put the cursor on a session."""
    screen = app.screen
    assert isinstance(screen, ListScreen)
    await until(pilot, lambda: session_id in [each["id"] for each in screen.sessions])
    at = [each["id"] for each in screen.sessions].index(session_id)
    screen.query_one(SessionTable).move_cursor(row=at, animate=False)
    await pilot.pause()


async def test_a_session_is_previewed_opened_and_answered(server: ServerHome, app: SessionsApp) -> None:
    id = server.new(
        {"text": "I will look.", "calls": [call("bash", command="echo seen-42")]},
        {"calls": [call("ask_user", question="Which colour?")]},
        {"text": "So be it.", "times": 100},
        prompt="Look around",
        persona="pair",
    )
    async with driven(app) as pilot:
        await see(pilot, app, f"{id[-6:]} +waiting")
        await choose(pilot, app, id)
        await see(pilot, app, "I will look.*Allow bash")
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, SessionScreen))
        await see(pilot, app, r"session and always allow: bash echo seen-42.*\[y\]es \[s\]ession")
        await pilot.press("y")
        await see(pilot, app, r"\[n\]o > +y")  # a key by itself answers nothing
        await pilot.press("backspace", "a", "enter")
        await see(pilot, app, "'a' is no answer to this. Answer yes, session, always or no")
        await pilot.press("y")
        await pilot.press("enter")
        await see(pilot, app, "you allowed it once.*seen-42.*Which colour.*answer:")
        await pilot.press(*"blue", "enter")
        await see(pilot, app, "you: blue.*So be it.*idle")
        await pilot.press(*"/nonsense", "enter")
        await see(pilot, app, "There is no command /nonsense")
        await pilot.press(*"more", "enter")
        await see(pilot, app, "you: more.*So be it")
        await pilot.press("escape")
        await until(pilot, lambda: isinstance(app.screen, ListScreen))
        await see(pilot, app, f"{id[-6:]} +idle")


async def test_helpers_are_shown_below_their_parent(server: ServerHome, app: SessionsApp) -> None:
    delegates = {"calls": [call("delegate", tasks=[{"task": "Look at one"}, {"task": "Look at two"}])]}
    server.new(delegates, {"text": "So be it.", "times": 100}, prompt="Have it looked at")
    async with driven(app, (120, 40)) as pilot:
        await see(pilot, app, "Have it looked at.*└─ Look at one.*└─ Look at two")


async def test_a_new_session_is_created_and_opened(server: ServerHome, app: SessionsApp) -> None:
    model = server.model({"text": "Hello there.", "times": 100})
    async with driven(app) as pilot:
        await see(pilot, app, "sessions, ")
        await pilot.press("n")
        await until(pilot, lambda: isinstance(app.screen, NewSession))
        await pilot.press("escape")
        await until(pilot, lambda: isinstance(app.screen, ListScreen))
        await pilot.press("n")
        await until(pilot, lambda: isinstance(app.screen, NewSession))
        await see(pilot, app, "Escape: cancel")  # it fits the smallest terminal
        app.screen.query_one("#repository").value = ""  # type: ignore[attr-defined]
        app.screen.query_one("#model").value = model  # type: ignore[attr-defined]
        await pilot.press(*"Greet", "enter")
        await until(pilot, lambda: isinstance(app.screen, SessionScreen))
        await see(pilot, app, "you: Greet.*Hello there.")
        await pilot.press("escape")
        await see(pilot, app, "Greet")


async def test_a_refused_new_session_leaves_the_form_as_it_was_typed(
    server: ServerHome, app: SessionsApp
) -> None:
    async with driven(app) as pilot:
        await see(pilot, app, "sessions, ")
        await pilot.press("n")
        await until(pilot, lambda: isinstance(app.screen, NewSession))
        app.screen.query_one("#repository", Input).value = ""
        model = app.screen.query_one("#model", Input)
        model.value = "nonsense"
        await pilot.press(*"Greet", "enter")
        await see(pilot, app, "nonsense.*Escape: cancel.*nonsense")
        assert app.screen.query_one("#prompt", Input).value == "Greet"
        model.value = server.model({"text": "Hello there.", "times": 100})
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, SessionScreen))
        await see(pilot, app, "you: Greet.*Hello there.")


async def test_a_line_that_cannot_be_sent_comes_back(server: ServerHome, app: SessionsApp) -> None:
    id = server.new({"text": "Hello there.", "times": 100}, prompt="Greet")
    server.until(id, "idle")
    async with driven(app) as pilot:
        await choose(pilot, app, id)
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, SessionScreen))
        await see(pilot, app, "Hello there.")
        assert server.hutch("sessions", "end", id).returncode == exit_codes.OK
        await see(pilot, app, "the session has ended")
        await pilot.press(*"more", "enter")
        await see(pilot, app, "has ended.*> more")


async def test_a_session_is_paused_resumed_compared_and_ended_by_keys(
    server: ServerHome, app: SessionsApp
) -> None:
    id = server.new(
        {"calls": [call("write_file", path="a.txt", content="one\n")]},
        {"text": "Slowly.", "calls": [call("bash", command="sleep 600", timeout_s=600)], "times": 3},
        prompt="Write",
    )
    async with driven(app) as pilot:
        await choose(pilot, app, id)
        await see(pilot, app, f"{id[-6:]} +running.*Slowly")
        await pilot.press("p")
        await see(pilot, app, f"{id[-6:]} +paused")
        await pilot.press("d")
        await until(pilot, lambda: isinstance(app.screen, PatchScreen))
        await see(pilot, app, r"\+one")
        await pilot.press("escape")
        await until(pilot, lambda: isinstance(app.screen, ListScreen))
        await pilot.press("r")
        await see(pilot, app, f"{id[-6:]} +running")
        await pilot.press("x")
        await until(pilot, lambda: isinstance(app.screen, Confirm))
        await pilot.press(*"maybe not", "enter")
        await until(pilot, lambda: isinstance(app.screen, ListScreen))
        await see(pilot, app, f"{id[-6:]} +running")
        await pilot.press("x")
        await until(pilot, lambda: isinstance(app.screen, Confirm))
        await pilot.press(*"yes", "enter")
        await see(pilot, app, f"{id[-6:]} +ended")


async def test_search_help_and_untrusted_text(server: ServerHome, app: SessionsApp) -> None:
    server.new({"text": "x"}, purpose="needle [bold red]not markup[/] \x1b[31m")
    async with driven(app) as pilot:
        await see(pilot, app, "needle")
        await pilot.press("slash")
        await until(pilot, lambda: isinstance(app.focused, Input))
        await pilot.press(*"needle")
        await see(pilot, app, r"1 sessions.*/needle")
        await see(pilot, app, r"needle \[bold red\]not markup\[/\] \\x1b\[31m")
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.focused, SessionTable))
        await pilot.press("question_mark")
        await until(pilot, lambda: isinstance(app.screen, Help))
        await see(pilot, app, "q +quit; sessions continue")
        await pilot.press("escape")
        await until(pilot, lambda: isinstance(app.screen, ListScreen))
        await pilot.press("slash")
        await until(pilot, lambda: isinstance(app.focused, Input))
        await pilot.press(*"zzzz")
        await see(pilot, app, "No session matches")
        await pilot.press("escape")
        await see(pilot, app, "needle")


async def test_light_and_dark_and_wide(server: ServerHome, app: SessionsApp) -> None:
    async with driven(app, (140, 40)) as pilot:
        await see(pilot, app, "sessions, ")
        assert app.current_theme.dark
        await pilot.press("t")
        await until(pilot, lambda: not app.current_theme.dark)
        table, preview = app.screen.query_one(SessionTable), app.screen.query_one("#preview")
        assert table.region.y == preview.region.y
    again = SessionsApp()
    async with driven(again) as pilot:
        await see(pilot, again, "sessions, ")
        assert not again.current_theme.dark
        await pilot.press("t")


async def test_a_server_can_be_started_from_the_app(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with new_server_home() as server:
        monkeypatch.setenv("HUTCH_HOME", str(server.place / "home"))
        monkeypatch.setenv("HUTCH_SERVER__PORT", "0")
        app = SessionsApp()
        async with driven(app) as pilot:
            await until(pilot, lambda: isinstance(app.screen, StartServer))
            await see(pilot, app, "No server is running here")
            await pilot.press("s")
            await until(pilot, lambda: isinstance(app.screen, ListScreen))
            await see(pilot, app, "There are no sessions yet. Press n to create one.")
            assert server.hutch("down").returncode == exit_codes.OK
            await see(pilot, app, "Disconnected; waiting for the server")
            assert server.hutch("up", "--detach", HUTCH_SERVER__PORT="0").returncode == exit_codes.OK
            await see(pilot, app, "0 sessions, 0 running")
        assert server.hutch("down").returncode == exit_codes.OK


async def test_a_long_line_and_a_flood_are_shown_in_the_smallest_window(
    server: ServerHome, app: SessionsApp
) -> None:
    id = server.new(
        {"text": "word " * 500, "calls": [call("bash", command="seq 1 5000")]},
        {"text": "Enough.", "times": 10},
        prompt="Talk",
    )
    server.until(id, "idle")
    async with driven(app, (40, 12)) as pilot:
        await choose(pilot, app, id)
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, SessionScreen))
        await see(pilot, app, "Enough.")
        log = app.screen.query_one(RichLog)
        assert log.virtual_size.width <= 40
        assert isinstance(app.screen.query_one("#status"), Static)
        assert app.screen.query_one(Input).has_focus


async def test_lines_may_come_while_the_screen_is_being_closed(server: ServerHome, app: SessionsApp) -> None:
    async with driven(app) as pilot:
        await until(pilot, lambda: isinstance(app.screen, ListScreen))
        view = app.screen.query_one(TranscriptView)
        await view.remove_children()
        view.put([Line("late", "dim")])
        view.clear()


def test_a_real_terminal_is_restored(server: ServerHome) -> None:
    server.new({"text": "x"}, purpose="a real terminal")
    with server.visitor() as ada:
        ada.see("a real terminal")
        ada.type("q")
        assert ada.leave() == exit_codes.OK
    with server.visitor(TERM="dumb") as ada:
        ada.see("Usage: hutch")
        assert ada.leave() == exit_codes.OK


def test_without_a_terminal_the_help_is_printed(server: ServerHome, tmp_path: Path) -> None:
    result = server.hutch()
    assert (result.returncode, result.stdout[:13]) == (exit_codes.OK, "Usage: hutch ")
