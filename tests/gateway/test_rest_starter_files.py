"""A session over HTTP that starts with given files instead of a repository."""

import base64
import os
from pathlib import Path
from typing import Any

import pytest

from hutch.app.session_file_retention import retention_of
from hutch.domain.ids import new_session_id
from hutch.domain.user_given_starter_files import MAX_FILES, StarterFile
from hutch.store.event_log import SqlLog
from hutch.workspace.lifecycle.pending_starter_files import StagedFiles
from hutch.workspace.lifecycle.workspace_record_and_directories import Home
from tests.gateway.api_server import V1, Api, eventually, serving

pytestmark = pytest.mark.anyio
BYTES = bytes(range(256))


def staged(api: Api) -> StagedFiles:
    return StagedFiles(Home(api.server.loaded.paths.data).staged_files)


async def test_a_session_starts_with_the_given_texts(api: Api) -> None:
    files = {"src/a.py": "print('hello')\n", "empty": "", "näme ☃": "ü"}
    id = await api.ready_session(files=files)
    for path, text in files.items():
        assert (await api.get(f"{V1}/sessions/{id}/files/{path}")).text == text
    shown = (await api.get(f"{V1}/sessions/{id}")).json()
    assert (shown["repository"], shown["starter_files"]) == ("", 3)
    events = await api.events(id)
    prepared = next(each for each in events if each["type"] == "session.prepared")
    assert (prepared["starter_files"], prepared["source"]) == (3, "")
    assert "hello" not in str(events)
    assert (await api.get(f"{V1}/sessions/{id}/diff")).json()["patch"] == ""
    assert not list(staged(api).directory.iterdir())
    asked = {"query": "query($id: ID!) { session(id: $id) { starterFiles } }", "variables": {"id": id}}
    assert (await api.post("/api/graphql", json=asked)).json()["data"] == {"session": {"starterFiles": 3}}


async def test_files_may_be_any_bytes_and_executable(api: Api) -> None:
    listed = [
        {"path": "bin/run", "text": "#!/bin/sh\necho ran\n", "executable": True},
        {"path": "data", "base64": base64.b64encode(BYTES).decode()},
    ]
    id = await api.ready_session(files=listed)
    assert (await api.get(f"{V1}/sessions/{id}/files/data")).content == BYTES
    ran = (await api.post(f"{V1}/sessions/{id}/commands", json={"command": "bin/run"})).json()
    assert (ran["exit_code"], ran["stdout"].strip()) == (0, "ran"), ran
    forked = await api.post(f"{V1}/sessions/{id}/fork", json={})
    assert forked.status_code == 201 and forked.json()["starter_files"] == 0
    await api.until(forked.json()["id"], "idle", "parked")
    assert (await api.get(f"{V1}/sessions/{forked.json()['id']}/files/data")).content == BYTES


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        ({"files": {"../x": ""}}, 400, "'..'"),
        ({"files": {"/etc/cron.d/x": ""}}, 400, "does not begin with '/'"),
        ({"files": {"a": "", "a/b": ""}}, 400, "cannot be a file and the directory"),
        ({"files": [{"path": "a", "text": ""}, {"path": "./a", "text": ""}]}, 400, "Two starter files"),
        ({"files": [{"path": "a", "base64": "?"}]}, 400, "is not base64"),
        ({"files": [{"path": "a", "base64": "aGk"}]}, 400, "is not base64"),
        ({"files": {str(number): "" for number in range(MAX_FILES + 1)}}, 413, "at most 1000 files"),
        ({"files": {"a": "x" * (8 * 1024 * 1024 + 1)}}, 413, "at most 8 MiB"),
        ({"files": {"a": ""}, "repository": "https://example.com/a.git"}, 400, "not from both"),
        ({"files": {"a": ""}, "revision": "main"}, 400, "not from both"),
        ({"files": {"a": ""}, "deliver": True}, 400, "no repository to deliver to"),
        ({"files": [{"path": "a"}]}, 422, "either text or base64"),
        ({"files": [{"path": "a", "text": "", "base64": ""}]}, 422, "either text or base64"),
        ({"files": {"a": 1}}, 422, "text"),
        ({"files": "a"}, 422, "an object"),
    ],
)
async def test_wrong_files_are_refused(api: Api, body: dict[str, Any], status: int, words: str) -> None:
    refused = await api.post(f"{V1}/sessions", json=body)
    assert refused.status_code == status, refused.text[:500]
    assert words in refused.text
    assert not staged(api).directory.exists() or not list(staged(api).directory.iterdir())


async def test_files_of_a_waiting_session_survive_a_restart(tmp_path: Path) -> None:
    busy = {"runs": 1, "runs_per_user": 1}
    slow = {"calls": [{"tool": "bash", "args": {"command": "sleep 600", "timeout_s": 600}}]}
    async with serving(tmp_path, replies=(slow,), sessions=busy) as api:
        first = await api.new_session(prompt="Wait")
        await api.until(first["id"], "running")
        queued = await api.new_session(files={"a.txt": "kept\n"})
        removed = await api.new_session(files={"b.txt": "gone\n"})
        assert len(list(staged(api).directory.iterdir())) == 2
        assert (await api.delete(f"{V1}/sessions/{removed['id']}")).status_code == 204
        assert [each.name for each in staged(api).directory.iterdir()] == [f"{queued['id']}.json"]
    async with serving(tmp_path) as api:
        await api.give(first["id"], type="end", reason="")
        await api.until(queued["id"], "idle", "parked")
        assert (await api.get(f"{V1}/sessions/{queued['id']}/files/a.txt")).text == "kept\n"


async def test_files_that_no_session_waits_for_are_swept(tmp_path: Path) -> None:
    async with serving(tmp_path) as api:
        id = new_session_id()
        staged(api).store(id, {"a": StarterFile(b"x")})
        log = api.server.log
        assert isinstance(log, SqlLog)
        await retention_of(api.server.loaded, log).sweep()
        assert staged(api).read(id)
        os.utime(staged(api).directory / f"{id}.json", (0, 0))

        async def poll() -> bool:
            await retention_of(api.server.loaded, log).sweep()
            return not list(staged(api).directory.iterdir())

        await eventually(poll)
