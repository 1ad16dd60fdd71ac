"""The session of a `hutch shell` on a server of the same installation: it can be read, and nothing else."""

import pytest

from hutch.domain.events import SessionOpened
from hutch.domain.ids import SessionId, new_run_id, new_session_id
from hutch.domain.session import Delivery, QueuedRun, Session
from hutch.sessions.abandoned_in_place_sessions import end_abandoned
from hutch.store.runs_reserved_for_process import PREFIX, reservation_name
from hutch.store.session_creation import OpenedSession, open_session
from tests.gateway.api_server import V1, Api

pytestmark = pytest.mark.anyio


async def shell_session(api: Api, worker: str) -> SessionId:
    """A session as `hutch shell` opens it, in the process that `worker` names."""
    owner = (await api.get(f"{V1}/me")).json()["user"]["id"]
    session = Session(
        id=new_session_id(),
        owner=owner,
        purpose="shell in /srv/project",
        repository="/srv/project",
        delivery=Delivery(in_place=True),
        workspace_id="in-place",
        state="idle",
        created_ms=1,
        updated_ms=1,
    )
    run = QueuedRun(
        id=new_run_id(),
        session_id=session.id,
        owner=owner,
        kind="prepare",
        state="running",
        worker=worker,
        queued_ms=1,
    )
    opened = SessionOpened(purpose=session.purpose, owner=owner)
    await open_session(api.server.log, OpenedSession(session, run), [opened])
    return session.id


async def test_a_server_shows_the_log_of_a_shell_and_refuses_the_rest(api: Api) -> None:
    session_id = await shell_session(api, reservation_name())
    path = f"{V1}/sessions/{session_id}"
    assert (await api.get(path)).json()["state"] == "idle"
    assert [each["event"]["type"] for each in (await api.get(f"{path}/events")).json()["items"]] == [
        "session.opened"
    ]
    for answered in (
        await api.post(f"{path}/inputs", json={"type": "prompt", "text": "Fix it"}),
        await api.post(f"{path}/inputs", json={"type": "end"}),
        await api.post(f"{path}/commands", json={"command": "true"}),
        await api.post(f"{path}/terminals", json={}),
        await api.get(f"{path}/files"),
        await api.delete(path),
    ):
        assert answered.status_code == 409, answered.text
        assert "works in /srv/project itself" in answered.json()["detail"]
    assert (await api.get(path)).json()["state"] == "idle"


async def test_a_shell_whose_process_has_ended_is_ended_in_its_log(api: Api) -> None:
    host = reservation_name().removeprefix(PREFIX).partition(":")[0]
    gone = await shell_session(api, f"{PREFIX}{host}:999999999:0")
    alive = await shell_session(api, reservation_name())
    for _ in range(2):
        await end_abandoned(api.server.log, api.server.log)
    states = [(await api.get(f"{V1}/sessions/{each}")).json()["state"] for each in (gone, alive)]
    assert states == ["ended", "idle"]
    last = (await api.get(f"{V1}/sessions/{gone}/events")).json()["items"][-1]["event"]
    assert (last["type"], last["outcome"]) == ("session.ended", "abandoned")
    files = await api.get(f"{V1}/sessions/{gone}/files")
    assert (files.status_code, files.json()["code"]) == (404, "not_found")
