"""Undo, redo and forks with their conversation over HTTP."""

from pathlib import Path
from typing import Any

import pytest

from tests.gateway.api_server import V1, Api, eventually
from tests.sessions.session_server import call, cassette, repository

pytestmark = pytest.mark.anyio

LINES = "".join(f"line {number}\n" for number in range(1, 11))
EDIT = call("edit_file", path="app.py", edits=[{"old": "line 2\n", "new": "agent\n"}])
FINISH = call("finish", title="Line 2", summary="It is changed.")


async def worked(api: Api, place: Path, **more: Any) -> str:
    """A session whose agent has changed a file."""
    session = await api.new_session(
        repository=str(repository(place / "repo", {"app.py": LINES})),
        model=cassette(place / "c.json", [EDIT, FINISH, {"text": "Well.", "times": 9}]),
        prompt="Change line 2.",
        **more,
    )
    await happens(api, session["id"], "delivery.ended" if more else "run.ended")
    await api.until(session["id"], "idle", "parked")
    return str(session["id"])


async def happens(api: Api, session_id: str, type_: str) -> dict[str, Any]:
    async def poll() -> dict[str, Any] | None:
        return next((each for each in await api.events(session_id) if each["type"] == type_), None)

    return dict(await eventually(poll))


async def test_a_conflict_names_the_files_and_the_choices(api: Api, tmp_path: Path) -> None:
    session = await worked(api, tmp_path)
    path = f"{V1}/sessions/{session}"
    mine = LINES.replace("line 2", "mine")
    assert (await api.put(f"{path}/files/app.py", content=mine)).status_code == 200
    refused = await api.post(f"{path}/inputs", json={"type": "undo"})
    assert (refused.status_code, refused.json()["code"]) == (409, "conflict")
    assert refused.json()["paths"] == ["app.py"]
    assert "changed the same lines" in refused.json()["detail"] and "`merge`" in refused.json()["detail"]
    assert (await api.get(f"{path}/files/app.py")).text == mine
    both = await api.post(f"{path}/inputs", json={"type": "undo", "merge": True, "keep": True})
    assert (both.status_code, "Set only one of" in both.text) == (422, True)
    await api.give(session, type="undo", merge=True)
    undone = await happens(api, session, "session.rewound")
    assert undone["marked"] == ["app.py"]
    assert (
        "<<<<<<< now\nmine\n=======\nline 2\n>>>>>>> before" in (await api.get(f"{path}/files/app.py")).text
    )


async def test_a_step_is_undone_and_redone(api: Api, tmp_path: Path) -> None:
    session = await worked(api, tmp_path)
    path = f"{V1}/sessions/{session}"
    entries = (await api.get(f"{path}/events")).json()["items"]
    step = next(each["seq"] for each in entries if each["event"]["type"] == "file.changed")
    await api.give(session, type="undo", step=step)
    assert (await happens(api, session, "changes.undone"))["files"] == ["app.py"]
    assert (await api.get(f"{path}/files/app.py")).text == LINES
    await api.give(session, type="redo")
    await happens(api, session, "session.redone")
    assert "agent\n" in (await api.get(f"{path}/files/app.py")).text
    refused = await api.post(f"{path}/inputs", json={"type": "redo"})
    assert (refused.status_code, "nothing to redo" in refused.json()["detail"]) == (409, True)
    unknown = await api.post(f"{path}/inputs", json={"type": "undo", "step": 12345})
    assert unknown.status_code == 404
    other = await api.post(f"{path}/inputs", json={"type": "undo", "step": 1})
    assert (other.status_code, "session.opened" in other.json()["detail"]) == (400, True)


async def test_a_fork_takes_the_conversation_along_on_request(api: Api, tmp_path: Path) -> None:
    session = await worked(api, tmp_path)
    for options, count in (({}, 0), ({"conversation": True}, 1), ({"conversation": True, "snapshot": 1}, 0)):
        made = await api.post(f"{V1}/sessions/{session}/fork", json=options)
        assert made.status_code == 201, made.text
        types = [each["type"] for each in await api.events(made.json()["id"])]
        assert types.count("conversation.copied") == count


async def test_an_undone_change_needs_force_to_be_merged(api: Api, tmp_path: Path) -> None:
    session = await worked(api, tmp_path, deliver=True)
    await api.give(session, type="undo")
    await happens(api, session, "session.rewound")
    [change] = (await api.get(f"{V1}/changes?session={session}")).json()["items"]
    refused = await api.post(f"{V1}/changes/{change['id']}/merge")
    assert refused.status_code == 409
    assert "its run was undone in the session" in refused.json()["detail"]
    assert '"force": true' in refused.json()["detail"]
    merged = await api.post(f"{V1}/changes/{change['id']}/merge", json={"force": True})
    assert (merged.status_code, merged.json()["overridden"]) == (200, ["its run was undone in the session"])
