"""Variables and named secrets of a session's jail: who may give them, who gets them, who sees them."""

from pathlib import Path
from typing import Any

import pytest

from hutch.domain.hutch_secret_names import jail_secret
from hutch.flows.user_accounts import Accounts
from hutch.store.vault import Vault
from tests.gateway.api_server import V1, Api, serving
from tests.gateway.test_stream_terminal import share

pytestmark = pytest.mark.anyio

VALUE = "Zq7-KvRwtHnmxuE+93kxl/Pmw0T"


def store(api: Api, name: str, value: str = VALUE) -> None:
    paths = api.server.loaded.paths
    Vault(paths.vault, paths.vault_keys).set(name, value)


async def run(api: Api, session_id: str, command: str) -> dict[str, Any]:
    answered = await api.post(f"{V1}/sessions/{session_id}/commands", json={"command": command})
    assert answered.status_code == 200, answered.text
    return dict(answered.json())


async def test_every_command_of_a_session_has_its_variables(tmp_path: Path) -> None:
    async with serving(tmp_path, jail={"variables": {"ZONE": "UTC", "MODE": "settings"}}) as api:
        variables = {"MODE": "a 'b' $c", "EMPTY": ""}
        session_id = await api.ready_session(purpose="x", variables=variables)
        ran = await run(api, session_id, 'printf "%s|%s|%s" "$ZONE" "$MODE" "${EMPTY-unset}"')
        assert ran["stdout"] == "UTC|a 'b' $c|"
        direct = await api.post(f"{V1}/sessions/{session_id}/exec", json={"argv": ["printenv", "MODE"]})
        assert direct.json()["stdout"] == "a 'b' $c\n"
        shown = (await api.get(f"{V1}/sessions/{session_id}")).json()
        assert (shown["variables"], shown["secrets"]) == (variables, [])
        opened = (await api.events(session_id))[0]
        assert (opened["variables"], opened["secrets"]) == (["EMPTY", "MODE"], [])
        fork = (await api.post(f"{V1}/sessions/{session_id}/fork", json={})).json()
        assert fork["variables"] == variables


@pytest.mark.parametrize(
    ("asked", "reason"),
    [
        ({"variables": {"PATH": "/evil"}}, "set by Hutch itself"),
        ({"variables": {"HUTCH_HOME": "/x"}}, "set by Hutch itself"),
        ({"variables": {"hutch_home": "/x"}}, "set by Hutch itself"),
        ({"variables": {"BASH_ENV": "/workspace/x"}}, "set by Hutch itself"),
        ({"variables": {"https_proxy": "http://x"}}, "set by Hutch itself"),
        ({"variables": {"A B": "x"}}, "is not the name of a variable"),
        ({"variables": {"": "x"}}, "is not the name of a variable"),
        ({"variables": {"A=B": "x"}}, "is not the name of a variable"),
        ({"variables": {"A": "x\0y"}}, "NUL"),
        ({"variables": {"KEY": f"sk-ant-api03-{'A1b2' * 20}"}}, "looks like a secret"),
        ({"secrets": ["NOT_THERE"]}, "There is no secret NOT_THERE"),
        ({"secrets": ["PATH"]}, "set by Hutch itself"),
        ({"secrets": ["../x"]}, "is not the name of a variable"),
        ({"variables": {"A": "1"}, "secrets": ["A"]}, "as a variable and as a secret"),
    ],
)
async def test_what_a_jail_cannot_have_is_refused(api: Api, asked: dict[str, Any], reason: str) -> None:
    answered = await api.post(f"{V1}/sessions", json={"purpose": "x", **asked})
    assert answered.status_code in (400, 404), answered.text
    assert reason in answered.json()["detail"]


async def test_a_named_secret_is_in_the_jail_and_nowhere_else(tmp_path: Path) -> None:
    async with serving(tmp_path) as api:
        store(api, "jail_api_key")
        session_id = await api.ready_session(purpose="x", secrets=["API_KEY"])
        ran = await run(api, session_id, 'echo "${#API_KEY}"; echo $API_KEY')
        assert ran["stdout"].startswith(f"{len(VALUE)}\n")
        everything = [
            str(ran),
            (await api.get(f"{V1}/sessions/{session_id}")).text,
            str(await api.events(session_id)),
        ]
        assert not any(VALUE in text for text in everything)
        assert (await api.get(f"{V1}/sessions/{session_id}")).json()["secrets"] == ["API_KEY"]
        database = (api.server.loaded.paths.database).read_bytes()
        assert VALUE.encode() not in database


async def test_keys_of_hutch_itself_are_out_of_reach(tmp_path: Path) -> None:
    async with serving(tmp_path) as api:
        store(api, "anthropic_api_key")
        store(api, "github_token")
        for name in ("ANTHROPIC_API_KEY", "anthropic_api_key", "GITHUB_TOKEN"):
            answered = await api.post(f"{V1}/sessions", json={"purpose": "x", "secrets": [name]})
            assert answered.status_code == 404, name


async def test_members_get_their_own_secrets_and_no_others(tmp_path: Path) -> None:
    async with serving(tmp_path) as api:
        bob, eve = await api.as_user("bob"), await api.as_user("eve")
        users = {user.name: user.id for user in await Accounts(api.server.rows).users.list()}
        store(api, "jail_shared")
        store(api, jail_secret("OWN", users["bob"]))
        for who, name in ((bob, "SHARED"), (eve, "OWN"), (eve, f"OWN_{users['bob']}"), (api, "OWN")):
            answered = await who.post(f"{V1}/sessions", json={"purpose": "x", "secrets": [name]})
            assert answered.status_code == 404, name
        session_id = await bob.ready_session(purpose="x", secrets=["OWN"])
        assert (await run(bob, session_id, "echo ${#OWN}"))["stdout"] == f"{len(VALUE)}\n"


async def test_a_fork_by_another_user_has_no_secrets(tmp_path: Path) -> None:
    async with serving(tmp_path) as api:
        store(api, "jail_api_key")
        session_id = await api.ready_session(purpose="x", secrets=["API_KEY"])
        mine = (await api.post(f"{V1}/sessions/{session_id}/fork", json={})).json()
        assert mine["secrets"] == ["API_KEY"]
        bob = await share(api, session_id, "bob", "member")
        forked = await bob.post(f"{V1}/sessions/{session_id}/fork", json={})
        assert forked.status_code == 201, forked.text
        assert forked.json()["secrets"] == []


async def test_a_repository_gives_neither_secrets_nor_variables_of_jails(tmp_path: Path) -> None:
    files = {".hutch/config.toml": '[jail]\nvariables = { MODE = "evil" }\nsecrets = ["API_KEY"]\n'}
    async with serving(tmp_path) as api:
        store(api, "jail_api_key")
        session_id = await api.ready_session(purpose="x", files=files)
        ran = await run(api, session_id, 'echo "${MODE-none} ${API_KEY-none}"')
        assert ran["stdout"] == "none none\n"
