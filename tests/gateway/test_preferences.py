"""Preferences of users and model keys of their own, over a real server and a real provider protocol."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from hutch.flows.user_accounts import Accounts
from tests.contracts.model_reply_formats import Say, chat
from tests.gateway.api_server import V1, Api, serving
from tests.llm.provider_server import Act, Wire, playing

pytestmark = pytest.mark.anyio

MODEL = "openai:gpt-5.5"
SERVER_KEY, OWN_KEY = "server-key-0123456789", "adas-own-key-0123456789"


@asynccontextmanager
async def with_provider(
    place: Path, runs: int, *, has_server_key: bool = True
) -> AsyncIterator[tuple[Api, Wire]]:
    """A server whose OpenAI is ours, and answers this many runs."""
    acts = [Act(chat(Say(text=("Done.",)))) for _ in range(runs)]
    async with playing(*acts) as wire:
        models = {"openai_base_url": f"{wire.url}/v1", "openai_protocol": "chat"}
        async with serving(place, models=models) as api:
            if has_server_key:
                api.server.services.user_keys._open().set("openai_api_key", SERVER_KEY)
            yield api, wire


def used(wire: Wire) -> list[str]:
    return [asked.headers["authorization"].removeprefix("Bearer ") for asked in wire.requests]


async def prompted(api: Api, session: str, text: str = "Go") -> None:
    await api.give(session, type="prompt", text=text)
    await api.until(session, "idle")


async def test_preferences_are_the_defaults_of_ones_own_sessions(tmp_path: Path) -> None:
    async with serving(tmp_path, models={"ollama_base_url": "http://127.0.0.1:1"}) as api:
        ada, url = await api.as_user("ada"), f"{V1}/users/me/preferences"
        assert (await ada.get(url)).json() == {"model": "", "persona": "", "theme": "auto", "editor": ""}
        chosen = {"model": "ollama:tiny", "persona": "reviewer", "theme": "dark", "editor": "vim -n"}
        assert (await ada.patch(url, json=chosen)).json() == chosen
        mine = await ada.new_session()
        assert (mine["model"], mine["persona"]) == ("ollama:tiny", "reviewer")
        explicit = await ada.new_session(model="ollama:other", persona="engineer")
        assert (explicit["model"], explicit["persona"]) == ("ollama:other", "engineer")
        others = await api.new_session()
        assert (others["model"], others["persona"]) == ("", "")
        assert (await ada.patch(url, json={"persona": ""})).json() == {**chosen, "persona": ""}
        assert (await ada.new_session())["persona"] == ""
        unknown = await ada.patch(url, json={"persona": "reviewr"})
        assert unknown.status_code == 400 and "Did you mean reviewer?" in unknown.json()["detail"]
        assert (await ada.get(url)).json()["persona"] == ""


@pytest.mark.parametrize(
    ("wrong", "status"),
    [
        ({"model": "scripted:/etc/passwd"}, 403),
        ({"model": "gpt"}, 400),
        ({"persona": "../x"}, 400),
        ({"theme": "pink"}, 422),
        ({"editor": "vi\nrm"}, 400),
        ({"colour": "red"}, 422),
    ],
)
async def test_a_wrong_preference_is_refused(tmp_path: Path, wrong: dict[str, Any], status: int) -> None:
    async with serving(tmp_path) as api:
        ada = await api.as_user("ada")
        assert (await ada.patch(f"{V1}/users/me/preferences", json=wrong)).status_code == status


async def test_a_preferred_model_that_cannot_be_used_is_named_as_a_preference(tmp_path: Path) -> None:
    async with serving(tmp_path, model=None) as api:
        ada = await api.as_user("ada")
        await ada.patch(f"{V1}/users/me/preferences", json={"model": "gemini:none"})
        answered = await ada.post(f"{V1}/sessions", json={"prompt": "Go"})
        assert answered.status_code == 400 and "It is your preference" in answered.json()["detail"]


async def test_a_key_of_ones_own_is_used_for_ones_own_runs_only(tmp_path: Path) -> None:
    async with with_provider(tmp_path, 6) as (api, wire):
        ada, bob = await api.as_user("ada"), await api.as_user("bob")
        put = await ada.put(f"{V1}/users/me/model-keys/openai", json={"key": OWN_KEY})
        assert put.status_code == 204, put.text
        mine = await ada.ready_session(model=MODEL)
        await prompted(ada, mine)
        assert used(wire) == [OWN_KEY]
        accounts = Accounts(api.server.rows)
        ids = {user.name: user.id for user in await accounts.users.list()}
        # Bob works in Ada's session: not with her key. So does an owner of the server.
        await accounts.shares.set(mine, ids["bob"], "member", created_by="")
        await prompted(bob, mine)
        await prompted(api, mine)
        assert used(wire)[1:] == [SERVER_KEY, SERVER_KEY]
        # Ada works in Bob's session: not with her key either.
        others = await bob.ready_session(model=MODEL)
        await accounts.shares.set(others, ids["ada"], "member", created_by="")
        await prompted(ada, others)
        assert used(wire)[3:] == [SERVER_KEY]
        # Her fork of his session is hers.
        forked = (await ada.post(f"{V1}/sessions/{others}/fork", json={})).json()["id"]
        await ada.until(forked, "idle", "parked")
        await prompted(ada, forked)
        assert used(wire)[4:] == [OWN_KEY]
        await ada.delete(f"{V1}/users/me/model-keys/openai")
        await prompted(ada, mine)
        assert used(wire)[5:] == [SERVER_KEY]


async def test_a_run_that_another_user_resumes_does_not_use_the_key_of_its_starter(tmp_path: Path) -> None:
    call = Say(calls=(("c", "bash", ('{"command": "true"}',)),), finish="calls")
    async with playing(Act(chat(call)), Act(chat(Say(text=("Done.",))))) as wire:
        models = {"openai_base_url": f"{wire.url}/v1", "openai_protocol": "chat"}
        async with serving(tmp_path, models=models) as api:
            api.server.services.user_keys._open().set("openai_api_key", SERVER_KEY)
            ada = await api.as_user("ada")
            await ada.put(f"{V1}/users/me/model-keys/openai", json={"key": OWN_KEY})
            session = await ada.ready_session(model=MODEL, limits={"turns": 1})
            await prompted(ada, session)
            [run] = (await ada.get(f"{V1}/sessions/{session}/runs")).json()["items"]
            assert run["outcome"] == "limit_reached"
            resumed = await api.post(f"{V1}/runs/{run['id']}/resume", json={"limits": {"turns": 5}})
            assert resumed.status_code in (200, 202), resumed.text
            await api.until(session, "idle")
            assert used(wire) == [OWN_KEY, SERVER_KEY]


async def test_a_key_is_never_shown_and_only_its_owner_has_it(tmp_path: Path) -> None:
    async with with_provider(tmp_path, 1, has_server_key=False) as (api, wire):
        ada, bob = await api.as_user("ada"), await api.as_user("bob")
        keys = f"{V1}/users/me/model-keys"
        await ada.put(f"{keys}/openai", json={"key": OWN_KEY})
        assert (await ada.get(keys)).json() == {"providers": ["openai"]}
        assert (await bob.get(keys)).json() == (await api.get(keys)).json() == {"providers": []}

        async def openai(who: Api) -> dict[str, Any]:
            found = (await who.get(f"{V1}/models")).json()["providers"]
            return next(each for each in found if each["name"] == "openai")

        assert (await openai(ada))["reason"] == "you have a key of your own"
        assert (await openai(bob))["usable"] is False
        assert (await bob.post(f"{V1}/sessions", json={"model": MODEL})).status_code == 403
        # It is redacted wherever it appears, for its owner too.
        mine = await ada.ready_session(model=MODEL, prompt=f"My key is {OWN_KEY}")
        printed = await ada.post(f"{V1}/sessions/{mine}/commands", json={"command": f"echo {OWN_KEY}"})
        assert OWN_KEY not in printed.text and OWN_KEY not in str(await ada.events(mine))
        for path in ("settings", "audit", f"sessions/{mine}"):
            assert OWN_KEY not in (await api.get(f"{V1}/{path}")).text
        home = tmp_path / "home"
        texts = [file.read_bytes() for file in home.rglob("*") if file.is_file()]
        assert texts and not any(OWN_KEY.encode() in text for text in texts)
        gone = await bob.delete(f"{keys}/openai")
        assert gone.status_code == 404 and "usr_" not in gone.text
        for wrong in ({"key": " "}, {"key": "a\nb"}, {}):
            assert (await ada.put(f"{keys}/openai", json=wrong)).status_code in (400, 422)
        assert (await ada.put(f"{keys}/scripted", json={"key": "x"})).status_code == 400
        eve = await api.as_user("eve", "observer")
        assert (await eve.put(f"{keys}/openai", json={"key": "x"})).status_code == 403
        assert used(wire) == [OWN_KEY]
