"""GraphQL returns the same data as REST, with the same permissions."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from graphql import get_introspection_query
from sqlalchemy import event

from hutch.domain.ids import new_change_id, new_run_id
from hutch.domain.proposed_change import Change
from hutch.domain.session import QueuedRun
from hutch.flows.user_accounts import LOCAL, Accounts
from hutch.store.proposed_changes import changes
from hutch.store.run_queue import add_run
from tests.gateway.api_server import V1, Api, eventually
from tests.gateway.graphql_helpers import URL, ask, data, refusal

pytestmark = pytest.mark.anyio
GONE = "ses_01jd2m4c9k7w6t0q8n5x3vbaeh"


async def test_the_caller_is_returned(api: Api) -> None:
    assert await data(api, "{ me { name role scopes } }") == {
        "me": {"name": "owner", "role": "owner", "scopes": ["admin", "read", "write"]}
    }


async def test_a_session_has_the_same_fields_as_in_rest(api: Api) -> None:
    session_id = await api.ready_session(purpose="as by REST", network=["docs.example.com"])
    by_rest = (await api.get(f"{V1}/sessions/{session_id}")).json()
    query = """query ($id: ID!) { session(id: $id) { id ownerId owner { name } purpose state network
               createdMs updatedMs queuePosition head { seq hash atMs } limits { turns costUsd } } }"""
    result = (await data(api, query, id=session_id))["session"]
    assert result == {
        "id": session_id,
        "ownerId": by_rest["owner"],
        "owner": {"name": "owner"},
        "purpose": "as by REST",
        "state": by_rest["state"],
        "network": ["docs.example.com"],
        "createdMs": by_rest["created_ms"],
        "updatedMs": by_rest["updated_ms"],
        "queuePosition": None,
        "head": {
            "seq": by_rest["head"]["seq"],
            "hash": by_rest["head"]["hash"],
            "atMs": by_rest["head"]["at_ms"],
        },
        "limits": {"turns": None, "costUsd": None},
    }


async def test_events_files_snapshots_and_differences_hang_on_a_session(api: Api) -> None:
    session_id = await api.ready_session(purpose="with files")
    put = await api.put(f"{V1}/sessions/{session_id}/files/notes/a.txt", content=b"hello\n")
    assert put.status_code in (200, 201), put.text
    query = """query ($id: ID!) { session(id: $id) {
        events(first: 1) { seq type event }
        files(recursive: true) { items { path kind size utf8 } next }
        file(path: "notes/a.txt") { text size cut }
        snapshots(first: 5) { id reason }
        diff { patch cut files { path kind added } }
        runs { id } changes { id } shares { userId role } } }"""
    result = (await data(api, query, id=session_id))["session"]
    (first,) = result["events"]
    assert (first["seq"], first["type"], first["event"]["purpose"]) == (1, "session.opened", "with files")
    assert {"path": "notes/a.txt", "kind": "file", "size": 6, "utf8": True} in result["files"]["items"]
    assert result["file"] == {"text": "hello\n", "size": 6, "cut": False}
    assert result["diff"]["files"] == [{"path": "notes/a.txt", "kind": "added", "added": 1}]
    assert "+hello" in result["diff"]["patch"]
    assert result["snapshots"] and result["runs"] == result["changes"] == result["shares"] == []


async def test_sessions_come_in_pages_by_state_and_by_words(api: Api) -> None:
    made = [await api.ready_session(purpose=f"zebra {number}") for number in range(3)]
    query = """query ($after: String!) {
        sessions(text: "zebra", states: ["idle", "parked"], first: 2, after: $after)
        { items { id } next } }"""
    page = (await data(api, query, after=""))["sessions"]
    assert [each["id"] for each in page["items"]] == made[:0:-1]
    page = (await data(api, query, after=page["next"]))["sessions"]
    assert (page["items"], page["next"]) == ([{"id": made[0]}], None)
    assert (await refusal(api, '{ sessions(states: ["odd"]) { next } }'))["code"] == "bad_request"
    assert (await refusal(api, "{ sessions(first: 201) { next } }"))["code"] == "bad_request"


async def test_runs_personas_models_and_changes_can_be_queried(api: Api) -> None:
    session_id = await api.ready_session(purpose="to run")
    await api.give(session_id, type="prompt", text="Say hello")
    await eventually(lambda: _ended(api, session_id))
    query = """query ($id: ID!) { runs(sessionId: $id) { id prompt state outcome sessionId }
               personas { name tools } models { default providers { name usable } } changes { id } }"""
    result = await data(api, query, id=session_id)
    (run,) = result["runs"]
    assert (run["prompt"], run["state"], run["sessionId"]) == ("Say hello", "ended", session_id)
    assert "engineer" in [each["name"] for each in result["personas"]]
    assert result["models"]["default"].startswith("scripted:")
    again = await data(api, "query ($id: ID!) { run(id: $id) { id prompt } }", id=run["id"])
    assert again == {"run": {"id": run["id"], "prompt": "Say hello"}}


async def _ended(api: Api, session_id: str) -> bool:
    runs = (await api.get(f"{V1}/sessions/{session_id}/runs")).json()["items"]
    return bool(runs) and runs[0]["state"] == "ended"


async def test_others_do_not_see_what_is_not_theirs(api: Api) -> None:
    session_id = await api.ready_session(purpose="private")
    stranger = await api.as_user("stranger")
    query = "query ($id: ID!) { session(id: $id) { purpose } }"
    assert await refusal(stranger, query, id=session_id) == {"code": "not_found"}
    assert await refusal(stranger, query, id=GONE) == {"code": "not_found"}
    assert await refusal(stranger, "query ($id: ID!) { runs(sessionId: $id) { id } }", id=session_id) == {
        "code": "not_found"
    }
    assert (await data(stranger, "{ sessions { items { id } } }"))["sessions"]["items"] == []
    assert (await data(stranger, "{ changes { id } models { default } }"))["models"]["default"] == "scripted"


async def test_viewers_do_not_see_shares(api: Api) -> None:
    session_id = await api.ready_session(purpose="shared")
    watcher = await api.as_user("watcher", "observer")
    user = await Accounts(api.server.rows).users.find("watcher")
    shared = await api.put(f"{V1}/sessions/{session_id}/shares/watcher", json={"role": "observer"})
    assert shared.status_code == 200, shared.text
    query = "query ($id: ID!) { session(id: $id) { purpose shares { userId role } } }"
    result = await ask(watcher, query, id=session_id)
    assert result["errors"][0]["extensions"] == {"code": "denied"}
    mine = (await data(api, query, id=session_id))["session"]
    assert mine["shares"] == [{"userId": user.id, "role": "observer"}]


async def test_unauthenticated_callers_get_nothing_not_even_the_schema(api: Api) -> None:
    nobody = await api.as_nobody()
    for query in ("{ me { name } }", "{ __schema { types { name } } }", "nonsense"):
        answered = await nobody.post(URL, json={"query": query})
        assert (answered.status_code, answered.json()["code"]) == (401, "unauthenticated")
    assert (await api.get(URL)).status_code == 405


async def test_authenticated_callers_can_read_the_schema(api: Api) -> None:
    result = await data(api, get_introspection_query())
    assert result["__schema"]["queryType"]["name"] == "Query"


async def test_a_token_without_rights_is_refused(api: Api) -> None:
    accounts = Accounts(api.server.rows)
    user = await accounts.add_user("short-lived", "member", LOCAL)
    client = await api.as_user("short-lived")
    assert (await data(client, "{ me { name } }"))["me"]["name"] == "short-lived"
    await accounts.set_disabled(user.id, True, LOCAL)
    api.app.state.authenticator.forget(user_id=user.id)
    assert (await client.post(URL, json={"query": "{ me { name } }"})).status_code == 401


@pytest.mark.parametrize(
    "body",
    [
        *(b"", b"{", b"[]", b'"x"', b"null", b"{}", b'{"query": 1}', b"\xff\xfe", b'{"query": "\\ud800"}'),
        b'{"query": "{ me { id } }", "variables": 3}',
        b'[{"query": "{ me { id } }"}, {"query": "{ me { id } }"}]',
    ],
)
async def test_an_invalid_request_is_refused_in_the_same_shape(api: Api, body: bytes) -> None:
    answered = await api.post(URL, content=body, headers={"Content-Type": "application/json"})
    assert answered.status_code in (200, 400)
    assert answered.json()["errors"][0]["extensions"]["code"] == "bad_request"


@pytest.mark.parametrize(
    "query",
    [
        "{",
        "{ nothing }",
        "{ me }",
        "{ me { id ",
        "mutation { me { id } }",
        "subscription { sessions { id } }",
        "{ me { id } } query Two { me { id } }",
        "query ($x: Int!) { sessions(first: $x) { next } }",
        '{ session(id: 7.5) { id } run(id: "x") { id } }',
        "{ sessions(first: 99999999999) { next } }",
        "fragment F on Query { me { id } } { ...G }",
        "{ me { ...on Nothing { id } } }",
        "{ me @unknown { id } }",
    ],
)
async def test_an_invalid_query_is_reported(api: Api, query: str) -> None:
    result = await ask(api, query)
    assert result["errors"]
    assert {error["extensions"]["code"] for error in result["errors"]} <= {"bad_request", "not_found"}


@contextmanager
def statements(api: Api) -> Iterator[list[str]]:
    """Every statement that reads, as it is executed."""
    found: list[str] = []

    def note(connection: Any, cursor: Any, statement: str, *more: Any) -> None:
        if statement.startswith("SELECT"):
            found.append(statement)

    engine = api.server.log._database.engine  # type: ignore[attr-defined]
    event.listen(engine, "before_cursor_execute", note)
    try:
        yield found
    finally:
        event.remove(engine, "before_cursor_execute", note)


async def test_a_dozen_sessions_with_all_that_hangs_on_them_take_as_many_queries_as_one(api: Api) -> None:
    made = [(await api.new_session(purpose="giraffe"))["id"] for _ in range(12)]
    for session_id in made:
        await api.until(session_id, "idle", "parked")

    def add(connection: Any) -> None:
        for session_id in made:
            for number in range(3):
                run = QueuedRun(
                    id=new_run_id(),
                    session_id=session_id,
                    owner="x",
                    prompt=str(number),
                    state="ended",
                    queued_ms=1,
                )
                add_run(connection, run)
                change = Change(
                    id=new_change_id(),
                    session_id=session_id,
                    run_id=run.id,
                    created_ms=1,
                    **dict.fromkeys(
                        ("repository", "branch", "base", "base_commit", "commit", "title", "body", "tests"),
                        "x",
                    ),
                )
                connection.execute(changes.insert().values({name: getattr(change, name) for name in columns}))

    columns = [column.name for column in changes.columns]
    await api.server.rows.change(add)
    query = """query ($first: Int!) { sessions(text: "giraffe", first: $first) { items {
        id owner { name } head { seq } runs(first: 2) { id prompt } changes(first: 2) { id }
        shares { role } } } }"""
    counts = {1: 1000, 12: 1000}
    for _ in range(30):  # at times the worker reads something too, or the caller is looked up again
        for first in counts:
            with statements(api) as executed:
                result = (await data(api, query, first=first))["sessions"]["items"]
            counts[first] = min(counts[first], len(executed))
            assert [len(each["runs"]) for each in result] == [2] * first
            assert [len(each["changes"]) for each in result] == [2] * first
        if counts[1] == counts[12] <= 9:
            break
    assert [each["prompt"] for each in result[0]["runs"]] == ["2", "1"]
    assert counts[1] == counts[12] <= 9


async def test_several_ask_at_once(api: Api) -> None:
    result = await asyncio.gather(
        *(data(api, "{ me { name } sessions(first: 5) { items { id } } }") for _ in range(30))
    )
    assert all(each == result[0] for each in result)
