"""Tokens as rows: shown once, recognised by their hash, revoked for good."""

import pytest

from hutch.domain.errors import NotFound
from hutch.domain.random_credentials_and_hashes import hash_of
from hutch.store.event_log import SqlLog
from hutch.store.tokens import Tokens
from hutch.store.users import Users

pytestmark = pytest.mark.anyio
READ = frozenset({"read"})


async def test_a_token_is_recognised_and_only_itself(log: SqlLog) -> None:
    ada = await Users(log).add("ada", "owner")
    tokens = Tokens(log)
    token, secret = await tokens.create(ada.id, name="ci", scopes=READ, expires_ms=None)
    assert secret.startswith(token.prefix)
    assert len(secret) == len("hutch_") + 43
    assert await tokens.recognise(secret) == (token, ada)
    for wrong in ("", secret[:-1], secret.upper(), hash_of(secret), token.prefix, token.id, "\ud800"):
        assert await tokens.recognise(wrong) is None


async def test_they_are_listed_for_one_or_all(log: SqlLog) -> None:
    ada, bob = await Users(log).add("ada", "owner"), await Users(log).add("bob", "member")
    tokens = Tokens(log)
    made = [
        (await tokens.create(user.id, name="", scopes=READ, expires_ms=None))[0] for user in (ada, bob, ada)
    ]
    assert await tokens.list() == made[::-1]
    assert await tokens.list(ada.id) == [made[2], made[0]]


async def test_a_token_ends_by_id_or_by_what_is_shown_of_it(log: SqlLog) -> None:
    ada = await Users(log).add("ada", "owner")
    tokens = Tokens(log)
    one, _ = await tokens.create(ada.id, name="", scopes=READ, expires_ms=None)
    other, _ = await tokens.create(ada.id, name="", scopes=READ, expires_ms=None)
    ended = await tokens.revoke(one.id)
    assert ended.revoked_ms is not None
    assert await tokens.revoke(one.id) == ended  # the first time counts
    assert (await tokens.revoke(other.prefix)).id == other.id
    for wrong in ("", "hutch_", "tok_0", "%"):
        with pytest.raises(NotFound):
            await tokens.revoke(wrong)


async def test_a_user_ends_no_token_of_another(log: SqlLog) -> None:
    ada, bob = await Users(log).add("ada", "owner"), await Users(log).add("bob", "member")
    tokens = Tokens(log)
    token, _ = await tokens.create(ada.id, name="", scopes=READ, expires_ms=None)
    with pytest.raises(NotFound):
        await tokens.revoke(token.id, user_id=bob.id)
    assert (await tokens.list())[0].revoked_ms is None


async def test_time_ends_a_token(log: SqlLog) -> None:
    ada = await Users(log).add("ada", "owner")
    token, _ = await Tokens(log).create(ada.id, name="", scopes=READ, expires_ms=1000)
    assert token.is_valid(999)
    assert not token.is_valid(1000)


async def test_a_token_needs_a_user(log: SqlLog) -> None:
    with pytest.raises(NotFound):
        await Tokens(log).create("usr_0", name="", scopes=READ, expires_ms=None)
