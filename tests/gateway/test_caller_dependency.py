"""Tokens and cookies identify callers until they expire or are revoked."""

import asyncio
import sqlite3
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from hutch.domain.errors import Unauthenticated
from hutch.domain.random_credentials_and_hashes import new_secret
from hutch.flows.user_accounts import LOCAL, Accounts
from hutch.gateway.auth.authenticator import CACHE_S
from hutch.gateway.auth.login_cookie import csrf_token
from hutch.store.browser_sessions import ABSOLUTE_MS, IDLE_MS
from hutch.store.event_log import open_log
from tests.gateway.request_filter_server import Answering, answering, bearer

pytestmark = pytest.mark.anyio


@pytest.fixture
async def served(tmp_path: Path) -> AsyncIterator[Answering]:
    async with answering(tmp_path) as made:
        yield made


async def asks(served: Answering, token: str, method: str = "GET", path: str = "/api/v1/read") -> int:
    async with served.client() as http:
        return (await http.request(method, path, headers=bearer(token))).status_code


async def test_a_token_opens_what_its_scopes_say(served: Answering) -> None:
    owner = await served.accounts.ensure_owner("ada")
    calls = [("GET", "/api/v1/read"), ("POST", "/api/v1/write"), ("DELETE", "/api/v1/admin")]
    wanted = {"reader": {"read"}, "writer": {"read", "write"}, "admin": {"read", "write", "admin"}}
    said = {}
    for name, scopes in wanted.items():
        _, token = await served.accounts.new_token(
            owner, name=name, scopes=frozenset(scopes), days=1, actor=LOCAL
        )
        said[name] = [await asks(served, token, *call) for call in calls]
    assert said == {"reader": [200, 403, 403], "writer": [200, 200, 403], "admin": [200, 200, 200]}


@pytest.mark.parametrize(
    "header",
    [
        "",
        "Bearer",
        "Bearer hutch_",
        "Bearer hutch_{wrong}",
        "Basic {right}",
        "{right}",
        "Bearer {right}x",
        "Bearer {right} {right}",
        "Bearer " + "hutch_" + "x" * 5000,
        "Bearer {hash}",
        "Bearer hutch_' OR 1=1 --",
    ],
)
async def test_invalid_tokens(served: Answering, header: str) -> None:
    right = await served.token(await served.accounts.ensure_owner("ada"))
    row = sqlite3.connect(served.log._database.path).execute("SELECT hash FROM tokens").fetchone()
    sent = header.format(right=right, wrong=new_secret(), hash=f"hutch_{row[0]}")
    async with served.client() as http:
        answer = await http.get("/api/v1/read", headers={"Authorization": sent} if sent else {})
    assert (answer.status_code, answer.json()["code"]) == (401, "unauthenticated")


async def test_two_tokens_are_none_and_a_cookie_does_not_help_a_bad_one(served: Answering) -> None:
    owner = await served.accounts.ensure_owner("ada")
    token = await served.token(owner)
    cookie = await logged_in(served, owner.id)
    async with served.client() as http:
        both = await http.get(
            "/api/v1/read", headers=[("Authorization", f"Bearer {token}"), ("Authorization", "Bearer x")]
        )
        bad = await http.get("/api/v1/read", headers={"Authorization": "Bearer x", **cookie})
        good = await http.get("/api/v1/read", headers=cookie)
    assert [both.status_code, bad.status_code, good.status_code] == [401, 401, 200]


async def test_the_database_does_not_hold_a_token(served: Answering) -> None:
    token = await served.token(await served.accounts.ensure_owner("ada"))
    cookie = await logged_in(served, (await served.accounts.ensure_owner("ada")).id)
    assert await asks(served, token) == 200
    secret = cookie["Cookie"].partition("=")[2].encode()
    await served.log.close()
    for file in Path(served.log._database.path).parent.glob("hutch.db*"):
        raw = file.read_bytes()
        assert token.encode() not in raw
        assert secret not in raw


async def test_a_revoked_token_is_refused_at_once(served: Answering) -> None:
    owner = await served.accounts.ensure_owner("ada")
    token = await served.token(owner)
    assert await asks(served, token) == 200
    ended = await served.accounts.revoke_token(token[:12], LOCAL)
    served.authenticator.forget(credential_id=ended.id)
    assert await asks(served, token) == 401


async def test_a_token_that_another_process_revokes_is_refused_within_seconds(tmp_path: Path) -> None:
    assert CACHE_S < 5
    async with answering(tmp_path, cache_s=0.5) as served:
        owner = await served.accounts.ensure_owner("ada")
        token = await served.token(owner)
        assert await asks(served, token) == 200
        key = tmp_path / "keys" / "signing.pem"
        async with open_log(tmp_path / "hutch.db", tmp_path / "blobs", key) as log:
            await Accounts(log).revoke_token(token[:12], LOCAL)
        while await asks(served, token) == 200:  # noqa: ASYNC110
            await asyncio.sleep(0.05)
        assert await asks(served, token) == 401


async def test_a_credential_revoked_during_its_lookup_is_not_cached(served: Answering) -> None:
    owner = await served.accounts.ensure_owner("ada")
    token = await served.token(owner)
    fetch, gate, reached = served.log.fetch, asyncio.Event(), asyncio.Event()

    class Slow:
        async def fetch(self, query: Any) -> Any:
            found = await fetch(query)
            reached.set()
            await gate.wait()
            return found

    served.accounts.tokens._rows, real = Slow(), served.accounts.tokens._rows
    asking = asyncio.ensure_future(asks(served, token))
    await reached.wait()
    served.accounts.tokens._rows = real
    ended = await served.accounts.revoke_token(token[:12], LOCAL)
    served.authenticator.forget(credential_id=ended.id)
    gate.set()
    await asking
    assert await asks(served, token) == 401


async def test_an_expired_token(served: Answering) -> None:
    owner = await served.accounts.ensure_owner("ada")
    for life_s in (1, 4, 16, 64):
        expires_ms = time.time_ns() // 1_000_000 + life_s * 1000
        _, soon = await served.accounts.tokens.create(
            owner.id, name="", scopes=frozenset({"read"}), expires_ms=expires_ms
        )
        status = await asks(served, soon)
        left_s = expires_ms / 1000 - time.time()
        if left_s > 0:
            break  # else the answer came so late that it may have expired
    assert status == 200  # and remembered for longer than it has left
    await asyncio.sleep(left_s + 0.1)
    assert await asks(served, soon) == 401


async def test_a_disabled_user_is_out_by_every_way(served: Answering) -> None:
    await served.accounts.ensure_owner("ada")
    user = await served.accounts.add_user("bob", "member", LOCAL)
    token, cookie = await served.token(user), await logged_in(served, user.id)
    await served.accounts.set_disabled(user.id, True, LOCAL)
    served.authenticator.forget(user_id=user.id)
    async with served.client() as http:
        assert (await http.get("/api/v1/read", headers=cookie)).status_code == 401
    assert await asks(served, token) == 401


async def test_a_token_shrinks_with_the_role_of_its_user(served: Answering) -> None:
    await served.accounts.ensure_owner("ada")
    user = await served.accounts.add_user("bob", "member", LOCAL)
    token = await served.token(user, "read", "write")
    assert await asks(served, token, "POST", "/api/v1/write") == 200
    await served.accounts.set_role(user.id, "observer", LOCAL)
    served.authenticator.forget(user_id=user.id)
    assert await asks(served, token, "POST", "/api/v1/write") == 403


async def test_use_is_noted_once_a_minute_and_costs_one_read(served: Answering) -> None:
    owner = await served.accounts.ensure_owner("ada")
    token = await served.token(owner)
    counts = {"fetch": 0, "change": 0}
    rows = served.log

    class Counting:
        async def fetch(self, query: Any) -> Any:
            counts["fetch"] += 1
            return await rows.fetch(query)

        async def change(self, do: Any) -> Any:
            counts["change"] += 1
            return await rows.change(do)

    served.accounts.tokens._rows = Counting()
    async with served.client() as http:
        for _ in range(20):
            assert (await http.get("/api/v1/read", headers=bearer(token))).status_code == 200
    await served.authenticator.close()
    assert counts == {"fetch": 1, "change": 1}
    (kept,) = await served.accounts.tokens.list()
    assert kept.last_used_ms is not None
    assert abs(kept.last_used_ms - time.time() * 1000) < 60_000


@pytest.mark.parametrize("guarded", [False, True], ids=["open", "guarded"])
@pytest.mark.parametrize(
    "trick", ["no_token", "wrong_token", "token_of_another", "no_origin", "foreign_origin"]
)
async def test_a_cookie_alone_does_not_let_a_page_act(tmp_path: Path, trick: str, guarded: bool) -> None:
    checks = {} if guarded else {"check_csrf": False, "checks": ()}
    async with answering(tmp_path, **checks) as served, served.client() as http:
        owner = await served.accounts.ensure_owner("ada")
        cookie, other = await logged_in(served, owner.id), await logged_in(served, owner.id)
        right = {**cookie, "Origin": served.url, "X-CSRF-Token": word(cookie)}
        changed: dict[str, dict[str, str | None]] = {
            "no_token": {"X-CSRF-Token": None},
            "wrong_token": {"X-CSRF-Token": "0" * 64},
            "token_of_another": {"X-CSRF-Token": word(other)},
            "no_origin": {"Origin": None},
            "foreign_origin": {"Origin": "http://evil.example"},
        }
        tricked = {name: value for name, value in {**right, **changed[trick]}.items() if value is not None}
        answer = await http.post("/api/v1/write", headers=tricked)
        assert answer.status_code == (403 if guarded else 200)
        assert served.seen == ([] if guarded else [("write", "ada")])
        assert (await http.post("/api/v1/write", headers=right)).status_code == 200


async def test_a_token_needs_no_word(served: Answering) -> None:
    token = await served.token(await served.accounts.ensure_owner("ada"), "write", "read")
    assert await asks(served, token, "POST", "/api/v1/write") == 200


async def test_a_websocket_by_token_or_by_a_page_of_ours(served: Answering) -> None:
    owner = await served.accounts.ensure_owner("ada")
    token, cookie = await served.token(owner), await logged_in(served, owner.id)
    address = f"ws://127.0.0.1:{served.port}/api/v1/socket"
    async with connect(address, additional_headers=bearer(token)) as socket:
        assert await socket.recv() == "ada"
    async with connect(address, origin=served.url, additional_headers=cookie) as socket:
        assert await socket.recv() == "ada"
    for headers in ({}, cookie, bearer("hutch_x")):  # a cookie without an origin is not from a page of ours
        with pytest.raises(InvalidStatus):
            await connect(address, additional_headers=headers)


async def test_a_login_that_is_idle_or_old_is_over(served: Answering) -> None:
    owner = await served.accounts.ensure_owner("ada")
    browser, _ = await served.accounts.browsers.begin(owner.id, began_by="link", address="", agent="")
    now_ms = browser.created_ms
    assert browser.is_valid(now_ms + IDLE_MS - 1)
    assert not browser.is_valid(now_ms + IDLE_MS)
    used = replace(browser, used_ms=now_ms + ABSOLUTE_MS - 1000)
    assert used.is_valid(now_ms + ABSOLUTE_MS - 1)
    assert not used.is_valid(now_ms + ABSOLUTE_MS)


async def test_a_cookie_that_comes_twice_is_none(served: Answering) -> None:
    owner = await served.accounts.ensure_owner("ada")
    pair = (await logged_in(served, owner.id))["Cookie"]
    async with served.client() as http:
        answer = await http.get("/api/v1/read", headers={"Cookie": f"{pair}; {pair.partition('=')[0]}=other"})
    assert answer.status_code == 401


async def test_an_open_connection_is_rechecked_without_being_counted(served: Answering) -> None:
    owner = await served.accounts.ensure_owner("ada")
    token = await served.token(owner)
    scope = {
        "type": "http",
        "method": "GET",
        "headers": [(b"authorization", f"Bearer {token}".encode())],
        "client": ("10.0.0.1", 1),
    }
    for _ in range(2000):  # more than a minute has
        assert (await served.authenticator.recheck(scope)).user == owner
    assert served.authenticator.buckets.take("10.0.0.1") == 0
    ended = await served.accounts.revoke_token(token[:12], LOCAL)
    served.authenticator.forget(credential_id=ended.id)
    with pytest.raises(Unauthenticated):
        await served.authenticator.recheck(scope)


async def test_the_openapi_document_says_how_to_show_a_token(served: Answering) -> None:
    document = served.app.openapi()
    assert document["components"]["securitySchemes"]["token"]["scheme"] == "bearer"
    assert document["paths"]["/api/v1/read"]["get"]["security"] == [{"token": []}]


async def logged_in(served: Answering, user_id: str) -> dict[str, str]:
    """The cookie of a browser that is logged in."""
    _, secret = await served.accounts.browsers.begin(user_id, began_by="link", address="127.0.0.1", agent="")
    return {"Cookie": f"hutch_{served.port}={secret}"}


def word(cookie: dict[str, str]) -> str:
    return csrf_token(cookie["Cookie"].partition("=")[2])
