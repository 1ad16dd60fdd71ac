"""`hutch users` on the server's own machine."""

import json
from pathlib import Path

import pytest

from hutch.flows.password_hashing import Passwords
from hutch.store.event_log import open_log
from hutch.store.users import Users
from tests.cli.test_tokens_command import hutch

OWNER = ("users", "link")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


def users(home: Path) -> dict[str, dict[str, object]]:
    result = [json.loads(line) for line in hutch(home, "users", "list", "--json").stdout.splitlines()]
    return {user["name"]: user for user in result}


def test_users_are_added_and_changed(home: Path) -> None:
    hutch(home, "users", "add", "grace", "candidate")
    hutch(home, "users", "add", "bob")
    hutch(home, "users", "role", "grace", "assessor")
    hutch(home, "users", "disable", "bob")
    found = users(home)
    assert (found["grace"]["role"], found["bob"]["role"], found["bob"]["disabled"]) == (
        "assessor",
        "member",
        True,
    )
    assert len(found) == 3  # with the owner, who comes first
    assert next(iter(found.values()))["role"] == "owner"
    hutch(home, "users", "disable", "--undo", "bob")
    assert users(home)["bob"]["disabled"] is False
    assert "no user" in hutch(home, "users", "role", "nobody", "member", code=2).stderr
    assert "not a role" in hutch(home, "users", "add", "eve", "root", code=2).stderr


def test_the_last_owner_stays(home: Path) -> None:
    hutch(home, *OWNER)
    (owner,) = users(home)
    assert "last owner" in hutch(home, "users", "disable", owner, code=2).stderr
    assert "last owner" in hutch(home, "users", "role", owner, "member", code=2).stderr


def test_the_link_is_in_the_fragment(home: Path) -> None:
    (home / "data").mkdir(parents=True)
    (home / "config.toml").write_text('[server]\npublic_url = "https://hutch.example.com/"\n')
    result = json.loads(hutch(home, "users", "link", "--json").stdout)
    assert result["url"].startswith("https://hutch.example.com/link#hutchlink_")
    raw = b"".join(file.read_bytes() for file in (home / "data").rglob("*") if file.is_file())
    assert result["url"].partition("#")[2].encode() not in raw
    hutch(home, "users", "add", "bob")
    hutch(home, "users", "disable", "bob")
    assert "disabled" in hutch(home, "users", "link", "bob", code=2).stderr


@pytest.mark.anyio
async def test_a_password_is_read_from_standard_input(home: Path) -> None:
    hutch(home, "users", "add", "bob")
    hutch(home, "users", "password", "bob", stdin="short\n", code=2)
    hutch(home, "users", "password", "bob", stdin="", code=2)
    hutch(home, "users", "password", "bob", stdin="correct horse battery\n")
    data = home / "data"
    async with open_log(data / "hutch.db", data / "blobs", data / "keys" / "signing.pem") as log:
        found = await Users(log).find_with_password_hash("bob")
    assert found
    assert await Passwords().is_right("correct horse battery", found[1])


def test_actions_are_in_the_audit_log(home: Path) -> None:
    hutch(home, "users", "add", "bob")
    hutch(home, "tokens", "create", "--user", "bob")
    result = [json.loads(line) for line in hutch(home, "users", "audit", "--json").stdout.splitlines()]
    assert [entry["action"] for entry in result] == ["token.created", "user.added", "user.added"]
    assert {entry["address"] for entry in result} == {"local"}
