"""`hutch tokens` on the server's own machine, with and without a server."""

import asyncio
import json
import os
import pwd
import subprocess
import time
from pathlib import Path

import httpx
import pytest

from hutch.gateway.rest import login_and_account
from tests.deadline import DEADLINE_S
from tests.forked_command import HUTCH, run
from tests.gateway.request_filter_server import answering, bearer


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


def hutch(home: Path, *words: str, code: int = 0, stdin: str = "") -> "subprocess.CompletedProcess[str]":
    done = run(
        [HUTCH, *words],
        env={"PATH": os.environ["PATH"], "HUTCH_HOME": str(home)},
        input=stdin,
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
    )
    assert done.returncode == code, done.stderr
    return done


def test_a_token_is_created_without_a_server(home: Path) -> None:
    result = json.loads(hutch(home, "tokens", "create", "--json").stdout)
    assert result["token"].startswith("hutch_")
    assert result["user"] == pwd.getpwuid(os.getuid()).pw_name
    assert result["scopes"] == ["admin", "read", "write"]
    assert abs(result["expires_ms"] - (time.time() + 90 * 86400) * 1000) < 600_000
    (user,) = [json.loads(line) for line in hutch(home, "users", "list", "--json").stdout.splitlines()]
    assert (user["role"], user["id"]) == ("owner", result["user_id"])


def test_a_token_is_shown_once(home: Path) -> None:
    made = hutch(home, "tokens", "create", "--name", "ci", "--scope", "admin", "--expires", "never")
    token = made.stdout.strip()
    assert "never expires" in made.stderr
    listed = hutch(home, "tokens", "list")
    assert token[:12] in listed.stdout
    assert token not in listed.stdout + hutch(home, "users", "audit").stdout
    raw = b"".join(file.read_bytes() for file in (home / "data").rglob("*") if file.is_file())
    assert token.encode() not in raw
    result = json.loads(hutch(home, "tokens", "list", "--json").stdout)
    assert (result["name"], result["expires_ms"], result["scopes"]) == (
        "ci",
        None,
        ["admin", "read", "write"],
    )


def test_a_token_is_revoked_by_id_or_prefix(home: Path) -> None:
    first = json.loads(hutch(home, "tokens", "create", "--json").stdout)
    second = json.loads(hutch(home, "tokens", "create", "--json").stdout)
    hutch(home, "tokens", "revoke", first["id"])
    hutch(home, "tokens", "revoke", f"{second['prefix']}…")
    assert hutch(home, "tokens", "list").stdout == ""
    listed = hutch(home, "tokens", "list", "--all").stdout
    assert listed.count("revoked") == 2
    assert "no token" in hutch(home, "tokens", "revoke", "tok_none", code=2).stderr


@pytest.mark.parametrize(
    "words",
    [
        ("--expires", "0"),
        ("--expires", "-1"),
        ("--expires", "soon"),
        ("--expires", "99999"),
        ("--scope", "root"),
        ("--user", "nobody"),
        ("--name", "x" * 101),
    ],
)
def test_what_makes_no_sense(home: Path, words: tuple[str, str]) -> None:
    said = hutch(home, "tokens", "create", *words, code=2).stderr
    assert said.startswith("hutch: ")
    assert "Traceback" not in said


def test_a_token_gets_no_more_than_the_role_allows(home: Path) -> None:
    hutch(home, "users", "add", "bob", "observer")
    hutch(home, "tokens", "create", "--user", "bob", "--scope", "write", code=4)
    result = json.loads(hutch(home, "tokens", "create", "--user", "bob", "--json").stdout)
    assert (result["user"], result["scopes"]) == ("bob", ["read"])


@pytest.mark.anyio
async def test_a_running_server_follows_new_and_revoked_tokens(home: Path) -> None:
    data = home / "data"
    async with answering(data, login_and_account.routes) as served, served.client() as http:
        result = json.loads(await _apart(home, "tokens", "create", "--json"))

        async def own_account() -> httpx.Response:
            return await http.get("/api/v1/me", headers=bearer(result["token"]))

        assert (await own_account()).json()["user"]["name"] == result["user"]
        await _apart(home, "tokens", "revoke", result["id"])
        until = time.monotonic() + DEADLINE_S
        while (await own_account()).status_code == 200:
            assert time.monotonic() < until
            await asyncio.sleep(0.1)
        assert (await own_account()).status_code == 401


async def _apart(home: Path, *words: str) -> str:
    """Run in a thread, so that the server keeps running."""
    return (await asyncio.to_thread(hutch, home, *words)).stdout
