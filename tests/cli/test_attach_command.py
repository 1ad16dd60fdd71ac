"""`hutch attach`: a person at a real terminal, a real server, and an agent that asks."""

import os
import signal
from collections.abc import Iterator

import pytest

from hutch.cli import exit_codes
from tests.cli.attached_users import ServerHome, new_server_home, running_server
from tests.cli.project_with_failing_test import call

PAIR = "pair"  # a persona that asks before every command


@pytest.fixture(scope="module")
def server() -> Iterator[ServerHome]:
    with running_server() as opened:
        yield opened


def test_attach_shows_a_session_and_sends_input(server: ServerHome) -> None:
    id = server.new(
        {"text": "I will look.", "pace_s": 0.01, "calls": [call("bash", command="echo seen-42")]},
        {"calls": [call("ask_user", question="Which colour?", choices=["red", "blue"])]},
        {"text": "I wait a little.", "calls": [call("bash", command="until [ -e go ]; do sleep 0.1; done")]},
        {"text": "So be it.", "times": 100},
        prompt="Look around",
        persona=PAIR,
    )
    with server.visitor("attach", id) as ada:
        ada.see("you: Look around")
        ada.see("I will look.")
        ada.see(r"Allow bash: echo seen")
        ada.see(r"session and always allow: bash echo seen.*\[y\]es \[s\]ession always \[n\]o")
        ada.type("y\r")
        ada.see("you allowed it once.*seen-42")
        ada.see("the agent asks: Which colour.*1  red.*2  blue.*answer, or 1 to 2: ")
        ada.type("2\r")
        ada.see("you: blue.*I wait a little.")
        ada.see(r"\[n\]o > ")
        ada.type("session\r")
        ada.see("you allowed it for this session.*running")
        ada.type("and be quick\r")
        ada.see("queued: and be quick")
        ada.type("\x03")
        ada.see(f"Detached; the session continues. Return with: hutch attach {id[-6:]}")
        assert ada.leave() == exit_codes.OK
    assert server.say("files", "put", id, "-", "go", stdin="").returncode == exit_codes.OK
    server.until(id, "idle")
    with server.visitor("attach", id[-6:]) as ada:
        ada.see("you: Look around.*you: and be quick.*So be it.*idle")
        ada.type("/nonsense\r")
        ada.see("There is no command /nonsense")
        ada.type("once more\r")
        ada.see("you: once more.*So be it")
        ada.type("/end enough\r")
        ada.see("the session has ended: enough")
        assert ada.leave() == exit_codes.OK


def test_a_line_that_is_no_answer_asks_again_and_a_no_may_have_a_reason(server: ServerHome) -> None:
    id = server.new(
        {"calls": [call("bash", command="rm -rf build")]},
        {"text": "I leave it.", "times": 100},
        prompt="Clean",
        persona=PAIR,
    )
    with server.visitor("attach", id) as ada:
        ada.see(r"\[n\]o > ")
        ada.type("\r")
        ada.type("absolutely not\r")
        ada.see("'absolutely not' is no answer to this. Answer yes")
        ada.type("no, absolutely not\r")
        ada.see("you denied it.*absolutely not.*I leave it.")
        ada.type("\x04")
        assert ada.leave() == exit_codes.OK


def test_a_run_is_paused_cancelled_and_undone_from_the_prompt(server: ServerHome) -> None:
    id = server.new(
        {"calls": [call("write_file", path="a.txt", content="one\n")]},
        {"text": "Now slowly.", "calls": [call("bash", command="sleep 600", timeout_s=600)], "times": 2},
        {"text": "Fine.", "times": 100},
        prompt="Write",
    )
    with server.visitor("attach", id) as ada:
        ada.see("Now slowly.*running: bash")
        ada.type("/pause\r")
        ada.see("paused by you.*paused")
        ada.type("/resume\r")
        ada.see("resumed by you.*Now slowly.*running: bash")
        ada.type("/cancel\r")
        ada.see("cancelled.*idle")
        ada.type("/diff\r")
        ada.see(r"\+one")
        ada.type("/undo\r")
        ada.see("you undid the last run")
        ada.type("/diff\r")
        ada.see("There are no changes")
        ada.type("/help\r")
        ada.see("/cancel    cancel the run")
        ada.type("/leave\r")
        assert ada.leave() == exit_codes.OK


def test_attach_survives_a_server_restart() -> None:
    with new_server_home() as server:
        with server.up():
            id = server.new({"text": "First."}, {"text": "Second.", "times": 9}, prompt="Begin")
            server.until(id, "idle")
            came = server.visitor("attach", id)
            ada = came.__enter__()
            ada.see("First.*idle")
        try:
            ada.see("disconnected; waiting for the server")
            with server.up():
                ada.see("parked")
                ada.type("go on\r")
                ada.see("you: go on.*Second.")
                ada.type("\x03")
                assert ada.leave() == exit_codes.OK
            assert ada.shown.count(b"First.") == 1
        finally:
            came.__exit__(None, None, None)


def test_sigterm_restores_the_terminal(server: ServerHome) -> None:
    id = server.new({"text": "Hello."}, prompt="Greet")
    with server.visitor("attach", id) as ada:
        ada.see("Hello.*idle")
        ada.process.send_signal(signal.SIGTERM)
        assert ada.leave() == exit_codes.OK


def test_a_narrow_window_and_a_long_line(server: ServerHome) -> None:
    id = server.new({"text": "Hello."}, prompt="Greet")
    with server.visitor("attach", id) as ada:
        ada.see("Hello.*idle")
        ada.resize(10, 30)
        ada.type("0123456789" * 6)
        ada.see("> [0-9]{26,28}")
        ada.type("\x15\x03")
        assert ada.leave() == exit_codes.OK


@pytest.mark.parametrize("more", [(), ("--json",)])
def test_attach_can_end_when_the_session_has_nothing_to_do(server: ServerHome, more: tuple[str, ...]) -> None:
    id = server.new({"text": "Hello."}, prompt="Greet")
    ran = server.hutch("attach", id, "--until-idle", *more)
    assert ran.returncode == exit_codes.OK and "Hello." in ran.stdout, ran.stderr
    again = server.hutch("attach", id, "--until-idle", "--after", "9999", *more)
    assert (again.returncode, again.stdout, again.stderr) == (exit_codes.OK, "", "")


def test_a_dumb_terminal_gets_plain_output(server: ServerHome) -> None:
    id = server.new({"text": "Hello."}, prompt="Greet")
    server.until(id, "idle")
    with server.visitor("attach", id, TERM="dumb") as ada:
        ada.see("Hello.")
        os.kill(ada.process.pid, signal.SIGINT)
        assert ada.leave() == exit_codes.INTERRUPTED
