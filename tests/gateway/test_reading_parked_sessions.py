"""Reading a parked or an ended session leaves its log, its state and its snapshots as they were."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, select

from hutch.domain.errors import NotFound
from hutch.domain.ids import SessionId
from hutch.store import schema
from tests.gateway.api_server import V1, Api, serving
from tests.sessions.session_server import call, repository

pytestmark = pytest.mark.anyio

ROUTES = json.loads((Path(__file__).parents[2] / "docs" / "openapi.json").read_text())["paths"]
PROJECTED = ("projections", "stale_projections", "usage", "usage_sessions", "usage_runs")  # they follow logs
ANALYTICS = (
    *("analytics_sessions", "analytics_runs", "analytics_session_counts", "analytics_counts"),
    *("analytics_session_latencies", "analytics_latencies"),
)
UNSTEADY = ("logs", "statements", "tokens", *PROJECTED, *ANALYTICS)
QUERIES = {
    "grep": {"pattern": "yes"},
    "code-search": {"query": "yes"},
    "glob": {"pattern": "**"},
    "search": {"q": "yes"},
    "history": {"name": "x"},
    "comparison": {"rerun": "none"},
}

ENDLESS = (f"{V1}/logs/stream",)

READS = (
    *(
        "files",
        "files/kept.txt",
        "grep?pattern=yes",
        "glob?pattern=**",
        "code-search?query=yes",
        "diff",
        "snapshots",
    ),
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
    assert types == ["input.processed", "session.ended"]
    answers = await read_all(observer, session)
    await close(api, session)
    assert (await read_all(observer, session))["snapshots"] == answers["snapshots"]
    assert await seen(api, session) == ended


async def stored(api: Api) -> dict[str, list[Any]]:
    """The content of the database, without signatures, projections, and the last use of tokens."""

    def read(connection: Connection) -> dict[str, list[Any]]:
        tables = [each for each in schema.metadata.sorted_tables if each.name not in UNSTEADY]
        return {each.name: [tuple(row) for row in connection.execute(select(each))] for each in tables}

    return await api.server.rows.fetch(read)


async def test_no_get_of_an_observer_changes_anything(api: Api) -> None:
    observer, session = await shared(api, "everything")
    await api.give(session, type="prompt", text="Hello.")
    run = next(each for each in await api.events(session) if each["type"] == "run.queued")["run_id"]
    await api.until(session, "idle")
    await close(api, session)
    names = {"session_id": session, "run_id": run, "path": "kept.txt", "name": "default"}
    entries = (await api.get(f"{V1}/sessions/{session}/events")).json()["items"]
    seq = next(each["seq"] for each in entries if each["event"]["type"] == "file.changed")
    names |= {"seq": str(seq), "test_run": "none"}
    names |= {"command_id": "none", "change_id": "none", "user_id": "none", "terminal_id": "none"}
    names |= {"task": "none", "interview_id": session, "webhook_id": "none"}
    before = await stored(api)
    refused = {}
    for route in (route for route, methods in ROUTES.items() if "get" in methods):
        params = (
            {} if "/events/" in route or "{test_run}" in route else QUERIES.get(route.rpartition("/")[2], {})
        )
        if route.startswith("/api/code/"):  # it waits for a delivery, and this run has none
            continue
        async with observer.stream("GET", route.format(**names), params=params) as answered:
            if route not in ENDLESS:
                await answered.aread()
        assert answered.status_code < 500, (route, answered)
        if "{session_id}" in route and answered.status_code != 200:
            refused[route.rpartition("{session_id}/")[2]] = answered.status_code
        assert await stored(api) == before, route
    await close(api, session)
    assert await stored(api) == before
    missing = {"commands/{command_id}": 404, "terminals/{terminal_id}/cast": 404, "comparison": 404}
    missing |= {f"tests/{{test_run}}{part}": 404 for part in ("", "/cases", "/comparison")}
    not_debugging = {"debugger/stack": 409, "debugger/variables": 409}
    assert refused == {**missing, **not_debugging, "shares": 403, "environment/log": 404}


async def test_reading_a_session_that_was_never_prepared_does_not_prepare_it(tmp_path: Path) -> None:
    busy = (call("bash", command="sleep 600", timeout_s=600),)
    async with serving(tmp_path, replies=busy, sessions={"runs": 1}) as api:
        await api.until((await api.new_session(prompt="Sleep."))["id"], "running")
        session = (await api.new_session(repository=str(repository(tmp_path / "project"))))["id"]
        await api.give(session, type="pause")
        await api.until(session, "paused")
        before = await seen(api, session)
        answered = await api.get(f"{V1}/sessions/{session}/files")
        assert (answered.status_code, "has no files yet" in answered.text) == (409, True), answered.text
        assert await seen(api, session) == before
