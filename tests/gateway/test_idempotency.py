"""A POST with a key is executed once: when repeated, when concurrent, and across a crash."""

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest
from fastapi import Response
from sqlalchemy import select, update

from hutch.flows.user_accounts import Accounts
from hutch.gateway.idempotency import MAX_BYTES, to_answer
from hutch.store.idempotency_keys import IN_PROGRESS, NOT_STORED, RETENTION_MS, hash_key
from hutch.store.schema import answered_requests
from tests.forge.repositories import make_repository
from tests.gateway.api_server import V1, Api, eventually, serving

pytestmark = pytest.mark.anyio


def keyed(key: str) -> dict[str, str]:
    return {"Idempotency-Key": key}


async def purposes(api: Api, word: str) -> list[str]:
    return [each["id"] for each in (await api.get(f"{V1}/sessions?q={word}")).json()["items"]]


async def row(api: Api, key: str) -> Any:
    wanted = select(answered_requests).where(answered_requests.c.key == hash_key(key))
    return await api.server.rows.fetch(lambda db: db.execute(wanted).mappings().first())


async def test_the_same_request_makes_one_session(api: Api) -> None:
    wanted = {"purpose": "once-only"}
    first, again = [await api.post(f"{V1}/sessions", json=wanted, headers=keyed("k1")) for _ in range(2)]
    assert first.status_code == again.status_code == 201
    assert (first.json(), first.headers.get("idempotency-replayed")) == (again.json(), None)
    assert again.headers["idempotency-replayed"] == "true"
    for name in ("content-type", "location"):
        assert again.headers[name] == first.headers[name]
    assert await purposes(api, "once-only") == [first.json()["id"]]


async def test_many_at_once_make_one_session(api: Api) -> None:
    wanted = {"purpose": "at-once"}
    sent = [api.post(f"{V1}/sessions", json=wanted, headers=keyed("k2")) for _ in range(20)]
    answers = await asyncio.gather(*sent)
    assert {answer.status_code for answer in answers} == {201}
    assert len({answer.json()["id"] for answer in answers}) == 1
    assert sum("idempotency-replayed" not in answer.headers for answer in answers) == 1
    assert len(await purposes(api, "at-once")) == 1


async def test_the_key_of_another_request_is_refused(api: Api) -> None:
    await api.post(f"{V1}/sessions", json={"purpose": "first-use"}, headers=keyed("k3"))
    refused = await api.post(f"{V1}/sessions", json={"purpose": "second-use"}, headers=keyed("k3"))
    assert (refused.status_code, refused.json()["code"]) == (422, "key_reused")
    assert await purposes(api, "second-use") == []


async def test_a_key_is_the_users_own(api: Api) -> None:
    bob = await api.as_user("bob")
    wanted = {"purpose": "own-key"}
    mine, his = [await each.post(f"{V1}/sessions", json=wanted, headers=keyed("k4")) for each in (api, bob)]
    assert mine.json()["id"] != his.json()["id"]
    assert his.json()["owner"] != mine.json()["owner"]


async def test_a_replay_is_refused_when_the_share_was_taken_away(api: Api) -> None:
    session = await api.ready_session()
    bob = await api.as_user("bob")
    accounts = Accounts(api.server.rows)
    user = await accounts.users.find("bob")
    await accounts.shares.set(session, user.id, "member", created_by="")
    url, wanted = f"{V1}/sessions/{session}/commands", {"command": "echo private"}
    for key in ("revoked", "narrowed"):
        assert (await bob.post(url, json=wanted, headers=keyed(key))).status_code < 300
        assert (await bob.post(url, json=wanted, headers=keyed(key))).headers["idempotency-replayed"]
    await accounts.shares.set(session, user.id, "observer", created_by="")
    assert (await bob.post(url, json=wanted, headers=keyed("narrowed"))).status_code == 403
    await accounts.shares.remove(session, user.id)
    assert (await bob.post(url, json=wanted, headers=keyed("revoked"))).status_code == 404


async def test_a_replay_is_refused_when_role_scope_or_user_are_gone(api: Api) -> None:
    eve = await api.as_user("eve")
    user = await Accounts(api.server.rows).users.find("eve")
    wanted = {"purpose": "before-it-changed"}
    sent = await eve.post(f"{V1}/sessions", json=wanted, headers=keyed("role"))
    assert sent.status_code == 201
    narrow = await api.as_user("eve", scopes="read")
    assert (await narrow.post(f"{V1}/sessions", json=wanted, headers=keyed("role"))).status_code == 403
    for role in ("candidate", "observer"):
        await api.patch(f"{V1}/users/{user.id}", json={"role": role})
        assert (await eve.post(f"{V1}/sessions", json=wanted, headers=keyed("role"))).status_code == 403
    await api.patch(f"{V1}/users/{user.id}", json={"role": "member"})
    again = await eve.post(f"{V1}/sessions", json=wanted, headers=keyed("role"))
    assert (again.status_code, again.json()) == (201, sent.json())
    await api.patch(f"{V1}/users/{user.id}", json={"disabled": True})
    assert (await eve.post(f"{V1}/sessions", json=wanted, headers=keyed("role"))).status_code == 401


async def test_a_refused_request_may_be_retried(api: Api) -> None:
    session = await api.ready_session()
    url = f"{V1}/sessions/{session}/move"
    wanted = {"path": "a", "to": "b"}
    assert (await api.post(url, json=wanted, headers=keyed("k5"))).status_code == 404
    await api.put(f"{V1}/sessions/{session}/files/a", content=b"a")
    moved = await api.post(url, json=wanted, headers=keyed("k5"))
    assert moved.status_code == 200
    assert (await api.post(url, json=wanted, headers=keyed("k5"))).json() == moved.json()
    invalid = await api.post(f"{V1}/sessions", json={"purpose": 1}, headers=keyed("k6"))
    assert invalid.status_code == 422
    assert (await api.post(f"{V1}/sessions", json={"purpose": "1"}, headers=keyed("k6"))).status_code == 201


async def test_an_input_is_given_once(api: Api) -> None:
    session = await api.ready_session()
    url = f"{V1}/sessions/{session}/inputs"
    wanted = {"type": "prompt", "text": "Go on"}
    answers = [await api.post(url, json=wanted, headers=keyed("k7")) for _ in range(3)]
    assert [answer.json()["seq"] for answer in answers] == [1, 1, 1]
    assert len((await api.get(url)).json()["items"]) == 1


async def test_a_command_is_run_once(api: Api) -> None:
    session = await api.ready_session()
    url = f"{V1}/sessions/{session}/commands"
    wanted = {"command": "echo x >> log; wc -l < log"}
    answers = [(await api.post(url, json=wanted, headers=keyed("k8"))).json()["stdout"] for _ in range(3)]
    assert answers == ["1\n"] * 3


async def test_a_repeated_request_for_code_starts_one_run(api: Api, tmp_path: Path) -> None:
    make_repository(tmp_path / "repo", {"a.txt": "a\n"})
    wanted = {"repoUrl": str(tmp_path / "repo"), "prompt": "Say something"}
    headers = {**keyed("k12"), "Accept": "application/json"}
    first = await api.post("/api/code", json=wanted, headers=headers)
    assert first.status_code == 200, first.text
    again = await api.post("/api/code", json=wanted, headers=headers)
    assert (again.status_code, again.headers["location"]) == (303, f"/api/code/{first.json()['run']}")
    followed = await api.get(again.headers["location"], headers={"Accept": "application/json"})
    assert followed.json() == first.json()


@pytest.mark.parametrize("key", ["", "x" * 201, "with space", "h\xe4h"])
async def test_a_key_is_short_and_plain(api: Api, key: str) -> None:
    headers = {"Idempotency-Key": key.encode("latin-1")}
    refused = await api.post(f"{V1}/sessions", json={}, headers=headers)
    assert (refused.status_code, refused.json()["code"]) == (422, "invalid")


async def test_a_response_is_stored_for_a_day(api: Api) -> None:
    wanted = {"purpose": "a-day"}
    first = await api.post(f"{V1}/sessions", json=wanted, headers=keyed("k9"))
    old = update(answered_requests).where(answered_requests.c.key == hash_key("k9"))
    at_ms = time.time_ns() // 1_000_000 - RETENTION_MS - 1000
    await api.server.rows.change(lambda db: db.execute(old.values(at_ms=at_ms)))
    later = await api.post(f"{V1}/sessions", json=wanted, headers=keyed("k9"))
    assert later.json()["id"] != first.json()["id"]


async def test_a_response_that_is_too_long_is_not_stored_and_its_request_not_repeated(api: Api) -> None:
    session = await api.ready_session()
    deep = "/".join("d" * 200 for _ in range(6))
    made = f"mkdir -p 'top/{deep}' && cd 'top/{deep}' && for i in $(seq 900); do : > $i; done"
    done = await api.post(f"{V1}/sessions/{session}/commands", json={"command": made})
    assert done.json()["exit_code"] == 0
    wanted = {"path": "top", "to": "other"}
    url = f"{V1}/sessions/{session}/move"
    first = await api.post(url, json=wanted, headers=keyed("k10"))
    assert first.status_code == 200
    assert len(first.content) > 1024 * 1024
    again = await api.post(url, json=wanted, headers=keyed("k10"))
    assert (again.status_code, again.json()["code"]) == (409, "conflict")


async def test_over_a_crash_a_session_is_made_once(tmp_path: Path) -> None:
    """The note of a request that a crash cut short stays; nothing else of it does, so it is done anew."""
    wanted = {"purpose": "crashed"}
    async with serving(tmp_path) as api:
        made = await api.post(f"{V1}/sessions", json=wanted, headers=keyed("whole"))
        cut = await api.post(f"{V1}/sessions", json={"purpose": "cut"}, headers=keyed("cut"))
        note = update(answered_requests).where(answered_requests.c.key == hash_key("cut"))
        await api.server.rows.change(lambda db: db.execute(note.values(status=IN_PROGRESS, body=b"")))
        session = await api.ready_session()
        url = f"{V1}/sessions/{session}/commands"
        run = await api.post(url, json={"command": "echo x >> log"}, headers=keyed("run"))
        assert run.status_code == 200
        note = update(answered_requests).where(answered_requests.c.key == hash_key("run"))
        await api.server.rows.change(lambda db: db.execute(note.values(status=IN_PROGRESS, body=b"")))
    async with serving(tmp_path) as api:
        again = await api.post(f"{V1}/sessions", json=wanted, headers=keyed("whole"))
        assert again.json()["id"] == made.json()["id"]
        anew = await api.post(f"{V1}/sessions", json={"purpose": "cut"}, headers=keyed("cut"))
        assert (anew.status_code, anew.json()["id"] == cut.json()["id"]) == (201, False)
        unknown = await api.post(url, json={"command": "echo x >> log"}, headers=keyed("run"))
        assert (unknown.status_code, unknown.json()["code"]) == (409, "conflict")
        assert (await api.get(f"{V1}/sessions/{session}/files/log")).content == b"x\n"


async def test_the_answer_is_there_exactly_when_the_session_is(api: Api) -> None:
    """Both are written in one transaction: a look at any moment finds both or neither."""
    looks: list[tuple[bool, bool]] = []

    async def poll() -> bool:
        found = await row(api, "k11")
        ids = await purposes(api, "transaction")
        looks.append((bool(found and found["status"] == 201), bool(ids)))
        return looks[-1] == (True, True)

    making = asyncio.ensure_future(
        api.post(f"{V1}/sessions", json={"purpose": "transaction"}, headers=keyed("k11"))
    )
    await eventually(poll)
    assert (await making).status_code == 201
    assert (True, False) not in looks


@pytest.mark.parametrize("size, kept", [(MAX_BYTES, True), (MAX_BYTES + 1, False)])
def test_a_stored_response_has_at_most_64_kib(size: int, kept: bool) -> None:
    assert MAX_BYTES == 64 * 1024
    found = to_answer(Response(b"x" * size, 201))
    assert (found.status, len(found.body)) == ((201, size) if kept else (NOT_STORED, 0))
