"""Reading a parked or an ended session leaves its log, its state and its snapshots as they were."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from hutch.domain.errors import NotFound
from hutch.domain.ids import SessionId
from tests.gateway.api import V1, Api, serving

pytestmark = pytest.mark.anyio

READS = (
    *("files", "files/kept.txt", "grep?pattern=yes", "glob?pattern=**", "diff", "snapshots"),
    *("commands", "terminals", "previews"),
)


@pytest.fixture(scope="module")
async def api(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Api]:
    async with serving(tmp_path_factory.mktemp("server")) as opened:
        yield opened


async def shared(api: Api, name: str) -> tuple[Api, str]:
    """A session with a file, and an observer of it."""
    observer = await api.as_user(name, "observer")
    session = await api.ready_session()
    users = (await api.get(f"{V1}/users")).json()["items"]
    user = next(each["id"] for each in users if each["name"] == name)
    await api.put(f"{V1}/sessions/{session}/shares/{user}", json={"role": "observer"})
    ran = await api.post(f"{V1}/sessions/{session}/commands", json={"command": "echo yes > kept.txt"})
    assert ran.json()["exit_code"] == 0, ran.text
    return observer, session


async def seen(api: Api, session: str) -> tuple[Any, list[dict[str, Any]]]:
    """The session and its log, as users see them."""
    return (await api.get(f"{V1}/sessions/{session}")).json(), await api.events(session)


async def close(api: Api, session: str) -> None:
    await api.server.host.close(SessionId(session), reason="for the test")


async def read_all(observer: Api, session: str) -> dict[str, Any]:
    answers = {}
    for read in READS:
        answered = await observer.get(f"{V1}/sessions/{session}/{read}")
        assert answered.status_code == 200, (read, answered.text)
        answers[read] = answered.json() if read != "files/kept.txt" else answered.text
    return answers


async def test_reading_a_parked_session_does_not_wake_it(api: Api) -> None:
    observer, session = await shared(api, "parked")
    await close(api, session)
    await api.until(session, "parked")
    before = await seen(api, session)
    answers = await read_all(observer, session)
    assert answers["files/kept.txt"] == "yes\n"
    assert await seen(api, session) == before
    with pytest.raises(NotFound):
        await api.server.host.connect(SessionId(session), 8000)
    with pytest.raises(NotFound):
        async with api.server.host.terminal(SessionId(session), "1"):
            pass
    assert await seen(api, session) == before
    await close(api, session)
    assert await seen(api, session) == before
    assert (await read_all(observer, session))["snapshots"] == answers["snapshots"]
    ran = await api.post(f"{V1}/sessions/{session}/commands", json={"command": "cat kept.txt"})
    assert ran.json()["stdout"] == "yes\n"
    found, events = await seen(api, session)
    since = [each["type"] for each in events[len(before[1]) :]]
    assert (found["state"], since[0], since.count("session.woken")) == ("idle", "session.woken", 1)
    await close(api, session)
    found, events = await seen(api, session)
    assert (found["state"], events[-1]["type"]) == ("parked", "session.parked")


async def test_a_run_wakes_a_session_that_was_only_read(api: Api) -> None:
    observer, session = await shared(api, "run")
    await close(api, session)
    before = await seen(api, session)
    await read_all(observer, session)
    await api.give(session, type="prompt", text="Hello.")
    await api.until(session, "queued", "starting", "running", "idle")
    await api.until(session, "idle")
    types = [each["type"] for each in (await api.events(session))[len(before[1]) :]]
    assert types.count("session.woken") == 1
    assert types.index("session.woken") < types.index("run.started")


async def test_ending_a_session_that_was_only_read_does_not_park_it_again(api: Api) -> None:
    observer, session = await shared(api, "ending")
    await close(api, session)
    before = await seen(api, session)
    await read_all(observer, session)
    await api.give(session, type="end")
    await api.until(session, "ended")
    ended = await seen(api, session)
    types = [each["type"] for each in ended[1][len(before[1]) :]]
    assert types == ["input.taken", "session.ended"]
    answers = await read_all(observer, session)
    await close(api, session)
    assert (await read_all(observer, session))["snapshots"] == answers["snapshots"]
    assert await seen(api, session) == ended
