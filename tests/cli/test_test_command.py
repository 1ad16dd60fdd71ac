"""`hutch test`: in a directory without a server, and in a session."""

import json
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from hutch.cli import exit_codes
from hutch.cli.render.test_results import result_lines
from tests.cli.attached_users import ServerHome, running_server
from tests.cli.hutch_up_process import HUTCH, TIMEOUT_S
from tests.cli.test_shell_command import Person, environment
from tests.cli.test_shell_log import events, hutch, place

__all__ = ["place"]
WRONG, RIGHT = "def add(a, b):\n    return a - b\n", "def add(a, b):\n    return a + b\n"
TESTS = (
    "import unittest\nfrom adding import add\nclass Adding(unittest.TestCase):\n"
    "    def test_add(self):\n        self.assertEqual(add(2, 3), 5)\n"
    "    def test_zero(self):\n        self.assertEqual(add(0, 0), 0)\n"
)
SLOW = (
    "import time, unittest\nclass Slow(unittest.TestCase):\n    def test_a(self): pass\n"
    "    def test_b(self):\n        print('waiting', flush=True)\n        time.sleep(600)\n"
)


class Watcher(Person):
    """A user at a terminal who has typed `hutch test …`."""

    program = (HUTCH, "test")


def write(place: Path, **files: str) -> None:
    for name, text in files.items():
        (place / "work" / f"{name}.py").write_text(text)


def test_tests_of_a_directory_run_in_a_jail_and_are_compared(place: Path) -> None:
    write(place, adding=WRONG, test_adding=TESTS)
    ran = hutch(place, "test")
    assert ran.returncode == exit_codes.NO
    lines = ran.stdout.splitlines()
    assert lines[:2] == [
        "FAILED test_adding.Adding.test_add at test_adding.py:5",
        "  AssertionError: -1 != 5",
    ]
    assert lines[-1].startswith("1 failed, 1 passed in ")
    assert ran.stderr == "hutch: running: python3 -m unittest\n"
    write(place, adding=RIGHT)
    fixed = hutch(place, "test", "--failed")
    assert (fixed.returncode, fixed.stdout.splitlines()[-1]) == (0, "fixed 1, 0 unchanged since the last run")
    again = hutch(place, "test")
    assert (again.returncode, again.stdout.splitlines()[-1]) == (0, "2 unchanged since the last run")
    assert [event["type"] for event in events(place) if event["type"].startswith("tests.")] == [
        "tests.started",
        "tests.run",
    ]


def test_json_has_every_test(place: Path) -> None:
    write(place, adding=RIGHT, test_adding=TESTS)
    ran = hutch(place, "test", "--json", "-t", "test_adding.Adding.test_zero")
    (event,) = map(json.loads, ran.stdout.splitlines())
    assert (ran.returncode, ran.stderr, event["type"], event["total"]) == (0, "", "tests.run", 1)
    assert event["cases"][0]["name"] == "test_adding.Adding.test_zero"


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["nothing.py"], exit_codes.BAD_REQUEST, "There is no file 'nothing.py'"),
        (["--failed"], exit_codes.BAD_REQUEST, "No tests have run in this session yet"),
        (["--timeout", "0"], exit_codes.BAD_REQUEST, "--timeout is 0"),
        (["-w", "/nonexistent"], exit_codes.BAD_REQUEST, "does not exist"),
        (["../x"], exit_codes.BAD_REQUEST, "not a path in the workspace"),
    ],
)
def test_wrong_usage_is_named(place: Path, words: list[str], code: int, message: str) -> None:
    write(place, adding=RIGHT, test_adding=TESTS)
    ran = hutch(place, "test", *words)
    assert (ran.returncode, message in ran.stderr) == (code, True)
    printed = json.loads(hutch(place, "test", "--json", *words).stderr)
    assert message in printed["error"]["detail"]


def test_a_directory_without_tests_a_missing_runner_and_a_limit_have_their_codes(place: Path) -> None:
    none = hutch(place, "test")
    assert (none.returncode, "No tests were found" in none.stderr) == (exit_codes.BAD_REQUEST, True)
    (place / "work/Cargo.toml").write_text("")
    missing = hutch(place, "test")
    assert missing.returncode == exit_codes.UNAVAILABLE
    assert "cargo is needed to run these tests" in missing.stdout
    (place / "work/Cargo.toml").unlink()
    write(place, test_slow=SLOW)
    slow = hutch(place, "test", "--timeout", "2")
    assert (slow.returncode, "took too long" in slow.stdout) == (exit_codes.LIMIT_REACHED, True)


def test_a_suite_without_its_runner_is_named_although_the_others_pass(place: Path) -> None:
    write(place, adding=RIGHT, test_adding=TESTS)
    (place / "work/Cargo.toml").write_text("")
    ran = hutch(place, "test")
    assert ran.returncode == exit_codes.OK
    assert ran.stdout.startswith("cargo test: no test ran: cargo is needed to run these tests.")
    assert ran.stdout.splitlines()[-1].endswith("; not run, since the runner is missing: cargo test")


def test_memory_that_ran_out_is_named_and_has_its_code(place: Path) -> None:
    eats = "import unittest\nclass Eats(unittest.TestCase):\n    def test_a(self): bytearray(900 << 20)\n"
    write(place, test_eats=eats)
    ran = hutch(place, "test", HUTCH_TESTS__MEMORY_BYTES="128MiB")
    assert ran.returncode == exit_codes.LIMIT_REACHED
    assert (
        "Memory ran out. The limit is tests.memory_bytes (128 MiB for all processes together)" in ran.stdout
    )


def test_a_connection_that_tests_try_is_blocked_named_and_recorded(place: Path) -> None:
    write(
        place,
        test_net=(
            "import unittest, urllib.request\nclass Net(unittest.TestCase):\n"
            "    def test_get(self): urllib.request.urlopen('http://packages.example.org/')\n"
        ),
    )
    ran = hutch(place, "test")
    assert ran.returncode == exit_codes.NO
    assert "hutch: blocked connection to packages.example.org:80" in ran.stderr
    assert [event["host"] for event in events(place) if event["type"] == "egress.attempted"] == [
        "packages.example.org"
    ]


def test_an_interrupt_keeps_the_results_so_far(place: Path) -> None:
    write(place, test_slow=SLOW)
    with subprocess.Popen(
        [HUTCH, "test"],
        cwd=place / "work",
        env=environment(place),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stderr is not None
        assert process.stderr.readline() == "hutch: running: python3 -m unittest\n"
        process.send_signal(signal.SIGINT)
        stdout, _ = process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == exit_codes.INTERRUPTED
    assert stdout.startswith("cancelled: ")
    (ran,) = [event for event in events(place) if event["type"] == "tests.run"]
    assert ran["cancelled"]


def test_on_a_terminal_progress_is_shown_and_tests_follow_changes(place: Path) -> None:
    write(place, adding=WRONG, test_adding=TESTS)
    tester = Watcher(place, "--watch")
    tester.see("1 failed, 1 passed")
    tester.see("waiting for changes")
    write(place, adding=RIGHT)
    tester.see("fixed 1, 1 unchanged")
    tester.see("waiting for changes")
    tester.type("\x03")
    assert tester.leave() == exit_codes.INTERRUPTED


@pytest.fixture(scope="module")
def home() -> Iterator[ServerHome]:
    with running_server() as opened:
        yield opened


def test_tests_of_a_session(home: ServerHome) -> None:
    session = home.new({"text": "Hello."})
    home.until(session, "idle", "parked")
    none = home.hutch("test", "-s", session)
    assert (none.returncode, "No tests were found" in none.stderr) == (exit_codes.BAD_REQUEST, True)
    for name, text in (("adding.py", WRONG), ("test_adding.py", TESTS)):
        home.hutch("shell", "-s", session, "--", "sh", "-c", f"cat > {name} <<'E'\n{text}E")
    ran = home.hutch("test", "-s", session, "--json")
    event = json.loads(ran.stdout)
    assert (ran.returncode, event["failed"], event["passed"]) == (exit_codes.NO, 1, 1)
    shown = home.hutch("log", session).stdout
    assert "tests.started" in shown and "1 passed, 1 failed, 0 skipped" in shown


def test_an_interrupt_ends_the_watch_of_a_session(home: ServerHome) -> None:
    session = home.new({"text": "Hello."})
    home.until(session, "idle", "parked")
    for name, text in (("adding.py", RIGHT), ("test_adding.py", TESTS)):
        home.hutch("shell", "-s", session, "--", "sh", "-c", f"cat > {name} <<'E'\n{text}E")
    with home.visitor("test", "-s", session, "--watch") as user:
        user.see("2 passed")
        user.see("waiting for changes")
        user.type("\x03")
        assert user.leave() == exit_codes.INTERRUPTED
    home.hutch("shell", "-s", session, "--", "sh", "-c", "echo >> adding.py")
    ran = home.hutch("test", "-s", session, "--json")  # would be refused beside one that the watch started
    assert ran.returncode == exit_codes.OK, ran.stderr
    assert home.hutch("log", session).stdout.count("tests.run ") == 2


def test_a_reason_of_several_lines_is_printed_line_by_line() -> None:
    reason = "The service db is not ready. Its last output:\nbooting\nbad \x1b[31mport"
    event = {"ok": False, "reason": reason}
    assert list(result_lines(event)) == [
        "no test ran: The service db is not ready. Its last output:",
        "  booting",
        "  bad \\x1b[31mport",
    ]
