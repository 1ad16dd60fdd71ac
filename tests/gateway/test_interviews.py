"""Interviews over a real server: planned, joined, begun, paused, continued, ended and recorded."""

import io
import json
import zipfile
from pathlib import Path

import pytest

from hutch.store.interview_record_bundle import verify_bundle
from tests.gateway.api_server import V1, eventually
from tests.gateway.interview_rooms import a_plan, a_room

pytestmark = pytest.mark.anyio


async def test_an_interview_from_its_plan_to_its_seal(tmp_path: Path) -> None:
    async with a_room(tmp_path) as room:
        api, candidate = room.api, room.candidate
        planned = await room.get(api)
        assert (planned["phase"], planned["question"], planned["question_count"]) == ("planned", None, 2)
        lobby = await room.post(candidate, "lobby")
        assert lobby["checks"][0]["name"] == "python"
        assert lobby["interview"]["plan"] is None
        begun = await room.post(api, "begin")
        first = begun["question"]["workspace"]
        assert begun["question"]["id"] == "double"
        await api.until(first, "idle", "parked")
        seen = await room.get(candidate)
        assert seen["question"]["statement"].startswith("# Double")
        written = await candidate.put(
            f"{V1}/sessions/{first}/files/double.py", content=b"def double(n):\n    return 2 * n\n"
        )
        assert written.status_code in (200, 201), written.text
        second = await room.post(candidate, "next", after=1)
        assert second["question"]["id"] == "triple"
        assert second["question"]["workspace"] != first
        assert (await candidate.get(f"{V1}/sessions/{first}")).status_code == 404
        again = await room.post(candidate, "next", after=1)
        assert again["question"] == second["question"]
        ended = await room.post(candidate, "next", after=2)
        assert ended["phase"] == "ended"
        sealed = await room.until_event("interview.sealed")
        assert {each["session"] for each in sealed["logs"]} == {first, second["question"]["workspace"]}

        async def tested() -> bool:
            return len(await room.events(api, "hidden_tests.run")) == 2

        await eventually(tested)
        results = await room.events(api, "hidden_tests.run")
        assert [(each["question"], each["passed"], each["total"]) for each in results] == [
            ("double", 2, 2),
            ("triple", 0, 2),
        ]
        assert all(each.get("withheld") for each in await room.events(candidate, "hidden_tests.run"))
        closed = await room.post(api, "close")
        assert closed["phase"] == "closed"
        assert (await room.events(candidate))[-1]["type"] == "session.ended"


async def test_a_plan_with_an_unknown_question_is_refused(tmp_path: Path) -> None:
    async with a_room(tmp_path) as room:
        plan = a_plan(questions=[{"id": "nothing"}])
        refused = await room.api.post(f"{V1}/interviews", json=plan)
        assert refused.status_code == 404
        assert "There is no question" in refused.json()["detail"]


async def test_the_record_of_an_interview_is_verified_and_changes_are_noticed(tmp_path: Path) -> None:
    async with a_room(tmp_path) as room:
        await room.begin()
        await room.post(room.api, "notes", 201, text="Asks good questions.")
        await room.post(room.api, "end", reason="enough")
        await room.until_event("interview.sealed")
        files = {}
        for name, client in (("owner", room.api), ("candidate", room.candidate)):
            answered = await client.get(f"{room.path}/record")
            assert answered.status_code == 200, answered.text
            files[name] = tmp_path / f"{name}.zip"
            files[name].write_bytes(answered.content)
    report = verify_bundle(files["owner"])
    assert (report.ok, report.sealed, len(report.records)) == (True, True, 3), report
    mine = verify_bundle(files["candidate"])
    assert (mine.ok, mine.sealed, len(mine.records)) == (True, False, 2), mine
    assert "its reader may not see it" in mine.warnings[0]
    assert b"Asks good questions" in _unpacked(files["owner"])
    assert b"Asks good questions" not in _unpacked(files["candidate"])
    shorter = tmp_path / "shorter.zip"
    _without_a_workspace(files["owner"], shorter)
    refused = verify_bundle(shorter)
    assert not refused.ok and "is missing; the room's record names it" in str(refused.problem)


def _unpacked(bundle: Path) -> bytes:
    """All that is in the records of a bundle."""
    found = b""
    with zipfile.ZipFile(bundle) as outer:
        for name in outer.namelist():
            if name.endswith(".zip"):
                with zipfile.ZipFile(io.BytesIO(outer.read(name))) as inner:
                    found += b"".join(inner.read(each) for each in inner.namelist())
    return found


def _without_a_workspace(bundle: Path, target: Path) -> None:
    with zipfile.ZipFile(bundle) as source, zipfile.ZipFile(target, "w") as made:
        manifest = json.loads(source.read("interview.json"))
        left_out = manifest["records"].pop()["file"]
        for name in source.namelist():
            if name != left_out:
                made.writestr(name, json.dumps(manifest) if name == "interview.json" else source.read(name))
