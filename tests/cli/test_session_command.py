"""One command in a session, from a script: its output, and its exit code."""

import signal
import subprocess
from collections.abc import Iterator

import pytest

from hutch.cli import exit_codes
from tests.cli.attached_users import ServerHome, running_server
from tests.cli.hutch_up_process import HUTCH, TIMEOUT_S


@pytest.fixture(scope="module")
def server() -> Iterator[ServerHome]:
    with running_server() as opened:
        yield opened


@pytest.fixture(scope="module")
def session(server: ServerHome) -> str:
    id = server.new({"text": "Hello."})
    server.until(id, "idle", "parked")
    return id


def test_a_command_runs_in_a_session_with_its_exit_code(server: ServerHome, session: str) -> None:
    ran = server.hutch(
        "shell", "-s", session, "--", "sh", "-c", "pwd; echo 'a  b' >&2; echo x > made; exit 7"
    )
    assert (ran.returncode, ran.stderr) == (7, "a  b\n")
    assert server.hutch("files", "cat", session, "made").stdout == "x\n"
    again = server.hutch("shell", session, "--", "cat", "made")
    assert (again.returncode, again.stdout) == (0, "x\n")


def test_a_long_command_is_followed_to_its_end(server: ServerHome, session: str) -> None:
    command = "for i in 1 2 3 4 5; do echo line $i; sleep 0.5; done; exit 3"
    ran = server.hutch("shell", "-s", session, "--", "sh", "-c", command)
    assert (ran.returncode, ran.stdout.splitlines()) == (3, [f"line {i}" for i in range(1, 6)])
    for timeout_s in ("0.5", "1.5"):  # before and after a command continues in the background
        killed = server.hutch("shell", "-s", session, "--timeout", timeout_s, "--", "sleep", "60")
        named = f"Killed after {timeout_s} s (--timeout)." in killed.stderr
        assert (killed.returncode, named) == (exit_codes.LIMIT_REACHED, True), killed.stderr


def test_an_interrupt_reaches_the_command(server: ServerHome, session: str) -> None:
    command = "trap 'echo caught; exit 9' INT; echo ready; while :; do sleep 0.1; done"
    with subprocess.Popen(
        [HUTCH, "shell", "-s", session, "--", "bash", "-c", command],
        env=server.environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGINT)
        result, _ = process.communicate(timeout=TIMEOUT_S)
    assert (process.returncode, result) == (exit_codes.INTERRUPTED, "caught\n")


def test_a_command_with_a_terminal_is_refused(server: ServerHome, session: str) -> None:
    refused = server.hutch("shell", "-s", session, "--terminal", "t", "--", "ls")
    assert refused.returncode == exit_codes.BAD_REQUEST
