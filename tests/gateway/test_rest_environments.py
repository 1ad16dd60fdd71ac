"""Installed dependencies over HTTP: seen, built and removed by their owners."""

from pathlib import Path

import pytest

from hutch.domain.ids import SessionId
from tests.forge.repositories import make_repository
from tests.gateway.api_server import V1, Api, serving
from tests.gateway.test_jail_variables import run
from tests.gateway.test_stream_terminal import share

pytestmark = pytest.mark.anyio

FILES = {
    ".hutch/config.toml": (
        '[environment]\nsetup = ["echo made > made"]\ninputs = ["lock.txt"]\noutputs = ["made"]\n'
    ),
    "lock.txt": "1\n",
}


@pytest.fixture(scope="module")
async def session(api: Api, tmp_path_factory: pytest.TempPathFactory) -> str:
    project: Path = tmp_path_factory.mktemp("projects") / "project"
    make_repository(project, FILES)
    return await api.ready_session(repository=str(project))


async def test_a_set_up_is_shown_accepted_and_built(api: Api, session: str) -> None:
    url = f"{V1}/sessions/{session}/environment"
    shown = (await api.get(url)).json()
    assert [step["command"] for step in shown["steps"]] == ["echo made > made"]
    assert (shown["accepted"], shown["built"], shown["attached"]) == (False, None, [])
    other = await api.post(url, json={"layer": "0" * 64})
    assert (other.status_code, "has changed" in other.text) == (409, True)
    built = await api.post(url, json={"layer": shown["layer"]})
    assert built.status_code == 200, built.text
    assert "made" in built.json()["built"]["roots"]
    listed = (await api.get(f"{V1}/environments")).json()["items"]
    assert [each["key"] for each in listed] == [shown["layer"]]
    assert (await api.get(url)).json()["accepted"]


async def test_layers_of_others_do_not_exist(api: Api, session: str) -> None:
    url = f"{V1}/sessions/{session}/environment"
    layer = (await api.post(url)).json()["layer"]
    bob = await api.as_user("bob")
    assert (await bob.get(f"{V1}/environments")).json()["items"] == []
    assert (await bob.delete(f"{V1}/environments/{layer}")).status_code == 404
    assert (await bob.get(url)).status_code == 404
    assert (await bob.post(url)).status_code == 404
    assert (await (await api.as_nobody()).get(f"{V1}/environments")).status_code == 401
    reader = await api.as_user("owner", "owner", "read")
    assert (await reader.delete(f"{V1}/environments/{layer}")).status_code == 403
    assert (await api.delete(f"{V1}/environments/{layer[:12]}")).status_code == 204
    assert (await api.delete(f"{V1}/environments/{layer[:12]}")).status_code == 404
    assert (await api.delete(f"{V1}/environments/..%2f..")).status_code in (404, 422)


async def test_an_observer_of_a_session_sees_the_set_up_and_why_it_failed(
    api: Api, tmp_path_factory: pytest.TempPathFactory
) -> None:
    project: Path = tmp_path_factory.mktemp("projects") / "failing"
    settings = '[environment]\nsetup = ["echo first; echo The header x.h is not found; exit 3"]\n'
    make_repository(project, {".hutch/config.toml": settings, ".tool-versions": "nosuchtool 3.2\n"})
    session = await api.ready_session(repository=str(project))
    url = f"{V1}/sessions/{session}/environment"
    assert (await api.post(url)).json()["failure"]["reason"]
    reader = await share(api, session, "carol", "observer")
    shown = (await reader.get(url)).json()
    assert "exit code 3. It printed: The header x.h is not found" in shown["failure"]["reason"]
    assert (shown["accepted"], shown["built"]) == (True, None)
    assert ".tool-versions asks for nosuchtool 3.2; jails have none." in shown["notes"][0]
    lines = (await reader.get(f"{url}/log")).json()["lines"]
    assert lines[-2:] == ["first", "The header x.h is not found"]
    assert (await reader.post(url)).status_code == 403
    stranger = await api.as_user("dave")
    assert (await stranger.get(f"{url}/log")).status_code == 404


async def test_hiding_installed_packages_from_git_is_no_change_of_a_file(tmp_path: Path) -> None:
    setup = '[environment]\nsetup = ["mkdir .venv && touch .venv/tool"]\n'
    make_repository(tmp_path / "project", {"a.txt": "1\n", ".hutch/config.toml": setup})
    async with serving(tmp_path, environment={"auto": True}) as api:
        session_id = await api.ready_session(repository=str(tmp_path / "project"))
        ran = await run(api, session_id, "ls .venv; git status --porcelain; echo 2 > a.txt")
        assert ran["stdout"] == "tool\n"
        await api.server.host.close(SessionId(session_id), reason="test")
        events = await api.events(session_id)
        assert "environment.attached" in [event["type"] for event in events]
        changed = [event for event in events if event["type"].startswith("file")]
        assert [(event["type"], event.get("path")) for event in changed] == [("file.changed", "a.txt")]
