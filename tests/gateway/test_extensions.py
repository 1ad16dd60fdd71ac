"""Owners try and approve extensions over the API; a session of a member uses an approved one."""

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from hutch.agent.extensions.extension_catalogue_file import Catalogue
from tests.agent.extensions.extension_programs import raw_server
from tests.gateway.api_server import V1, Api, cassette, serving

pytestmark = pytest.mark.anyio
CODE = "def answer(name, arguments):\n    return 'answered by ' + name"
REPLIES = [
    {"calls": [{"tool": "helper__go", "args": {}}]},
    {"calls": [{"tool": "helper__go", "args": {}}]},
    {"text": "done"},
]


@pytest.fixture
def place() -> Iterator[Path]:
    with TemporaryDirectory(prefix="hutch-test-", ignore_cleanup_errors=True) as directory:
        Path(directory).chmod(0o755)
        yield Path(directory)


async def test_an_owner_approves_an_extension_that_members_use(place: Path) -> None:
    entry = {**raw_server(place / "helper", CODE), "personas": ["engineer"]}
    rules = {"name": "careful", "roles": ["member"], "rules": ["deny helper__*"]}
    async with serving(place / "home", model=cassette(place / "model.json", *REPLIES)) as api:
        Catalogue(api.server.loaded.paths.catalogue).add("helper", entry)
        bob = await api.as_user("bob")
        for method, path in (("GET", ""), ("GET", "/helper"), ("POST", "/helper/approval")):
            assert (await bob.request(method, f"{V1}/extensions{path}")).status_code == 403
        assert (await api.post(f"{V1}/extensions/helper/approval")).status_code == 404
        (listed,) = (await api.get(f"{V1}/extensions")).json()["items"]
        assert (listed["state"], listed["tools"], listed["activity"]["hosts"]) == ("listed", [], [])
        tried = await api.post(f"{V1}/extensions/helper/trial", json={"calls": [{"tool": "go"}]})
        assert tried.json()["replies"] == [{"ok": True, "text": "answered by go"}]
        approved = await api.post(f"{V1}/extensions/helper/approval")
        assert approved.json()["state"] == "approved" and approved.json()["approved_by"]
        assert await results(bob) == ["ok", "ok"]
        assert (await api.post(f"{V1}/policies", json=rules)).status_code == 201
        assert await results(bob) == ["refused", "refused"]
        assert await results(api) == ["ok", "ok"]
        assert (await api.delete(f"{V1}/extensions/helper/approval")).status_code == 204
        assert (await api.get(f"{V1}/extensions/helper")).json()["state"] == "listed"
        actions = [each["action"] for each in (await api.get(f"{V1}/audit")).json()["items"]]
        assert {"extension.approved", "extension.withdrawn"} <= set(actions)
        assert (await api.get(f"{V1}/extensions/missing")).status_code == 404


async def results(api: Api) -> list[str]:
    """The outcomes of the calls in a new session."""
    session = await api.new_session(prompt="Go")
    await api.until(session["id"], "idle", "parked", "ended")
    log = (await api.get(f"{V1}/sessions/{session['id']}/events")).json()["items"]
    found = [each["event"] for each in log if each["event"]["type"] == "tool.returned"]
    return ["ok" if each["ok"] and "answered by go" in each["text"] else "refused" for each in found]
