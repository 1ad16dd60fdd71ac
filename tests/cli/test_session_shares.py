"""`hutch sessions share`: others see a session by its owner's name, and for as long as it is shared."""

import json
from collections.abc import Iterator

import pytest

from hutch.cli import exit_codes
from tests.cli.visiting import House, open_house


@pytest.fixture(scope="module")
def house() -> Iterator[House]:
    with open_house() as opened:
        yield opened


def test_a_share_is_created_shown_and_revoked(house: House) -> None:
    id = house.new({"text": "Hello."}, purpose="to be seen")
    assert house.hutch("users", "add", "bob").returncode == exit_codes.OK
    token = house.json("tokens", "create", "--user", "bob")["token"]
    as_bob = {"HUTCH_SERVER": house.json("status")["url"], "HUTCH_TOKEN": token}
    assert house.hutch("sessions", "show", id, **as_bob).returncode == exit_codes.BAD_REQUEST

    shared = house.hutch("sessions", "share", id, "bob", "--role", "observer")
    assert (shared.returncode, shared.stdout) == (0, f"bob is now observer of {id[-6:]}: can view it.\n")
    assert "\nshared with    bob (observer)\n" in house.hutch("sessions", "show", id).stdout
    assert [each["role"] for each in house.json("sessions", "show", id)["shares"]] == ["observer"]

    owner = house.json("sessions", "show", id)["owner_name"]
    seen = house.hutch("sessions", "show", id, **as_bob).stdout
    assert f"\nowner          {owner}\n" in seen and "shared with" not in seen
    assert f" {owner} " in house.hutch("sessions", "list", **as_bob).stdout
    denied = house.hutch("sessions", "share", id, "bob", "--role", "member", **as_bob)
    assert denied.returncode == exit_codes.DENIED

    taken = house.hutch("sessions", "unshare", id, "bob")
    assert (taken.returncode, taken.stdout) == (0, f"{id[-6:]} is no longer shared with bob.\n")
    assert house.hutch("sessions", "show", id, **as_bob).returncode == exit_codes.BAD_REQUEST


def test_invalid_shares_are_refused(house: House) -> None:
    id = house.new({"text": "Hello."})
    for words, why in (
        (("nobody-here",), "There is no user 'nobody-here'"),
        (("bob", "--role", "king"), "Choose one of observer, assessor, member, candidate"),
        (("..",), "is not a user name"),
        (("a/../b",), "is not a user name"),
    ):
        result = house.hutch("sessions", "share", id, *words)
        assert (result.returncode, why in result.stderr) == (exit_codes.BAD_REQUEST, True), result.stderr
    refused = house.hutch("sessions", "share", id, "nobody-here", "--json")
    assert json.loads(refused.stderr)["error"]["code"] == "not_found"
