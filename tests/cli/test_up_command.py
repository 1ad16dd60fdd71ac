"""`hutch up`, `down`, `status` and `logs`: one server, found by itself, ended in good order."""

import contextlib
import json
import os
import resource
import select
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path

import httpx
import pytest

from hutch.cli import exit_codes
from hutch.system.process_identity import start_stamp
from tests.cli.hutch_up_process import HUTCH, TIMEOUT_S, Home
from tests.forked_command import Forked


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


@pytest.fixture
def new_home(tmp_path: Path) -> Home:
    return Home(tmp_path, is_new=True)


def test_only_the_first_start_creates_an_owner_and_prints_a_link(new_home: Home) -> None:
    with new_home.up() as first:
        assert first.printed["owner"]
        assert first.printed["link"].startswith(f"{first.url}/link#")
    with new_home.up() as second:
        assert (second.printed["owner"], second.printed["link"]) == ("", "")


def test_the_address_and_the_login_link_are_printed(home: Home) -> None:
    result = home.hutch("up", "--port", "0", "--detach")
    try:
        assert result.returncode == 0, result.stderr
        assert "Hutch is running at http://127.0.0.1:" in result.stdout
        assert "/link#hutchlink_" in result.stdout
    finally:
        assert home.hutch("down").returncode == 0


def test_a_detached_server_runs_until_down(home: Home) -> None:
    result = home.hutch("up", "--port", "0", "--detach", "--json")
    assert result.returncode == 0, result.stderr
    url, pid = (json.loads(result.stdout)[key] for key in ("url", "pid"))
    assert httpx.get(f"{url}/healthz", trust_env=False).text == "ok\n"
    assert os.getsid(pid) == pid
    # A core file would hold its secrets; with 0 the kernel would still hand them to a program.
    assert resource.prlimit(pid, resource.RLIMIT_CORE)[0] == 1
    assert Path(f"/proc/{pid}/fd/0").readlink() == Path("/dev/null")
    down = home.hutch("down")
    assert (down.returncode, down.stdout) == (0, "The server has stopped.\n")
    assert start_stamp(pid) == ""
    assert home.hutch("status").returncode == 3


@pytest.mark.parametrize(("umask", "open_to"), [("0000", 0), ("0002", 0o020), ("0077", 0)])
def test_others_cannot_write_into_a_new_home(new_home: Home, umask: str, open_to: int) -> None:
    """Other users could put settings there. A umask that lets only the group write is a deliberate choice."""
    with new_home.up(under=("sh", "-c", 'umask "$0"; exec "$@"', umask)):
        for path in (new_home.data.parent, *new_home.data.parent.rglob("*")):
            assert path.lstat().st_mode & 0o022 & ~open_to == 0, path


def test_a_second_server_is_refused(home: Home) -> None:
    with home.up() as up:
        for words in (("up",), ("up", "--detach")):
            second = home.hutch(*words)
            assert second.returncode == 2
            assert up.url in second.stderr and f"process {up.process.pid}" in second.stderr


def test_status_shows_the_activity(home: Home) -> None:
    with home.up() as up:
        result = json.loads(home.hutch("status", "--json").stdout)
        assert (result["running"], result["url"], result["pid"]) == (True, up.url, up.process.pid)
        assert (result["sessions"], result["jails"], result["problems"]) == ({}, 0, {})
        assert result["memory_bytes"] > 10_000_000 and result["database_bytes"] > 10_000
        shown = home.hutch("status")
        assert shown.returncode == 0 and "runs       0 running, 0 queued" in shown.stdout


def test_commands_say_that_the_servers_token_is_missing(home: Home) -> None:
    with home.up() as server:
        shutil.rmtree(home.data / "keys")
        status, listed = home.hutch("status"), home.hutch("sessions", "list")
        result = json.loads(home.hutch("status", "--json").stdout)
    for said in (status.stderr, listed.stderr, result["problem"]):
        assert f"The server at {server.url} is running, but {home.data}/keys/local.token" in said
        assert "hutch down" in said
    assert (status.returncode, listed.returncode) == (3, 6)


@pytest.mark.parametrize("token", ["é", "a\tb"])
def test_an_invalid_token_is_reported(home: Home, token: str) -> None:
    refused = home.hutch("sessions", "list", HUTCH_SERVER="http://127.0.0.1:1", HUTCH_TOKEN=token)
    assert refused.returncode == 2 and "The token in HUTCH_TOKEN" in refused.stderr


def test_status_and_down_without_a_server(home: Home) -> None:
    status = home.hutch("status", "--json")
    assert (status.returncode, json.loads(status.stdout)) == (3, {"running": False})
    down = home.hutch("down")
    assert (down.returncode, down.stderr) == (0, "No server is running.\n")


def test_a_server_starts_after_another_was_killed(home: Home) -> None:
    with home.up() as up:
        token = home.token
        up.process.kill()
        up.process.wait()
        assert home.hutch("status").returncode == 3
    with home.up() as up:
        assert home.token != token
        old = up.get("/api/v1/status", headers={"Authorization": f"Bearer {token}"})
        assert (old.status_code, up.get("/api/v1/status", headers=up.owner()).status_code) == (401, 200)


def test_the_local_token_is_private_and_ends_with_the_server(home: Home) -> None:
    with home.up() as up:
        file = home.data / "keys" / "local.token"
        assert file.stat().st_mode & 0o777 == 0o600
        assert up.get("/api/v1/status", headers=up.owner()).status_code == 200
        assert up.end() == 0
        assert not file.exists() and not (home.data / "server.json").exists()
    tokens = [
        json.loads(line) for line in home.hutch("tokens", "list", "--all", "--json").stdout.splitlines()
    ]
    assert [token["name"] for token in tokens if token["revoked_ms"] is None] == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_stops_the_server_cleanly(home: Home, number: signal.Signals) -> None:
    with home.up() as up:
        up.process.send_signal(number)
        assert up.process.wait(timeout=TIMEOUT_S) == 0
    events = [json.loads(line)["event"] for line in home.hutch("logs", "--json").stdout.splitlines()]
    assert events == ["server.ready", "server.ending", "server.ended"]


@pytest.mark.parametrize("streams", [("stderr",), ("stdout",), ("stdout", "stderr")])
def test_a_full_pipe_does_not_block_the_server(home: Home, streams: tuple[str, ...]) -> None:
    reading, writing = full_pipe()
    given = {name: writing if name in streams else subprocess.DEVNULL for name in ("stdout", "stderr")}
    with Forked([HUTCH, "up", "--port", "0"], env=home.environment(), **given) as process:
        url = wait_for_url(home)
        ready = httpx.get(f"{url}/readyz", timeout=TIMEOUT_S, trust_env=False)
        process.send_signal(signal.SIGTERM)
        assert (ready.status_code, process.wait(timeout=TIMEOUT_S)) == (200, 0)
    os.close(reading)
    os.close(writing)
    events = [json.loads(line)["event"] for line in home.hutch("logs", "--json").stdout.splitlines()]
    assert events == ["server.ready", "server.ending", "server.ended"]


def full_pipe() -> tuple[int, int]:
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    with contextlib.suppress(BlockingIOError):
        while True:
            os.write(writing, b"x" * select.PIPE_BUF)
    os.set_blocking(writing, True)
    return reading, writing


def wait_for_url(home: Home) -> str:
    while not (result := json.loads(home.hutch("status", "--json").stdout or "{}")).get("url"):
        time.sleep(0.1)
    return str(result["url"])


def test_a_taken_port_is_reported_with_its_process(home: Home) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        for words in (("up", "--port", port), ("up", "--port", port, "--detach")):
            refused = home.hutch(*words)
            assert refused.returncode == 6
            assert f"127.0.0.1:{port} is taken by" in refused.stderr
            assert f"(process {os.getpid()})" in refused.stderr
            assert "hutch up --port " in refused.stderr


def test_a_full_disk_is_named_by_a_start_in_the_background_too(new_home: Home) -> None:
    new_home.data.mkdir(parents=True)
    (new_home.data / "server.lock").symlink_to("/dev/full")
    for words in (("up",), ("up", "--detach")):
        refused = new_home.hutch(*words)
        assert refused.returncode == exit_codes.LIMIT_REACHED
        assert f"hutch: The disk that holds {new_home.data} is full;" in refused.stderr


def test_a_public_address_causes_a_warning(home: Home) -> None:
    with home.up("--host", "0.0.0.0") as up:
        assert "the traffic is not encrypted" in up.printed["warning"]
        assert up.url.startswith("http://127.0.0.1:")
    result = home.hutch("up", "--host", "0.0.0.0", "--port", "0", "--detach")
    assert "WARNING: Other machines can reach 0.0.0.0" in result.stderr
    assert home.hutch("down").returncode == 0
    with home.up() as up:
        assert up.printed["warning"] == ""


def test_local_commands_trust_the_servers_certificate(home: Home) -> None:
    cert, key = (home.place / name for name in ("cert.pem", "key.pem"))
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"),
            *("-nodes", "-keyout", key, "-out", cert, "-days", "2", "-subj", "/CN=hutch.example.com"),
        ],
        check=True,
        capture_output=True,
    )
    tls = {"HUTCH_SERVER__TLS_CERT": str(cert), "HUTCH_SERVER__TLS_KEY": str(key)}
    with home.up(**tls) as up:
        assert up.url.startswith("https://127.0.0.1:")
        assert up.get("/healthz", verify=False).text == "ok\n"
        assert home.hutch("status", **tls).returncode == 0
    half = home.hutch("up", HUTCH_SERVER__TLS_CERT=str(cert))
    assert (half.returncode, "go together" in half.stderr) == (2, True)
    wrong = home.hutch("up", **{**tls, "HUTCH_SERVER__TLS_KEY": str(cert)})
    assert (wrong.returncode, "TLS cannot use" in wrong.stderr) == (2, True)


def test_open_shows_a_page_that_leads_to_the_link_and_keeps_it_off_the_command_line(home: Home) -> None:
    seen = home.place / "seen"
    opener = home.place / "bin" / "xdg-open"
    opener.parent.mkdir()
    opener.write_text(f'#!/bin/sh\n(echo "$@"; cat "$1") > {seen}.part\nmv {seen}.part {seen}\n')
    opener.chmod(0o755)
    with home.up("--open", PATH=f"{opener.parent}:{os.environ['PATH']}") as up:
        while not seen.exists():  # the server waits two seconds for the opener
            time.sleep(0.1)
        argument, page = seen.read_text().split("\n", 1)
        assert up.printed["opened"] is True
        assert up.printed["link"] in page and "#" not in argument
        assert Path(argument).stat().st_mode & 0o777 == 0o600


def test_without_a_browser_the_link_is_printed(home: Home) -> None:
    empty = home.place / "bin"
    empty.mkdir()
    for tool in ("git", "bwrap"):
        (empty / tool).symlink_to(f"/usr/bin/{tool}")
    with home.up("--open", PATH=str(empty)) as up:
        assert (up.printed["opened"], bool(up.printed["link"])) == (False, True)


def test_logs_are_filtered_and_followed_over_a_rotation(home: Home) -> None:
    log = home.place / "home" / "state" / "server.log"
    log.parent.mkdir(parents=True)

    def line(event: str, level: str = "info") -> str:
        return json.dumps({"time": "t", "level": level, "event": event, "trace_id": "x"}) + "\n"

    log.write_text(line("one") + line("two", "error") + "half a li\n" + line("three", "warning"))
    assert home.hutch("logs", "-n", "2", "--json").stdout.count("\n") == 2
    assert "two" in home.hutch("logs", "--level", "warning").stdout
    assert "one" not in home.hutch("logs", "--level", "warning").stdout
    assert home.hutch("logs", "--level", "loud").returncode == 2
    with subprocess.Popen(
        [HUTCH, "logs", "-f", "-n", "1", "--json"],
        env=home.environment(PYTHONUNBUFFERED="1"),
        stdout=subprocess.PIPE,
        text=True,
    ) as following:
        assert following.stdout is not None
        assert json.loads(following.stdout.readline())["event"] == "three"
        with log.open("a") as file:
            file.write(line("four"))
        assert json.loads(following.stdout.readline())["event"] == "four"
        with log.open("a") as file:
            file.write(line("five"))
        log.rename(log.with_name("server.log.1"))
        log.write_text(line("six"))
        events = [json.loads(following.stdout.readline())["event"] for _ in range(2)]
        assert events == ["five", "six"]
        following.terminate()


def test_without_a_log_the_message_says_how_to_start_a_server(home: Home) -> None:
    none = home.hutch("logs")
    assert (none.returncode, "hutch up" in none.stderr) == (2, True)
