"""A session with events that were deleted from the database: every command says which, and ends with 3."""

import json
from collections.abc import Iterator

import pytest

from hutch.cli import exit_codes
from hutch.cli.screens.app import SessionsApp
from tests.cli.attached_users import ServerHome, new_server_home
from tests.cli.test_full_screen_app import choose, driven, see
from tests.store.direct_sql import sql

pytestmark = pytest.mark.anyio
DONE = {"text": "Done.", "times": 100}
DELETE = (
    "DELETE FROM events WHERE seq BETWEEN 4 AND 6 AND log_id = (SELECT id FROM logs WHERE session_id = ?)"
)


def damaged_session(server: ServerHome) -> str:
    """A session of 11 events, three of which are deleted."""
    id = server.new(DONE)
    server.until(id, "idle")
    for word in ("one", "two", "three"):
        assert server.hutch("shell", "-s", id, "--", "echo", word).returncode == 0
    sql(server.data / "hutch.db", DELETE, given=(id,))
    return id


def missing(id: str) -> str:
    return f"Events 4 to 6 of session {id} are missing from the database."


@pytest.fixture(scope="module")
def server() -> Iterator[ServerHome]:
    with new_server_home() as opened, opened.up():
        yield opened


@pytest.fixture(scope="module")
def damaged(server: ServerHome) -> str:
    return damaged_session(server)


@pytest.mark.parametrize(
    "words", [("attach",), ("log", "-f"), ("sessions", "send", "--wait")], ids=lambda words: words[0]
)
def test_a_command_that_follows_it_names_the_missing_events_and_ends(
    server: ServerHome, damaged: str, words: tuple[str, ...]
) -> None:
    ended = server.hutch(*words, damaged, *(["hello"] if "send" in words else []))
    assert ended.returncode == exit_codes.NO, ended.stderr
    assert missing(damaged) in ended.stdout + ended.stderr


def test_json_output_ends_with_an_error_code_after_the_earlier_entries(
    server: ServerHome, damaged: str
) -> None:
    ended = server.hutch("attach", "--json", damaged)
    assert ended.returncode == exit_codes.NO
    assert [json.loads(line)["seq"] for line in ended.stdout.splitlines()] == [1, 2, 3]
    error = json.loads(ended.stderr)["error"]
    assert error["code"] == "record_damaged" and missing(damaged) in error["detail"]


def test_attach_shows_the_earlier_events_and_ends(server: ServerHome, damaged: str) -> None:
    with server.visitor("attach", damaged) as ada:
        ada.see("the workspace is ready.*Events 4 to 6 of session")
        assert ada.leave() == exit_codes.NO
    assert b"waiting for the server" not in ada.shown


async def test_the_full_screen_app_reports_it(
    server: ServerHome, damaged: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HUTCH_HOME", str(server.place / "home"))
    app = SessionsApp()
    async with driven(app, (200, 24)) as pilot:
        await choose(pilot, app, damaged)
        await pilot.press("enter")
        await see(pilot, app, f"the workspace is ready.*{missing(damaged)}.*the record is damaged")


def test_no_receipt_is_signed_for_it(server: ServerHome, damaged: str) -> None:
    refused = server.hutch("receipt", damaged)
    assert (refused.returncode, refused.stdout) == (exit_codes.NO, "")
    assert "Events 4 to 6 are missing." in refused.stderr


@pytest.mark.parametrize(
    ("deleted", "output"), [("seq > 2", "Events 3 to "), ("seq = 1", "Event 1 of")], ids=["tail", "first"]
)
def test_events_that_were_deleted_while_no_server_ran(deleted: str, output: str) -> None:
    with new_server_home() as server:
        with server.up():
            id = server.new(DONE)
            server.until(id, "idle")
            assert server.hutch("shell", "-s", id, "--", "true").returncode == 0
            assert server.hutch("shell", "-s", id, "--", "echo", "one").returncode == 0
        sql(server.data / "hutch.db", f"DELETE FROM events WHERE {deleted}")
        with server.up():
            ended = server.hutch("attach", id)
            receipt = server.hutch("receipt", id)
    assert (ended.returncode, receipt.returncode, receipt.stdout) == (exit_codes.NO, exit_codes.NO, "")
    assert output in ended.stderr and f"session {id}" in ended.stderr
    assert "missing" in receipt.stderr


CUT = (
    "DELETE FROM events WHERE seq > 3 AND log_id = (SELECT id FROM logs WHERE session_id = ?1)",
    "DELETE FROM statements WHERE log_id = (SELECT id FROM logs WHERE session_id = ?1)",
    "UPDATE logs SET seq = 3, hash = (SELECT hash FROM events WHERE log_id = logs.id AND seq = 3) "
    "WHERE session_id = ?1",
)
NOT_SIGNED = "UPDATE logs SET signed_seq = 0 WHERE session_id = ?1"
NOT_ENDED = "UPDATE logs SET ended = 0 WHERE session_id = ?1"


@pytest.mark.parametrize(
    "more", [(), (NOT_SIGNED,), (NOT_SIGNED, NOT_ENDED)], ids=["signed", "ended", "consistent"]
)
def test_a_log_whose_end_was_cut_is_not_followed_for_ever(server: ServerHome, more: tuple[str, ...]) -> None:
    id = server.new(DONE)
    server.until(id, "idle")
    assert server.hutch("shell", "-s", id, "--", "echo", "one").returncode == 0
    assert server.hutch("sessions", "end", id).returncode == 0
    server.until(id, "ended")
    sql(server.data / "hutch.db", *CUT, *more, given=(id,))
    ended = server.hutch("log", "-f", "--json", id)
    assert ended.returncode == exit_codes.NO, ended.stderr
    assert [json.loads(line)["seq"] for line in ended.stdout.splitlines()] == [1, 2, 3]
    assert f"The log of session {id} is damaged. " in ended.stderr
    attached = server.hutch("attach", id)
    assert attached.returncode == exit_codes.NO, attached.stdout
    assert "The session has ended, and the event that says so is missing." in attached.stderr
