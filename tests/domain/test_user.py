"""Roles, scopes and names."""

import pytest

from hutch.domain.errors import BadRequest, Denied
from hutch.domain.ids import new_user_id
from hutch.domain.random_credentials_and_hashes import (
    LINK,
    TOKEN,
    derive,
    hash_of,
    is_equal,
    new_secret,
    visible_prefix,
)
from hutch.domain.user import (
    Caller,
    User,
    name_key,
    parse_name,
    parse_role,
    parse_scopes,
    scopes_of,
)


@pytest.mark.parametrize(
    ("names", "scopes"),
    [
        (["read"], {"read"}),
        (["write"], {"read", "write"}),
        (["admin"], {"read", "write", "admin"}),
        (["read,write"], {"read", "write"}),
        ([" read , admin "], {"read", "write", "admin"}),
    ],
)
def test_a_scope_implies_those_below_it(names: list[str], scopes: set[str]) -> None:
    assert parse_scopes(names) == scopes


@pytest.mark.parametrize("names", [[], [""], ["root"], ["read", "READ"]])
def test_unknown_scopes_are_refused(names: list[str]) -> None:
    with pytest.raises(BadRequest, match="read, write, admin"):
        parse_scopes(names)


def test_unknown_roles_are_refused() -> None:
    with pytest.raises(BadRequest):
        parse_role("root")


@pytest.mark.parametrize(
    "name", ["ada", "Ada Lovelace", "ada@example.org", "ada+ci@x.org", "Zoë", "李", "o'brien"]
)
def test_names(name: str) -> None:
    assert parse_name(name) == name


@pytest.mark.parametrize(
    "name",
    [
        "ada  b",
        "ada\u1160",
        "\u3164",
        "\uffa0ada",
        "ad\u200ba",
        "\u0430da",
        "ad\u03b1",
        "ada\n",
        "\x1bada",
        "a'",
        " a",
        "'a",
    ],
)
def test_a_name_that_could_look_like_another_is_refused(name: str) -> None:
    with pytest.raises(BadRequest):
        parse_name(name)


def test_one_user_has_one_key_in_all_code_points() -> None:
    names = ("ada", "ADA", "\uff41\uff44\uff41", "\u24b6da", "\U0001d41ada")
    assert {name_key(name) for name in names} == {"ada"}
    assert parse_name("\uff41da") == "ada"


def test_a_refusal_says_who_can_change_it() -> None:
    user = User(new_user_id(), "ada", "owner", 0)
    with pytest.raises(Denied, match="hutch tokens create --scope admin"):
        Caller(user, frozenset({"read"}), "token", "tok_1").need("admin")
    observer = User(new_user_id(), "bob", "observer", 0)
    with pytest.raises(Denied, match="hutch users role bob"):
        Caller(observer, scopes_of("observer"), "cookie", "brw_1").need("write")


def test_secrets_are_random_and_have_a_prefix() -> None:
    made = {new_secret(TOKEN) for _ in range(100)}
    assert len(made) == 100
    one = made.pop()
    assert one.startswith("hutch_") and len(visible_prefix(one)) == 12
    assert new_secret(LINK).startswith("hutchlink_")
    assert derive(one, "csrf") != derive(one, "other") != hash_of(one)
    assert is_equal(one, one) and not is_equal(one, one[:-1])
