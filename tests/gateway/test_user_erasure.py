"""A user is erased, by choice with their sessions and with their name in logs, and also after a crash."""

import json
from pathlib import Path

import pytest
from sqlalchemy import text

from hutch.agent.saved_approvals import SavedApprovals
from hutch.agent.tool_call_rules import parse_rule
from hutch.flows.user_accounts import LOCAL, Accounts
from hutch.store.user_row_erasure import UserErasures
from tests.gateway.api_server import V1, Api, eventually, serving

pytestmark = pytest.mark.anyio

KEY = "wilhelminas-key-0123456789"
NAME = "wilhelmina"


async def settled(api: Api) -> tuple[Api, str, str, str]:
    """A user with everything that a user can have: their client, their id, a session of theirs, and one of
    another user that mentions them."""
    other = await api.as_user(NAME)
    accounts = Accounts(api.server.rows)
    user = await accounts.users.find(NAME)
    await other.patch(f"{V1}/users/me/preferences", json={"theme": "dark", "editor": "vim"})
    await other.put(f"{V1}/users/me/model-keys/openai", json={"key": KEY})
    await SavedApprovals(api.server.rows, user.id).add([parse_rule("allow bash git push")])
    await accounts.new_link(user, LOCAL)
    await accounts.set_password(user.id, "a long enough password", LOCAL)
    mine = await other.ready_session(purpose="private matters", prompt="Secret plans")
    others = await api.ready_session(prompt=f"Ask {NAME} about it, not wilhelminas.")
    await accounts.shares.set(others, user.id, "member", created_by="")
    await other.give(others, type="message", text="I was here")
    await api.until(others, "idle")
    return other, str(user.id), mine, others


async def erase(api: Api, user_id: str, **choices: str) -> dict[str, object]:
    answered = await api.post(f"{V1}/users/{user_id}/erase", json=choices)
    assert answered.status_code == 200, answered.text
    return dict(answered.json())


async def rows_with(api: Api, user_id: str) -> set[str]:
    """The tables that contain the id or the name of a user."""

    def poll(db) -> set[str]:  # type: ignore[no-untyped-def]
        found = set()
        names = [row[0] for row in db.execute(text("SELECT name FROM sqlite_master WHERE type = 'table'"))]
        for name in names:
            for row in db.execute(text(f'SELECT * FROM "{name}"')):
                if any(str(value) in (user_id, NAME) or NAME in str(value) for value in row):
                    found.add(name)
        return found

    return await api.server.rows.fetch(poll)


async def test_nothing_of_an_erased_user_works_or_names_them(tmp_path: Path) -> None:
    async with serving(tmp_path) as api:
        other, user_id, mine, others = await settled(api)
        plan = (await api.get(f"{V1}/users/{user_id}/erasure")).json()
        assert (plan["name"], plan["sessions"]) == (NAME, [mine])
        assert plan["mentions"] >= 2  # the prompt in run.queued and run.started
        for incomplete in ({}, {"sessions": "erase"}, {"mentions": "erase"}):
            answered = await api.post(f"{V1}/users/{user_id}/erase", json=incomplete)
            assert answered.status_code == 400 and "Choose" in answered.json()["detail"]
        assert (await other.get(f"{V1}/me")).status_code == 200  # a refusal erases nothing
        erased = await erase(api, user_id, sessions="erase", mentions="erase")
        assert (erased["sessions_erased"], erased["secrets_deleted"]) == (1, 1)
        assert erased["events_erased"] == plan["mentions"]
        assert any(user_id in line for line in erased["remains"])  # type: ignore[attr-defined]
        assert (await other.get(f"{V1}/me")).status_code == 401
        login = {"name": NAME, "password": "a long enough password"}
        assert (await (await api.as_nobody()).post(f"{V1}/login", json=login)).status_code == 401
        assert (await api.get(f"{V1}/users/{user_id}")).status_code == 404
        assert (await api.get(f"{V1}/sessions/{mine}")).status_code == 404
        assert NAME not in json.dumps((await api.get(f"{V1}/users")).json())
        assert api.server.services.user_keys.providers(user_id) == []
        # The log of others keeps its chain, without the name; words that only contain it are no mention.
        events = await api.events(others)
        assert [each["reason"] for each in events if each.get("erased")] == ["a user was erased"] * int(
            erased["events_erased"]  # type: ignore[call-overload]
        )
        assert any(each.get("prompt") == "I was here" for each in events)
        assert (await api.get(f"{V1}/sessions/{others}/record")).status_code == 200
        # The id stays where it only says that one user did something.
        assert await rows_with(api, user_id) <= {
            "events",
            "inputs",
            "audit",
            "usage",
            "usage_sessions",
            "user_erasures",
        }
        again = await api.post(f"{V1}/users/{user_id}/erase", json={"sessions": "erase"})
        assert again.status_code == 404 and "was erased on" in again.text
        assert (await api.as_user(NAME)) is not other  # the name is free again


async def test_sessions_are_handed_over_if_an_heir_is_named(tmp_path: Path) -> None:
    async with serving(tmp_path) as api:
        _, user_id, mine, _ = await settled(api)
        bob = await api.as_user("bob")
        for heir in (NAME, "nobody-else"):
            wrong = {"heir": heir, "mentions": "keep"}
            assert (await api.post(f"{V1}/users/{user_id}/erase", json=wrong)).status_code in (400, 404)
        erased = await erase(api, user_id, heir="bob", mentions="keep")
        assert (erased["sessions_handed_over"], erased["events_erased"]) == (1, 0)
        assert (await bob.get(f"{V1}/sessions/{mine}")).json()["owner_name"] == "bob"
        await bob.give(mine, type="prompt", text="Go on")
        await bob.until(mine, "idle")


async def test_an_interrupted_erasure_is_finished_by_the_next_server(tmp_path: Path) -> None:
    async with serving(tmp_path) as api:
        other, user_id, mine, others = await settled(api)
        await UserErasures(api.server.rows).begin(user_id, heir="", mentions="erase")  # then it crashed

        async def is_out() -> bool:
            return (await other.get(f"{V1}/me")).status_code == 401

        await eventually(is_out)
    async with serving(tmp_path) as api:

        async def is_gone() -> bool:
            return (await api.get(f"{V1}/users/{user_id}")).status_code == 404

        await eventually(is_gone)
        assert (await api.get(f"{V1}/sessions/{mine}")).status_code == 404
        assert await api.server.log.count_payloads(mine) == 0  # type: ignore[arg-type]
        assert NAME not in json.dumps([e for e in await api.events(others) if e["type"] == "run.queued"])


async def test_the_last_owner_stays_and_members_erase_nobody(tmp_path: Path) -> None:
    async with serving(tmp_path) as api:
        ada, owner = await api.as_user("ada"), await Accounts(api.server.rows).users.find("owner")
        body = {"sessions": "erase", "mentions": "keep"}
        assert (await ada.post(f"{V1}/users/{owner.id}/erase", json=body)).status_code == 403
        assert (await ada.get(f"{V1}/users/{owner.id}/erasure")).status_code == 403
        answered = await api.post(f"{V1}/users/{owner.id}/erase", json=body)
        assert answered.status_code == 400 and "last owner" in answered.text
        assert (await api.get(f"{V1}/me")).status_code == 200
