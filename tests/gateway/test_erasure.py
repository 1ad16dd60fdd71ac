"""An erasure reaches every copy of a text: in tables, stored responses and files."""

import asyncio
import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, get_args

import pytest
from pydantic import BaseModel
from sqlalchemy import select

from hutch import agent
from hutch.agent.conversation import Conversation
from hutch.cli.commands.erase_and_prune import other_places
from hutch.domain.ids import SessionId
from hutch.domain.inputs import AnyInput
from hutch.flows.unerased_data import traces_of, unerased
from hutch.gateway.rest.session_commands import CommandIn
from hutch.gateway.rest.sessions import NewSessionIn
from hutch.gateway.rest.snapshots_and_diff import NewSnapshotIn
from hutch.store.schema import answered_requests
from hutch.store.vault import Vault
from tests.deadline import DEADLINE_S
from tests.forge.repositories import git, make_repository
from tests.gateway.api_server import V1, Api, cassette, eventually, serving
from tests.sessions.session_server import call, repository
from tests.sessions.session_server import cassette as session_cassette

pytestmark = pytest.mark.anyio

FIX = call("write_file", path="slug.py", content="def slug(text):\n    return text.lower()\n")
FINISH = call("finish", title="Slugs are lower case", summary="As they should be.")
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
        what = {name: f"{name} {WORD}" for name in ("purpose", "role", "company", "expectations", "prompt")}
        asked = {"json": what, "headers": {"Idempotency-Key": f"session-{WORD}"}}
        made = await api.post(f"{V1}/sessions", **asked)
        assert made.status_code == 201, made.text
        session = made.json()["id"]
        await api.until(session, "idle", "parked")
        said = {
            "json": {"type": "message", "text": f"Say {WORD}"},
            "headers": {"Idempotency-Key": f"input-{WORD}"},
        }
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
        kept = await api.server.rows.fetch(lambda db: db.execute(select(answered_requests)).mappings().all())
        assert [(row["request_hash"], row["body"]) for row in kept] == [("", b"")] * 2
        traces = await traces_of(api.server.log, session)
        left = await unerased(api.server.rows, other_places(api.server.loaded.paths), session, traces)
        assert any(line.startswith("Hashes of the Idempotency-Keys of the last day") for line in left)
        again = [await api.post(f"{V1}/sessions", **asked)]
        again += [await api.post(f"{V1}/sessions/{session}/inputs", **said)]
        assert [(each.status_code, WORD in each.text) for each in again] == [(409, False)] * 2


async def test_an_erasure_names_what_it_does_not_cover(tmp_path: Path) -> None:
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

        async def poll() -> list[dict[str, Any]]:
            found: list[dict[str, Any]] = (await api.get(f"{V1}/changes")).json()["items"]
            return found

        (change,) = await eventually(poll)
        await api.until(session, "idle", "parked")
        fork = await api.post(f"{V1}/sessions/{session}/fork", json={})
        assert fork.status_code == 201, fork.text
        await api.until(fork.json()["id"], "idle", "parked")  # else its files come and go beneath the search
        traces = await traces_of(log, session)
        backups = loaded.paths.data / "backups"
        backups.mkdir()
        (backups / "hutch-1.db").touch()
        await log.erase(session, None, reason="a secret")
        place = loaded.paths.data / "workspaces" / f"session-{session.removeprefix('ses_')}"
        assert await unerased(api.server.rows, other_places(loaded.paths), session, traces) == [
            "The settings of the session, which is open: repository, revision, persona, model, network. End "
            f"it, and erase again: hutch sessions end {session}",
            f"The branch {change['branch']} of {repository}. Its name and the repository's address also stay "
            "in the list of changes, which leads to it.",
            f"The session {fork.json()['id']}, which was forked from it, with its files, purpose, role, "
            "company, expectations, settings and copied conversation. Erase it too: "
            f"hutch erase --all {fork.json()['id']}",
            f"Files and snapshots in {place}. Remove them: hutch sessions rm {session}",
            f"Copies of repositories, with their addresses, in {loaded.paths.data / 'bases'} and "
            f"{loaded.paths.data / 'repositories'}. Sessions share them; unused copies are removed "
            "after workspace.bases_days.",
            f"The backup {backups / 'hutch-1.db'}. Delete it when it is not needed.",
        ]
        holding = {
            file.relative_to(loaded.paths.data).parts[0] for file in files_with(WORD, tmp_path / "home")
        }
        assert holding <= {"workspaces", "hutch.db", "hutch.db-wal"}  # there, as the name of the branch


async def test_permanent_approvals_are_listed(tmp_path: Path) -> None:
    command = {"command": f"git push {WORD}"}
    replies = (
        {"text": "I do it.", "calls": [{"tool": "bash", "args": command}]},
        {"text": "Done.", "times": 9},
    )
    async with serving(tmp_path, replies=replies) as api:
        session = (await api.new_session(persona="pair", prompt="Push"))["id"]
        await api.until(session, "waiting")
        [asked] = [each for each in await api.events(session) if each["type"] == "approval.requested"]
        approve = {"type": "approve", "call_id": asked["call_id"], "scope": "always"}
        assert (await api.post(f"{V1}/sessions/{session}/inputs", json=approve)).status_code == 202
        await api.until(session, "idle", "parked")
        traces = await traces_of(api.server.log, session)
        await api.server.log.erase(session, None, reason="a secret")
        left = await unerased(api.server.rows, other_places(api.server.loaded.paths), session, traces)
        name = (await api.get(f"{V1}/me")).json()["user"]["name"]
        assert (
            f"Permanent approvals of {name}, some from this session: they may quote a command. List and "
            f"withdraw them: hutch approvals list --user {name}; hutch approvals rm --user {name}"
        ) in left


def text_fields(schema: dict[str, Any], model: dict[str, Any]) -> Iterator[tuple[str, ...]]:
    """The paths of all texts and lists of texts in a request, as its schema has them."""
    for name, field in model["properties"].items():
        field = field | schema.get("$defs", {}).get(field.get("$ref", "").rpartition("/")[2], {})
        kind = field.get("items", field)
        if "properties" in field:
            yield from ((name, *path) for path in text_fields(schema, field))
        elif kind.get("type") == "string" and "const" not in kind and "enum" not in kind:
            yield (name,)


def request_with_word(model: type[BaseModel], given: dict[str, Any]) -> dict[str, Any]:
    """A request with the word in every text that it may have; `given` are those that must be something."""
    schema = model.model_json_schema()
    body: dict[str, Any] = {}
    for path in text_fields(schema, schema):
        place, owner = body, schema
        for name in path[:-1]:
            owner = schema["$defs"][owner["properties"][name]["$ref"].rpartition("/")[2]]
            place = place.setdefault(name, {})
        text = given.get(path[-1], f"{WORD} {path[-1]}")
        place[path[-1]] = [text] if owner["properties"][path[-1]].get("type") == "array" else text
    return body


def rows_with(word: str, database: Path) -> list[str]:
    with closing(sqlite3.connect(database)) as connection:
        return [line[:300] for line in connection.iterdump() if word in line]


async def test_every_text_that_a_session_can_be_given_is_erased(tmp_path: Path) -> None:
    """The fields are those of the request models, so that a new one is looked for, too."""
    repository = tmp_path / f"{WORD}-repository"
    make_repository(repository, {"a.txt": "a\n"})
    git(repository, "branch", WORD)
    replies = ({"text": f"I read {WORD}.", "times": 100},)
    async with serving(tmp_path, replies=replies, model=cassette(tmp_path / f"{WORD}.json", *replies)) as api:
        home, log = tmp_path / "home", api.server.log
        own = api.server.loaded.paths.personas
        own.mkdir(parents=True, exist_ok=True)
        (own / f"{WORD}.md").write_text(
            (Path(agent.__file__).with_name("personas") / "engineer.md").read_text()
        )
        given = {
            "repository": str(repository),
            "revision": WORD,
            "branch": WORD,
            "persona": WORD,
            "model": f"scripted:{tmp_path / WORD}.json",
            "network": f"{WORD}.example",
            "issue": f"https://example.com/{WORD}",
            "author": f"{WORD} <{WORD}@example.com>",
        }
        paths = api.server.loaded.paths
        vault = Vault(paths.vault, paths.vault_keys)
        vault.set(f"jail_{WORD}", "a value for the jail")
        asked = request_with_word(NewSessionIn, given | {"secrets": WORD})
        asked["variables"] = {WORD.upper(): WORD}
        made = await api.post(f"{V1}/sessions", json=asked)
        assert made.status_code == 201, made.text
        session = SessionId(made.json()["id"])
        await api.until(session, "idle", "parked")
        for kind in get_args(get_args(AnyInput)[0]):
            if kind.__name__ not in ("End", "Pause", "Undo", "Withdraw"):
                body = request_with_word(kind, {}) | {"type": kind.model_fields["type"].default}
                answered = await api.post(f"{V1}/sessions/{session}/inputs", json=body)
                assert answered.status_code in (202, 409), answered.text
                await api.until(session, "idle", "parked")
        for path, model in (("commands", CommandIn), ("snapshots", NewSnapshotIn)):
            body = request_with_word(model, {"shell": WORD})
            answered = await api.post(f"{V1}/sessions/{session}/{path}", json=body)
            assert answered.status_code in (200, 201), answered.text
        fork = (await api.post(f"{V1}/sessions/{session}/fork", json={})).json()["id"]
        await api.until(fork, "idle", "parked")
        for id in (session, fork):
            await api.give(id, type="end", reason=f"{WORD} reason")
            await api.until(id, "ended")
        result = (await api.get(f"{V1}/sessions/{session}")).json()
        assert WORD in result["delivery"]["labels"][0] and WORD in result["network"][0]
        assert result["variables"] == {WORD.upper(): WORD} and result["secrets"] == [WORD]
        vault.delete(f"jail_{WORD}")

        traces = await traces_of(log, session)
        await log.erase(session, None, reason="a secret")
        left = await unerased(api.server.rows, other_places(api.server.loaded.paths), session, traces)
        assert any(f"hutch erase --all {fork}" in line for line in left)
        assert rows_with(WORD, api.server.loaded.paths.database) != []  # of the fork
        await log.erase(SessionId(fork), None, reason="a secret")

        assert WORD not in await answers(api, session)
        assert rows_with(WORD, api.server.loaded.paths.database) == []
        holding = {file.relative_to(home).parts[:2] for file in files_with(WORD, home)}
        named = {("data", "workspaces"): "Files and snapshots", ("data", "bases"): "Copies of repositories"}
        for place in holding:  # outside of the database, and named with the way to clear it
            assert any(line.startswith(named[place]) for line in left), place


@pytest.mark.parametrize(
    ("erased", "fixes", "end_session"),
    [  # all pairs
        ("run.ended", True, False),
        ("run.ended", False, True),
        ("delivery.ended", True, True),
        ("delivery.ended", False, False),
        ("all", True, True),
        ("all", False, False),
    ],
)
async def test_a_run_whose_end_was_erased_is_followed_to_its_end(
    tmp_path: Path, erased: str, fixes: bool, end_session: bool
) -> None:
    replies = [{"text": "No."}] if not fixes else [FIX, FINISH]
    asked = {
        "repoUrl": str(repository(tmp_path / "repository")),
        "prompt": "Mend it.",
        "model": session_cassette(tmp_path / "cassette.json", replies),
    }
    as_json = {"Accept": "application/json"}
    async with serving(tmp_path) as api, asyncio.timeout(DEADLINE_S):
        made = await api.post("/api/code", json=asked, headers=as_json)
        before, location = made.json(), made.headers["location"]
        session = before["session"]
        if end_session:
            await api.give(session, type="end")
            await api.until(session, "ended")
        listed = (await api.get(f"{V1}/sessions/{session}/events")).json()["items"]
        seqs = {each["seq"] for each in listed if each["event"]["type"] == erased}
        assert seqs or erased == "all"
        await api.server.log.erase(session, seqs or None, reason="a secret")
        after = (await api.get(location, headers=as_json)).json()
        streamed = (await api.get(location)).text
    assert (after["outcome"], after["run"]) == (before["outcome"], before["run"])
    if erased == "delivery.ended" and fixes:  # which has the address in it
        assert after["pullRequest"]["url"] == "(erased)"
    else:
        assert (after["pullRequest"] or {}).get("url") == (before["pullRequest"] or {}).get("url")
    frames = [json.loads(line[6:]) for line in streamed.splitlines() if line.startswith("data: ")]
    assert (frames[-1]["type"], frames[-1]["outcome"]) == ("done", before["outcome"])
