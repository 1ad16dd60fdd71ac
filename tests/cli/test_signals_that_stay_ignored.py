"""Signals that are ignored when Hutch starts: by nohup, or in the background of a script.

`env --ignore-signal` starts a program as those do.
"""

import json
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.cli.hutch_up_process import HUTCH, TIMEOUT_S, Home
from tests.cli.project_with_failing_test import FIXES, Project, call
from tests.forked_command import Forked
from tests.gateway.mcp_server import eventually

HANGUP_AND_KEYS = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT)


@pytest.fixture
def place() -> Iterator[Path]:
    """A directory that a jail's user can reach."""
    directory = Path(tempfile.mkdtemp(prefix="hutch-test-"))
    directory.chmod(0o755)
    yield directory
    shutil.rmtree(directory)


def ignoring(*numbers: signal.Signals) -> tuple[str, ...]:
    return ("env", f"--ignore-signal={','.join(str(int(number)) for number in numbers)}")


def start(place: Path, *command: str, env: dict[str, str] | None = None) -> Forked:
    return Forked(
        command,
        cwd=place,
        env=env or Home(place).environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        ignoring=HANGUP_AND_KEYS,
    )


def send_all(process: Forked) -> None:
    for number in HANGUP_AND_KEYS:
        process.send_signal(number)


def test_a_server_ignores_them_and_stops_on_sigterm(place: Path) -> None:
    home = Home(place)
    with home.up(ignoring=HANGUP_AND_KEYS) as up:
        send_all(up.process)
        assert up.end() == 0  # a second signal that it hears would cut its end short
    shown = [json.loads(line) for line in home.hutch("logs", "--json").stdout.splitlines()]
    assert [line["signal"] for line in shown if line["event"] == "server.ending"] == ["SIGTERM"]


def test_nohup_protects_the_server_but_not_programs_in_its_jails(place: Path) -> None:
    home = Home(place)
    with home.up(under=("nohup",)) as up:
        up.process.send_signal(signal.SIGHUP)
        with httpx.Client(
            base_url=f"{up.url}/api/v1", headers=up.owner(), timeout=TIMEOUT_S, trust_env=False
        ) as client:
            path = f"/sessions/{client.post('/sessions', json={}).json()['id']}"
            eventually(lambda: client.get(path).json()["state"] == "idle")
            asked = {"command": "sh -c 'kill -HUP $$; echo survived'", "yield_s": TIMEOUT_S}
            ran = client.post(f"{path}/commands", json=asked).json()
        assert (ran["exit_code"], ran["stdout"]) == (128 + signal.SIGHUP, "")
        assert up.end() == 0


def test_a_server_that_ignores_ctrl_c_names_hutch_down(place: Path) -> None:
    process = start(place, HUTCH, "up", "--port", "0")
    try:
        assert process.stdout is not None
        assert process.stdout.readline().endswith("(hutch down stops it)\n")
        down = Home(place).hutch("down")
        assert (down.returncode, down.stdout) == (0, "The server has stopped.\n")
    finally:
        process.terminate()
        process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 0


def test_sigterm_ends_a_server_also_when_it_was_ignored(place: Path) -> None:
    home = Home(place)
    with home.up(ignoring=[signal.SIGTERM]) as up:
        try:
            down = home.hutch("down", "--force")
        finally:
            up.process.kill()
    assert (down.returncode, down.stdout) == (0, "The server has stopped.\n")


def test_a_run_continues(place: Path) -> None:
    project = Project(place)
    waits = {"text": "Wait for it.", "calls": [call("bash", command="sleep 2")]}
    command = (HUTCH, "run", "Mend add", "--model", project.cassette(waits, *FIXES))
    process = start(project.work, *command, env=project.environment())
    assert process.stdout is not None
    for line in process.stdout:
        if "sleep 2" in line:
            break
    send_all(process)
    _, said = process.communicate(timeout=TIMEOUT_S)
    assert (process.returncode, said) == (0, "")


def test_a_command_of_a_jailed_shell_continues(place: Path) -> None:
    (place / "work").mkdir()
    process = start(place, HUTCH, "shell", "-w", "work", "--", "sh", "-c", 'echo on; read word; echo "$word"')
    assert process.stdout is not None
    assert process.stdout.readline() == "on\n"
    send_all(process)
    assert process.communicate("still here\n", timeout=TIMEOUT_S) == ("still here\n", "")
    assert process.returncode == 0


def test_an_mcp_server_continues(place: Path) -> None:
    (place / "work").mkdir()
    process = start(place, HUTCH, "mcp", "serve", "-w", "work", "--plain-directory")
    asked = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    assert process.stdin is not None and process.stdout is not None
    process.stdin.write(json.dumps(asked) + "\n")
    process.stdin.flush()
    assert json.loads(process.stdout.readline())["id"] == 1
    send_all(process)
    process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 0


def test_a_run_gets_exit_codes_although_sigchld_was_ignored(place: Path) -> None:
    project = Project(place)
    command = [HUTCH, "run", "Mend add", "--model", project.cassette(*FIXES)]
    ran = subprocess.run(
        [*ignoring(signal.SIGCHLD), *command],
        cwd=project.work,
        env=project.environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
    )
    assert (ran.returncode, ran.stderr) == (0, "")


def test_processes_of_tests_have_default_signals_under_nohup() -> None:
    ran = subprocess.run(
        [
            *ignoring(*HANGUP_AND_KEYS, signal.SIGTERM),
            *(sys.executable, "-m", "pytest", "-p", "no:cacheprovider"),
            f"{Path(__file__)}::test_a_child_of_a_test_ignores_no_signal_that_ends_it",
        ],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=5 * TIMEOUT_S,
    )
    assert ran.returncode == 0, ran.stdout


@pytest.mark.parametrize("number", [*HANGUP_AND_KEYS, signal.SIGTERM])
def test_a_child_of_a_test_ignores_no_signal_that_ends_it(number: signal.Signals) -> None:
    ran = subprocess.run(["sh", "-c", f"kill -{int(number)} $$; echo survived"], capture_output=True)
    assert (ran.returncode, ran.stdout) == (-number, b"")
