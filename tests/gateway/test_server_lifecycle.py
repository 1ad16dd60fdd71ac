"""A clean shutdown: followers are notified, work is suspended, nothing is left behind."""

import asyncio
import contextlib
import json
import os
import signal
import socket
import sqlite3
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn

from hutch.gateway.request_head_limits import Protocol
from tests.cli.hutch_up_process import HUTCH, TIMEOUT_S, Home, Up
from tests.gateway.mcp_server import eventually

SLEEPS = [
    {"calls": [{"tool": "bash", "args": {"command": "sleep 600.5", "timeout_s": 600}}]},
    {"text": "Done.", "times": 100},
]


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


def model(home: Home, replies: list[dict[str, Any]]) -> str:
    path = home.place / "model.json"
    path.write_text(json.dumps({"replies": replies}))
    return f"scripted:{path}"


def ask(up: Up, method: str, path: str, **options: Any) -> Any:
    with httpx.Client(base_url=up.url, headers=up.owner(), timeout=TIMEOUT_S, trust_env=False) as client:
        answered = client.request(method, f"/api/v1{path}", **options)
    assert answered.status_code < 300, answered.text
    return answered.json()


@pytest.mark.parametrize("expires_ms", [1, None])
def test_the_token_of_this_machine_outlives_a_clock_that_jumps_ahead(
    home: Home, expires_ms: int | None
) -> None:
    """As a jump of the clock does it: the token has expired while its server runs."""
    soon_ms = time.time_ns() // 1_000_000 + 3_600_000
    with home.up() as server:
        old = home.token
        with contextlib.closing(sqlite3.connect(home.data / "hutch.db", timeout=30)) as db, db:
            db.execute("UPDATE tokens SET expires_ms = ? WHERE revoked_ms IS NULL", (expires_ms or soon_ms,))
        eventually(lambda: home.token != old)
        assert server.get("/api/v1/me", headers=server.owner()).status_code == 200
        new = home.token
        assert server.end() == 0
    with contextlib.closing(sqlite3.connect(home.data / "hutch.db")) as db:
        rows = db.execute(
            "SELECT count(*), count(revoked_ms) FROM tokens WHERE name = 'local cli'"
        ).fetchone()
    assert rows == (2, 2) and new != old


def descendants(pid: int) -> set[int]:
    """All processes below one."""
    parents: dict[int, int] = {}
    for directory in Path("/proc").iterdir():
        if directory.name.isdigit():
            try:
                result = (directory / "stat").read_text().rpartition(") ")[2].split()
            except OSError:
                continue
            if result[0] != "Z":
                parents[int(directory.name)] = int(result[1])
    found, more = set(), {pid}
    while more:
        more = {child for child, parent in parents.items() if parent in more} - found
        found |= more
    return found


def still_there(pids: set[int]) -> set[int]:
    there = set()
    for pid in pids:
        try:
            if Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0] != "Z":
                there.add(pid)
        except OSError:
            continue
    return there


def working(up: Up, home: Home) -> str:
    """The id of a session in whose jail a command sleeps."""
    session = ask(up, "POST", "/sessions", json={"prompt": "Sleep", "model": model(home, SLEEPS)})
    eventually(lambda: b"sleep 600.5" in b"".join(_commands(descendants(up.process.pid))))
    return str(session["id"])


def _commands(pids: set[int]) -> Iterator[bytes]:
    for pid in pids:
        try:
            yield Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ")
        except OSError:
            continue


def test_a_shutdown_suspends_runs_notifies_followers_and_leaves_no_jail(home: Home) -> None:
    with home.up() as up:
        session_id = working(up, home)
        below = descendants(up.process.pid)
        received: list[str] = []
        following = threading.Event()

        def follow() -> None:
            url = f"{up.url}/api/v1/sessions/{session_id}/events/stream"
            with httpx.stream("GET", url, headers=headers, timeout=TIMEOUT_S, trust_env=False) as stream:
                for line in stream.iter_lines():
                    if line.startswith("event: "):
                        received.append(line.removeprefix("event: "))
                        following.set()

        headers = up.owner()
        follower = threading.Thread(target=follow)
        follower.start()
        assert following.wait(TIMEOUT_S)
        assert up.end() == 0
        follower.join(TIMEOUT_S)
        assert received[-1] == "closing"
        eventually(lambda: not still_there(below))
    shown = [json.loads(line) for line in home.hutch("logs", "--json").stdout.splitlines()]
    assert [line["event"] for line in shown if line["level"] in ("error", "critical")] == []
    with home.up() as up:
        events = ask(up, "GET", f"/sessions/{session_id}/events?limit=1000")["items"]
        types = [entry["event"]["type"] for entry in events]
        assert "session.parked" in types and "run.ended" not in types[: types.index("session.parked")]

        def goes_on() -> bool:
            runs = ask(up, "GET", f"/sessions/{session_id}/runs")["items"]
            return bool(runs[0]["state"] == "ended")

        eventually(goes_on)
        (run,) = ask(up, "GET", f"/sessions/{session_id}/runs")["items"]
        assert run["outcome"] == "done"


def test_a_second_signal_ends_it_at_once_and_no_jail_is_left(home: Home) -> None:
    with home.up(HUTCH_SERVER__SHUTDOWN_S="3600") as up:
        working(up, home)
        below = descendants(up.process.pid)
        os.kill(up.process.pid, signal.SIGSTOP)  # so that both are there when it looks
        os.kill(up.process.pid, signal.SIGTERM)
        os.kill(up.process.pid, signal.SIGINT)
        os.kill(up.process.pid, signal.SIGCONT)
        assert up.process.wait(timeout=TIMEOUT_S) in (128 + signal.SIGINT, 128 + signal.SIGTERM)
        eventually(lambda: not still_there(below))
        assert home.hutch("status").returncode == 3
    with home.up() as up:
        assert up.get("/readyz").status_code == 200


def test_a_client_that_never_ends_its_request_does_not_hold_it_up(home: Home) -> None:
    with home.up(HUTCH_SERVER__SHUTDOWN_S="2") as up:
        host, port = up.url.removeprefix("http://").split(":")
        with contextlib.closing(socket.create_connection((host, int(port)))) as client:
            client.sendall(
                b"POST /api/v1/sessions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 100\r\n\r\n{"
            )
            assert up.get("/healthz").status_code == 200
            up.process.terminate()
            assert up.process.wait(timeout=TIMEOUT_S) in (0, 1)  # in order, or cut short


def test_a_secret_that_is_set_while_it_serves_is_hidden_at_once(home: Home) -> None:
    value = "tangerine-dream-71"
    with home.up(HUTCH_MODEL=model(home, [{"text": f"It is {value}.", "times": 100}])) as up:
        session = ask(up, "POST", "/sessions", json={"prompt": "What is it?"})["id"]
        path = f"/sessions/{session}"
        eventually(lambda: ask(up, "GET", path)["state"] == "idle")
        said = {"command": f"echo {value[:9]}{value[9:]}", "yield_s": 5}
        assert ask(up, "POST", f"{path}/commands", json=said)["stdout"] == f"{value}\n"
        before = ask(up, "GET", path)["head"]["seq"]
        secret = [HUTCH, "config", "set-secret", "mcp_token"]
        subprocess.run(secret, env=home.environment(), input=value.encode(), check=True)
        split = {"command": f"printf %s {value[:9]}; echo {value[9:]}", "yield_s": 5}
        assert ask(up, "POST", f"{path}/commands", json=split)["stdout"] == "[redacted:secret]\n"
        ask(up, "POST", f"{path}/inputs", json={"type": "prompt", "text": f"Is it {value}?"})
        eventually(lambda: "run.ended" in str(ask(up, "GET", f"{path}/events?after={before}")))
        result = str(ask(up, "GET", f"{path}/events?after={before}"))
        assert value not in result and "It is [redacted:secret]" in result and "Is it [redacted" in result


class Hasty(Protocol):
    head_timeout_s = 0.2


async def _answered(sent: bytes, later: bytes = b"", *, protocol: type[Protocol] = Hasty) -> bytes:
    """The response of a server of this protocol to an incomplete request, until it closes the connection."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 204, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    listener = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(app, http=protocol, log_config=None, lifespan="off"))
    serving = asyncio.ensure_future(server._serve(sockets=[listener]))
    try:
        reader, writer = await asyncio.open_connection(*listener.getsockname())
        writer.write(sent)
        async with asyncio.timeout(TIMEOUT_S):
            said = await reader.readuntil(b"\r\n\r\n") if later else b""
            writer.write(later)
            said += await reader.read(-1)
        writer.close()
        return said
    finally:
        server.should_exit = True
        await serving


@pytest.mark.anyio
@pytest.mark.parametrize("sent", [b"", b"GET / HTTP/1.1\r\nHost: x\r\n", b"GET / HT"])
async def test_a_head_that_does_not_come_to_its_end_is_not_waited_for(sent: bytes) -> None:
    assert await _answered(sent) == b""


@pytest.mark.anyio
async def test_nor_is_the_next_one_on_the_same_connection() -> None:
    whole = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
    said = await _answered(whole + b"GET / HTTP/1.1\r\n")
    assert said.startswith(b"HTTP/1.1 204") and said.count(b"HTTP/1.1") == 1


@pytest.mark.anyio
@pytest.mark.parametrize(
    "sent",
    [
        b"GET / HTTP/1.1\r\n" + b"X-Long: y\r\n" * 20_000,
        b"GET / HTTP/1.1\r\nX-Long: " + b"y" * 1_000_000,
        b"GET /" + b"y" * 1_000_000,
        b"GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nX: " + b"y" * 1_000_000,
    ],
)
async def test_a_head_without_end_is_refused_and_not_read_to_its_end(sent: bytes) -> None:
    said, _, body = (await _answered(sent)).partition(b"\r\n\r\n")
    assert said.startswith(b"HTTP/1.1 431 Request Header Fields Too Large\r\n")
    assert b"\r\ncontent-type: application/problem+json" in said and b"\r\nconnection: close" in said
    result = json.loads(body)
    assert (result["status"], result["code"], result["limit"]) == (431, "limit_reached", "head_bytes")
    assert f"content-length: {len(body)}".encode() in said


@pytest.mark.anyio
async def test_a_long_head_after_an_answer_is_refused_too() -> None:
    whole = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
    said = await _answered(whole, b"GET / HTTP/1.1\r\nX-Long: " + b"y" * 1_000_000)
    assert said.startswith(b"HTTP/1.1 204") and b"HTTP/1.1 431" in said


@pytest.mark.anyio
@pytest.mark.parametrize("framing", ["length", "chunks"])
async def test_the_rest_of_a_body_that_was_answered_early_is_no_head(framing: str) -> None:
    body, last = b"y" * 1_000_000, b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
    said_how = b"Content-Length: 1000000"
    if framing == "chunks":
        said_how, body = b"Transfer-Encoding: chunked", b"f4240\r\n" + body + b"\r\n0\r\n\r\n"
    head = b"POST / HTTP/1.1\r\nHost: x\r\n" + said_how + b"\r\n\r\n"
    said = await _answered(head, body + last, protocol=Protocol)
    assert said.count(b"HTTP/1.1 204") == 2 and b"431" not in said


@pytest.mark.anyio
async def test_a_body_without_end_is_not_read_for_ever_once_it_is_answered() -> None:
    head = b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
    said = await _answered(head, b"fffffff\r\n" + b"y" * 1_000_000)
    assert said.count(b"HTTP/1.1 ") == 1 and said.startswith(b"HTTP/1.1 204")
