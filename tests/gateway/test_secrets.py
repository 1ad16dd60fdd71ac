"""Secrets over REST: set and deleted by those who may, listed by name, never read out."""

import io
from collections.abc import Iterator
from pathlib import Path

import pytest

from hutch import logs
from hutch.flows.user_accounts import Accounts
from hutch.store.vault import Vault
from hutch.store.vault_redactor import VaultRedactor
from tests.gateway.api_server import V1, Api, serving
from tests.gateway.test_jail_variables import run

pytestmark = pytest.mark.anyio

VALUE = "Zq7-KvRwtHnmxuE+93kxl/Pmw0T"
SECRETS, OWN = f"{V1}/secrets", f"{V1}/users/me/secrets"


def vault(api: Api) -> Vault:
    paths = api.server.loaded.paths
    return Vault(paths.vault, paths.vault_keys)


async def user_ids(api: Api) -> dict[str, str]:
    return {user.name: user.id for user in await Accounts(api.server.rows).users.list()}


@pytest.fixture
def lines() -> Iterator[io.StringIO]:
    """Every line that the server logs, with the redaction of a server whose vault is elsewhere: none."""
    written = io.StringIO()
    logs.configure("debug", "json", written, VaultRedactor(Path("/nowhere/vault"), Path("/nowhere/keys")))
    yield written
    logs.configure()


async def test_only_owners_list_set_and_delete_secrets_of_the_installation(api: Api) -> None:
    vault(api).set("github_token", VALUE)
    members = [await api.as_user(f"sec-{role}", role) for role in ("member", "candidate", "observer")]
    limited = await api.as_user("owner", "owner", scopes="write")
    nobody = await api.as_nobody()
    for who, status in [*((each, 403) for each in (*members, limited)), (nobody, 401)]:
        refused = [
            await who.get(SECRETS),
            await who.put(f"{SECRETS}/github_token", json={"value": "changed-by-another"}),
            await who.put(f"{SECRETS}/openai_api_key", json={"value": "added-by-another"}),
            await who.delete(f"{SECRETS}/github_token"),
        ]
        assert [each.status_code for each in refused] == [status] * 4
        assert not any(VALUE in each.text or "vault" in each.text for each in refused)
    assert vault(api).get("github_token") == VALUE and vault(api).get("openai_api_key") is None


async def test_a_value_is_in_no_answer_no_error_no_log_and_no_file(
    tmp_path: Path, lines: io.StringIO
) -> None:
    async with serving(tmp_path) as api:
        url = f"{SECRETS}/anthropic_api_key"
        answers = [
            await api.put(url, json={"value": VALUE}),
            await api.put(f"{OWN}/STRIPE_KEY", json={"value": VALUE}),
            await api.put(url, json={"value": [VALUE]}),
            await api.put(url, json={"values": VALUE}),
            await api.put(url, json={"value": VALUE, VALUE: 1}),
            await api.put(url, json=VALUE),
            await api.put(url, content=f'{{"value": "{VALUE}"', headers={"content-type": "application/json"}),
            await api.put(url, content=VALUE),
            await api.put(url, json={"value": VALUE * 4000}),
            await api.put(url, json={"value": f"{VALUE}\0"}),
            await api.put(f"{OWN}/STRIPE_KEY", json={"value": f"{VALUE}\0"}),
            await api.put(f"{SECRETS}/no_such_name", json={"value": VALUE}),
            await api.put(f"{OWN}/PATH", json={"value": VALUE}),
            await api.put(f"{SECRETS}/jail_path", json={"value": VALUE}),
            await api.post(url, json={"value": VALUE}, headers={"Idempotency-Key": "k"}),
        ]
        assert [each.status_code for each in answers] == [200, 200, *(422,) * 5, 415, 422, *(400,) * 5, 405]
        answers += [await api.get(f"{V1}/{path}") for path in ("secrets", "users/me/secrets", "settings")]
        answers += [await api.get(url), await api.get(f"{V1}/audit")]
        assert not any(VALUE in each.text for each in answers)
        assert VALUE not in lines.getvalue()
        files = [file.read_bytes() for file in (tmp_path / "home").rglob("*") if file.is_file()]
        assert files and not any(VALUE.encode() in text for text in files)
        assert vault(api).get("anthropic_api_key") == VALUE


async def test_a_secret_is_used_and_redacted_as_soon_as_it_is_set(tmp_path: Path) -> None:
    async with serving(tmp_path) as api:
        answered = await api.put(f"{SECRETS}/jail_stripe_key", json={"value": VALUE})
        assert answered.json() == {
            "name": "jail_stripe_key",
            "used_for": "the variable STRIPE_KEY of jails, in sessions of owners that name it",
            "source": "vault",
            "stored": True,
            "user_id": "",
            "user_name": "",
            "variable": "STRIPE_KEY",
            "sessions": [],
        }
        session = await api.ready_session(secrets=["STRIPE_KEY"])
        ran = await run(api, session, "echo ${#STRIPE_KEY}; echo $STRIPE_KEY")
        assert ran["stdout"].startswith(f"{len(VALUE)}\n") and VALUE not in str(ran)
        listed = {each["name"]: each for each in (await api.get(SECRETS)).json()["items"]}
        assert listed["jail_stripe_key"]["sessions"] == [session]
        assert (listed["openai_api_key"]["source"], listed["openai_api_key"]["stored"]) == ("", False)

        assert (await api.delete(f"{SECRETS}/jail_stripe_key")).status_code == 204
        again = await api.delete(f"{SECRETS}/jail_stripe_key")
        assert (again.status_code, again.json()["detail"]) == (404, "The secret jail_stripe_key is not set.")
        audit = (await api.get(f"{V1}/audit")).json()["items"]
        noted = [(each["action"], each["object"]) for each in audit if each["action"].startswith("secret.")]
        assert noted == [("secret.deleted", "jail_stripe_key"), ("secret.set", "jail_stripe_key")]


async def test_members_have_secrets_of_their_own_which_nobody_else_gets(tmp_path: Path) -> None:
    async with serving(tmp_path) as api:
        ada, bob = await api.as_user("ada"), await api.as_user("bob")
        ids = await user_ids(api)
        put = await ada.put(f"{OWN}/API_KEY", json={"value": VALUE})
        assert (put.status_code, put.json()["variable"]) == (200, "API_KEY")
        mine = await ada.ready_session(secrets=["API_KEY"])
        assert (await run(ada, mine, "echo ${#API_KEY}"))["stdout"] == f"{len(VALUE)}\n"
        [listed] = (await ada.get(OWN)).json()["items"]
        assert (listed["variable"], listed["sessions"], listed["user_id"]) == ("API_KEY", [mine], ids["ada"])

        assert (await bob.get(OWN)).json()["items"] == []
        for name in ("API_KEY", f"API_KEY_{ids['ada']}"):
            assert (await bob.delete(f"{OWN}/{name}")).status_code == 404
            refused = await bob.post(f"{V1}/sessions", json={"secrets": [name]})
            assert refused.status_code == 404, refused.text
        # An owner sees that there is one, and whose; and may delete it.
        shared = {each["name"]: each for each in (await api.get(SECRETS)).json()["items"]}
        name = f"jail_api_key_{ids['ada']}"
        assert (shared[name]["user_name"], shared[name]["variable"]) == ("ada", "API_KEY")
        assert shared[name]["sessions"] == [mine]
        assert (await ada.delete(f"{OWN}/API_KEY")).status_code == 204
        assert name not in vault(api).names()


async def test_candidates_and_watchers_have_no_secrets_of_their_own(api: Api) -> None:
    for role in ("candidate", "observer", "assessor"):
        who = await api.as_user(f"own-{role}", role)
        put = await who.put(f"{OWN}/API_KEY", json={"value": VALUE})
        assert put.status_code == 403, put.text
        assert (await who.get(OWN)).status_code == 403
        assert (await who.delete(f"{OWN}/API_KEY")).status_code == 403
    short = await (await api.as_user("own-member")).put(f"{OWN}/API_KEY", json={"value": "a1b2c3d"})
    assert (short.status_code, "8 characters" in short.json()["detail"]) == (400, True)


async def test_a_secret_with_another_source_says_so(tmp_path: Path) -> None:
    place = tmp_path / "token"
    place.write_text("from-a-file-0123456789")
    async with serving(tmp_path, secrets={"github_token": f"file:{place}"}) as api:
        answered = await api.put(f"{SECRETS}/github_token", json={"value": VALUE})
        assert (answered.json()["source"], answered.json()["stored"]) == (f"file:{place}", True)
        assert (await api.delete(f"{SECRETS}/github_token")).status_code == 204
        left = {each["name"]: each for each in (await api.get(SECRETS)).json()["items"]}
        assert (left["github_token"]["source"], left["github_token"]["stored"]) == (f"file:{place}", False)
