"""An erasure reaches every copy of a text: in the tables, in kept answers, and in the files."""

from pathlib import Path
from typing import Any

import pytest

from hutch.agent.conversation import Conversation
from hutch.app.unerased import unerased, workspaces_of
from tests.forge.repositories import make_repository
from tests.gateway.api import V1, Api, eventually, serving

pytestmark = pytest.mark.anyio

WORD = "zyzzyvaquux"


def files_with(word: str, place: Path) -> list[Path]:
    files = [file for file in place.rglob("*") if file.is_file() and not file.is_symlink()]
    return [file for file in files if word.encode() in file.read_bytes()]


async def answers(api: Api, session: str) -> str:
    """All that the API says about a session."""
    paths = ("", "/runs", "/inputs", "/events")
    return "".join([(await api.get(f"{V1}/sessions/{session}{path}")).text for path in paths])


@pytest.mark.parametrize("everything", [True, False])
async def test_nothing_is_left_of_an_erased_text(tmp_path: Path, everything: bool) -> None:
    replies = ({"text": f"I read {WORD} and did it.", "times": 10},)
    async with serving(tmp_path, replies=replies) as api:
        what = {name: f"{name} {WORD}" for name in ("purpose", "role", "expectations", "prompt")}
        asked = {"json": what, "headers": {"Idempotency-Key": "the-session"}}
        made = await api.post(f"{V1}/sessions", **asked)
        assert made.status_code == 201, made.text
        session = made.json()["id"]
        await api.until(session, "idle", "parked")
        said = {"json": {"type": "message", "text": f"Say {WORD}"}, "headers": {"Idempotency-Key": "input"}}
        assert (await api.post(f"{V1}/sessions/{session}/inputs", **said)).status_code == 202
        await api.until(session, "idle", "parked")
        assert WORD in await answers(api, session) and files_with(WORD, tmp_path / "home")

        listed = (await api.get(f"{V1}/sessions/{session}/events")).json()["items"]
        holding = {each["seq"] for each in listed if WORD in str(each)}
        await api.server.log.erase(session, None if everything else holding, reason="a secret")

        assert WORD not in await answers(api, session)
        entries = await api.server.log.read(session)
        assert WORD not in str(Conversation.of(entries).messages)  # what the model would be sent next
        assert files_with(WORD, tmp_path / "home") == []
        again = [await api.post(f"{V1}/sessions", **asked)]
        again += [await api.post(f"{V1}/sessions/{session}/inputs", **said)]
        assert [(each.status_code, WORD in each.text) for each in again] == [(409, False)] * 2


async def test_what_an_erasure_does_not_reach_is_named(tmp_path: Path) -> None:
    repository = tmp_path / "repository"
    make_repository(repository, {"a.txt": "a\n"})
    command = {"command": f"echo {WORD} > file.txt"}
    replies = (
        {"text": "I do it.", "calls": [{"tool": "bash", "args": command}]},
        {"text": "Done.", "times": 9},
    )
    async with serving(tmp_path, replies=replies) as api:
        made = await api.new_session(repository=str(repository), prompt=f"Do {WORD}", deliver=True)
        session, log, loaded = made["id"], api.server.log, api.server.loaded

        async def look() -> list[dict[str, Any]]:
            found: list[dict[str, Any]] = (await api.get(f"{V1}/changes")).json()["items"]
            return found

        (change,) = await eventually(look)
        await api.until(session, "idle", "parked")
        fork = await api.post(f"{V1}/sessions/{session}/fork", json={})
        assert fork.status_code == 201, fork.text
        await api.until(fork.json()["id"], "idle", "parked")  # else its files come and go beneath the search
        workspaces = await workspaces_of(log, session)
        backups = loaded.paths.data / "backups"
        backups.mkdir()
        (backups / "hutch-1.db").touch()
        await log.erase(session, None, reason="a secret")
        place = loaded.paths.data / "workspaces" / f"session-{session.removeprefix('ses_')}"
        assert await unerased(api.server.rows, loaded, session, workspaces) == [
            f"The branch {change['branch']} of {repository}.",
            f"The session {fork.json()['id']}, which began with its files.",
            f"Files and snapshots in {place}. Remove them: hutch sessions rm {session}",
            f"The backup {backups / 'hutch-1.db'}. Delete it when it is not needed.",
        ]
        holding = {
            file.relative_to(loaded.paths.data).parts[0] for file in files_with(WORD, tmp_path / "home")
        }
        assert holding <= {"workspaces", "hutch.db", "hutch.db-wal"}  # there, as the name of the branch
