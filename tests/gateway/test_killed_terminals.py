"""After a server was killed with open terminals, the log says that output may be missing."""

import json
import signal
import time
from pathlib import Path
from typing import Any

import httpx
import pytest
from websockets.sync.client import connect

from tests.cli.hutch_up_process import TIMEOUT_S, Home, Up
from tests.gateway.api_server import V1

OPENED = {"columns": 80, "rows": 24}


def client(up: Up) -> httpx.Client:
    return httpx.Client(base_url=f"{up.url}{V1}", headers=up.owner(), timeout=TIMEOUT_S, trust_env=False)


def new_session(http: httpx.Client) -> str:
    made = http.post("/sessions", json={"purpose": "terminals"})
    id, until = str(made.json()["id"]), time.monotonic() + TIMEOUT_S
    while http.get(f"/sessions/{id}").json()["state"] not in ("idle", "parked"):
        assert time.monotonic() < until
        time.sleep(0.05)
    return id


def type_and_see(up: Up, session: str, terminal: str, line: str, shown: bytes) -> None:
    """Return in the moment in which a terminal shows it."""
    url = f"{up.url.replace('http', 'ws', 1)}{V1}/sessions/{session}/terminals/{terminal}/socket"
    with connect(url, additional_headers=up.owner(), proxy=None) as screen:
        screen.send(line.encode())
        printed = b""
        while shown not in printed:
            frame = screen.recv(timeout=TIMEOUT_S)
            printed += frame if isinstance(frame, bytes) else b""
        up.process.send_signal(signal.SIGKILL)


def events(home: Home, session: str) -> list[dict[str, Any]]:
    result = home.hutch("log", session, "--json")
    assert result.returncode == 0, result.stderr
    return [json.loads(line)["event"] for line in result.stdout.splitlines()]


def omitted(output: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [event for event in output if event["type"] == "events.omitted"]


@pytest.mark.parametrize("is_paused", [False, True])
def test_a_terminal_that_was_open_when_the_server_was_killed(tmp_path: Path, is_paused: bool) -> None:
    home = Home(tmp_path)
    with home.up() as up, client(up) as http:
        session, other = new_session(http), new_session(http)
        closed = http.post(f"/sessions/{other}/terminals", json=OPENED).json()["id"]
        assert http.delete(f"/sessions/{other}/terminals/{closed}").status_code == 204
        terminal = http.post(f"/sessions/{session}/terminals", json=OPENED).json()["id"]
        if is_paused:
            assert http.post(f"/sessions/{session}/inputs", json={"type": "pause"}).status_code == 202
        type_and_see(up, session, terminal, "echo last-$((40 + 2))\r", b"last-42")
        up.process.wait(TIMEOUT_S)
    for _ in range(2):  # said once, however often the server is started
        with home.up():
            pass
    result = events(home, session)
    (gap,) = omitted(result)
    assert gap["cause"] == "crash" and f"while terminal {terminal} was open" in gap["reason"]
    after = result[result.index(gap) + 1]
    assert (after["type"], after["terminal"]) == ("terminal.ended", terminal)
    assert omitted(events(home, other)) == []
    assert home.hutch("export", session, "-o", str(tmp_path / "record.zip")).returncode == 0
    verified = home.hutch("verify", str(tmp_path / "record.zip"))
    assert verified.returncode == 0, verified.stdout


@pytest.mark.parametrize("is_paused", [False, True])
def test_a_command_that_ran_when_the_server_was_killed(tmp_path: Path, is_paused: bool) -> None:
    home = Home(tmp_path)
    with home.up() as up, client(up) as http:
        session = new_session(http)
        for command in ("true", "while true; do date; sleep 0.01; done"):
            asked = {"command": command, "yield_s": 0.5}
            assert http.post(f"/sessions/{session}/commands", json=asked).status_code == 200
        if is_paused:
            assert http.post(f"/sessions/{session}/inputs", json={"type": "pause"}).status_code == 202
        up.process.send_signal(signal.SIGKILL)
        up.process.wait(TIMEOUT_S)
    with home.up():
        pass
    with home.up():
        (gap,) = omitted(events(home, session))
    assert gap["cause"] == "crash" and "while 1 command was running" in gap["reason"]


def test_a_clean_shutdown_records_no_gap(tmp_path: Path) -> None:
    home = Home(tmp_path)
    with home.up() as up, client(up) as http:
        session = new_session(http)
        assert http.post(f"/sessions/{session}/terminals", json=OPENED).status_code == 201
    with home.up():
        result = events(home, session)
    assert omitted(result) == [] and "terminal.ended" in [event["type"] for event in result]
