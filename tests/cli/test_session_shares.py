"""`hutch sessions share`: others see a session by its owner's name, and for as long as it is shared."""

import json
from collections.abc import Iterator

import pytest

from hutch.cli import exit_codes
from tests.cli.attached_users import ServerHome, running_server


@pytest.fixture(scope="module")
def server() -> Iterator[ServerHome]:
    with running_server() as opened:
        yield opened


def test_a_share_is_created_shown_and_revoked(server: ServerHome) -> None:
    id = server.new({"text": "Hello."}, purpose="to be seen")
    assert server.hutch("users", "add", "bob").returncode == exit_codes.OK
    token = server.json("tokens", "create", "--user", "bob")["token"]
    as_bob = {"HUTCH_SERVER": server.json("status")["url"], "HUTCH_TOKEN": token}
    assert server.hutch("sessions", "show", id, **as_bob).returncode == exit_codes.BAD_REQUEST

    shared = server.hutch("sessions", "share", id, "bob", "--role", "observer")
    assert (shared.returncode, shared.stdout) == (0, f"bob is now observer of {id[-6:]}: can view it.\n")
    assert "\nshared with    bob (observer)\n" in server.hutch("sessions", "show", id).stdout
    assert [each["role"] for each in server.json("sessions", "show", id)["shares"]] == ["observer"]

    owner = server.json("sessions", "show", id)["owner_name"]
    seen = server.hutch("sessions", "show", id, **as_bob).stdout
    assert f"\nowner          {owner}\n" in seen and "shared with" not in seen
    assert f" {owner} " in server.hutch("sessions", "list", **as_bob).stdout
    denied = server.hutch("sessions", "share", id, "bob", "--role", "member", **as_bob)
    assert denied.returncode == exit_codes.DENIED

    taken = server.hutch("sessions", "unshare", id, "bob")
    assert (taken.returncode, taken.stdout) == (0, f"{id[-6:]} is no longer shared with bob.\n")
    assert server.hutch("sessions", "show", id, **as_bob).returncode == exit_codes.BAD_REQUEST


def test_invalid_shares_are_refused(server: ServerHome) -> None:
    id = server.new({"text": "Hello."})
    for words, why in (
        (("nobody-here",), "There is no user 'nobody-here'"),
        (("bob", "--role", "king"), "Choose one of observer, assessor, member, candidate"),
        (("..",), "is not a user name"),
        (("a/../b",), "is not a user name"),
    ):
        result = server.hutch("sessions", "share", id, *words)
        assert (result.returncode, why in result.stderr) == (exit_codes.BAD_REQUEST, True), result.stderr
    refused = server.hutch("sessions", "share", id, "nobody-here", "--json")
    assert json.loads(refused.stderr)["error"]["code"] == "not_found"
