"""Entries for the owner's side or one person are withheld from others on every interface.

Each test writes the same words with each audience and looks for them, as bytes, in all that a
caller gets. A word that is withheld must not appear anywhere, and its number still counts.
"""

import asyncio
import io
import json
import zipfile
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from hutch.domain.events import (
    FileChanged,
    MessageSent,
    QuestionAsked,
    SessionEnded,
    StepReached,
    ToolReturned,
    UnknownEvent,
)
from hutch.domain.ids import SessionId
from hutch.domain.log_entry_audience import OWNER_SIDE
from hutch.domain.user import ShareRole
from hutch.sessions.interface import Delta
from hutch.store.exported_record_verifier import verify_record
from hutch.store.sessions import Sessions
from tests.deadline import DEADLINE_S
from tests.gateway import graphql_helpers
from tests.gateway.api_server import V1, Api, cassette, eventually
from tests.gateway.stream_clients import next_frame, socket, sse
from tests.gateway.test_mcp_endpoint import client
from tests.sessions.session_server import call, repository

pytestmark = pytest.mark.anyio

PUBLIC, OWNERS, PERSON = "seen-by-everyone", "seen-by-the-owners-side", "seen-by-one-person"
LAST = "the-last-entry"
OPENAPI = Path(__file__).resolve().parents[2] / "docs/openapi.json"
SESSION = f"{V1}/sessions/{{session_id}}"
LOGS = ("/events", "/events/search", "/events.jsonl", "/record")  # see EXITS
EVENTS = """subscription($id: ID!, $after: BigInt) { events(sessionId: $id, after: $after) {
  __typename ... on Event { seq type event } ... on Delta { text } } }"""
PAGE = """query($id: ID!, $after: BigInt!) { session(id: $id) {
  purpose head { seq } events(after: $after, first: 200) { seq type event } } }"""

SEARCH = """query($id: ID!, $text: String!) { session(id: $id) {
  searchEvents(text: $text, first: 100) { items { seq type event } next } } }"""


@dataclass
class Scene:
    """A session of Ada's with private entries, and everybody who may ask for them."""

    session_id: SessionId
    first: int  # the number of the entry before the private ones
    last: int  # that of the last entry
    callers: dict[str, Api]
    sees: dict[str, set[str]]


async def share(owner: Api, session_id: str, name: str, role: ShareRole) -> None:
    shared = await owner.put(f"{V1}/sessions/{session_id}/shares/{name}", json={"role": role})
    assert shared.status_code == 200, shared.text


def private_events(person: str) -> list[MessageSent | FileChanged | UnknownEvent]:
    newer = json.dumps({"type": "note.written", "text": OWNERS, "audience": OWNER_SIDE})
    unknown = json.dumps({"type": "note.written", "text": OWNERS, "audience": "usr_0" + "0" * 25})
    return [
        MessageSent(author="user", text=PUBLIC),
        MessageSent(author="user", text=OWNERS, audience=OWNER_SIDE),
        MessageSent(author="user", text=PERSON, audience=person),
        UnknownEvent("note.written", newer.encode()),
        UnknownEvent("note.written", unknown.encode().replace(OWNERS.encode(), b"seen-by-nobody")),
        MessageSent(author="user", text=OWNERS + "x" * 20_000, audience=OWNER_SIDE),  # lies in a blob
        FileChanged(path=f"{OWNERS}.py", kind="created", by="", audience=OWNER_SIDE),
        MessageSent(author="user", text=LAST),
    ]


@pytest.fixture(scope="module")
async def scene(api: Api) -> Scene:
    ada = await api.as_user("ada")
    session_id = SessionId(await ada.ready_session(purpose="with private entries"))
    callers = {
        "nobody": await api.as_nobody(),
        "a stranger": await api.as_user("stranger"),
        "an owner of the installation": api,
        "an owner with a read-only token": await api.as_user("owner", "owner", scopes="read"),
        "the session's owner": ada,
        "the session's owner, read-only": await api.as_user("ada", scopes="read"),
    }
    roles: tuple[ShareRole, ...] = ("member", "candidate", "observer", "assessor")
    for role in roles:
        callers[role] = await api.as_user(f"a-{role}", role)
        await share(ada, session_id, f"a-{role}", role)
    callers["the person"] = await api.as_user("pat", "candidate")
    await share(ada, session_id, "pat", "candidate")
    person = (await callers["the person"].get(f"{V1}/me")).json()["user"]["id"]
    first = (await api.server.log.head(session_id)).seq
    head = await api.server.log.append(session_id, private_events(person))
    sees = {name: {PUBLIC, LAST} for name in callers}
    sees |= {"nobody": set(), "a stranger": set(), "an owner with a read-only token": set()}
    owner_side = ("an owner of the installation", "the session's owner", "the session's owner, read-only")
    sees |= {name: {PUBLIC, LAST, OWNERS} for name in (*owner_side, "assessor")}
    sees |= {"the person": {PUBLIC, LAST, PERSON}}
    return Scene(session_id, first, head.seq, callers, sees)


async def by_rest(api: Api, id: str, after: int) -> str:
    text, at = "", after
    while True:
        answered = await api.get(f"{V1}/sessions/{id}/events", params={"after": at, "limit": 3})
        text += answered.text
        if answered.status_code != 200 or answered.json()["next"] is None:
            return text
        at = answered.json()["next"]


async def by_sse(api: Api, id: str, after: int) -> str:
    path = f"{V1}/sessions/{id}/events/stream"
    async with api.stream("GET", path, headers={"Last-Event-ID": str(after)}) as response:
        if response.status_code != 200:
            return (await response.aread()).decode()
        return await _until_last(response.aiter_lines())


async def by_accept(api: Api, id: str, after: int) -> str:
    path, accept = f"{V1}/sessions/{id}/events", {"Accept": "text/event-stream"}
    async with api.stream("GET", path, headers=accept, params={"after": after}) as response:
        if response.status_code != 200:
            return (await response.aread()).decode()
        return await _until_last(response.aiter_lines())


async def by_socket(api: Api, id: str, after: int) -> str:
    try:
        async with socket(api, f"/sessions/{id}/events/socket?after={after}") as connection:
            return await _until_last(connection)
    except Exception as refusal:  # noqa: BLE001  whatever a client without a right gets to see
        return repr(refusal)


async def by_graphql(api: Api, id: str, after: int) -> str:
    query = {"query": PAGE, "variables": {"id": id, "after": after}}
    return (await api.post(graphql_helpers.URL, json=query)).text


async def by_subscription(api: Api, id: str, after: int) -> str:
    try:
        async with graphql_helpers.socket(api) as opened:
            await graphql_helpers.subscribe(opened, EVENTS, "1", {"id": id, "after": after})
            return await _until_last(opened, "error")
    except Exception as refusal:  # noqa: BLE001
        return repr(refusal)


async def by_mcp(api: Api, id: str, after: int) -> str:
    try:
        async with client(api) as mcp:
            return str((await mcp.call_tool("session_events", {"session_id": id, "after": after})).content)
    except BaseException as refusal:  # noqa: BLE001  the client raises groups
        return repr(refusal)


async def by_search(api: Api, id: str, after: int) -> str:
    """A search for each word, and for everything."""
    path, text = f"{V1}/sessions/{id}/events/search", ""
    for word in ("", "seen-by", LAST):
        for order in ("oldest", "newest"):
            cursor: dict[str, int] = {}
            while True:
                query = {"text": word, "order": order, "limit": 2, **cursor}
                answered = await api.get(path, params=query)
                text += answered.text
                if answered.status_code != 200 or answered.json()["next"] is None:
                    break
                cursor = {"cursor": answered.json()["next"]}
    return text


async def by_graphql_search(api: Api, id: str, after: int) -> str:
    query = {"query": SEARCH, "variables": {"id": id, "text": ""}}
    return (await api.post(graphql_helpers.URL, json=query)).text


async def by_json_lines(api: Api, id: str, after: int) -> str:
    return (await api.get(f"{V1}/sessions/{id}/events.jsonl")).text


async def by_record(api: Api, id: str, after: int) -> str:
    exported = await api.get(f"{V1}/sessions/{id}/record")
    if exported.status_code != 200:
        return exported.text
    with zipfile.ZipFile(io.BytesIO(exported.content)) as record:
        return "".join(record.read(name).decode() for name in record.namelist())


async def by_everything_else(api: Api, id: str, after: int) -> str:
    """Data that is derived from a log or stored beside it."""
    documented = json.loads(OPENAPI.read_text())["paths"]
    paths = [path for path, methods in documented.items() if path.startswith(SESSION) and "get" in methods]
    paths = [path.removeprefix(SESSION) for path in paths]
    read = [
        (await api.get(f"{V1}/sessions/{id}{path}")).text
        for path in paths
        if path not in LOGS and "{" not in path
    ]
    assert len(read) > 10
    read.append((await api.get(f"{V1}/search", params={"q": "seen-by"})).text)
    read.append((await api.get(f"{V1}/sessions", params={"q": "seen-by"})).text)
    return "".join(read)


def json_type(line: str) -> str:
    return str(json.loads(line)["type"]) if line.startswith("{") else ""


async def _until_last(lines: Any, *ends: str) -> str:
    text = ""
    async with asyncio.timeout(DEADLINE_S):
        async for line in lines:
            text += line
            if LAST in line or json_type(line) in ends:
                break
    return text


Exit = Callable[[Api, str, int], Awaitable[str]]
EXITS: tuple[Exit, ...] = (
    by_rest,
    by_sse,
    by_accept,
    by_socket,
    by_graphql,
    by_subscription,
    by_mcp,
    by_search,
    by_graphql_search,
    by_json_lines,
    by_record,
)


def words_in(text: str) -> set[str]:
    return {word for word in (PUBLIC, OWNERS, PERSON, LAST, "seen-by-nobody") if word in text}


@pytest.mark.parametrize("exit", EXITS, ids=lambda exit: exit.__name__)
async def test_every_caller_sees_what_is_for_them_and_nothing_else(scene: Scene, exit: Exit) -> None:
    for place in ("from the first", "after the entry before"):
        after = scene.first if place == "after the entry before" else 0
        seen = {
            name: words_in(await exit(api, scene.session_id, after)) for name, api in scene.callers.items()
        }
        assert seen == scene.sees, place


async def test_nothing_beside_the_log_repeats_a_private_entry(scene: Scene) -> None:
    for name, api in scene.callers.items():
        assert words_in(await by_everything_else(api, scene.session_id, 0)) == set(), name


async def test_the_content_and_diff_of_a_private_change_are_withheld(scene: Scene) -> None:
    seq = scene.last - 1
    owner_side = 0
    for name, api in scene.callers.items():
        for part in ("content", "diff"):
            answered = await api.get(f"{V1}/sessions/{scene.session_id}/events/{seq}/{part}")
            assert answered.status_code in (400, 401, 403, 404), (name, part)  # no snapshot has it
            assert words_in(answered.text) <= scene.sees[name], (name, part)
            owner_side += "is not stored" in answered.text
            assert ("is not stored" in answered.text) == (OWNERS in scene.sees[name]), (name, answered.text)
    assert owner_side


async def test_json_lines_name_the_author_of_visible_entries_only(scene: Scene) -> None:
    path = f"{V1}/sessions/{scene.session_id}/events.jsonl"
    answered = await scene.callers["candidate"].get(path)
    assert answered.headers["content-type"] == "application/x-ndjson"
    lines = [json.loads(line) for line in answered.text.splitlines()]
    assert [line["seq"] for line in lines] == list(range(1, scene.last + 1))
    assert list(lines[0]) == ["seq", "at_ms", "hash", "author", "event"]
    ada = (await scene.callers["the session's owner"].get(f"{V1}/me")).json()["user"]["id"]
    assert lines[0]["author"] == ada
    withheld = lines[scene.first + 1]
    assert (withheld["author"], withheld["event"]) == ("", {"type": "message.sent", "withheld": True})


async def test_a_search_reveals_nothing_of_a_private_entry(scene: Scene) -> None:
    """For a word in one, every answer is the same as for a word that is nowhere."""
    path = f"{V1}/sessions/{scene.session_id}/events/search"
    filters: list[dict[str, Any]] = [
        {},
        {"kind": "message."},
        {"limit": 1},
        {"order": "newest", "limit": 1},
        {"since": "1d"},
        {"cursor": scene.first + 1},
    ]
    for name in ("member", "candidate", "observer"):
        api = scene.callers[name]
        for more in filters:
            private, absent = [
                (await api.get(path, params={"text": text, **more})).json() for text in (OWNERS, OWNERS[::-1])
            ]
            assert private == absent == {"items": [], "next": None}, (name, more)
        asked = {"query": SEARCH, "variables": {"id": scene.session_id, "text": OWNERS}}
        found = (await api.post(graphql_helpers.URL, json=asked)).json()
        assert found["data"]["session"]["searchEvents"] == {"items": [], "next": None}


async def test_a_search_names_no_users_to_those_who_may_not_list_them(scene: Scene) -> None:
    path = f"{V1}/sessions/{scene.session_id}/events/search"
    for known in ("stranger", "no-such-user"):
        answered = await scene.callers["candidate"].get(path, params={"by": known})
        assert (answered.status_code, answered.json()) == (200, {"items": [], "next": None})
    owner = scene.callers["an owner of the installation"]
    assert (await owner.get(path, params={"by": "no-such-user"})).status_code == 404
    assert (await owner.get(path, params={"by": "ada", "kind": "session.opened"})).json()["items"][0][
        "seq"
    ] == 1


async def test_a_withheld_entry_keeps_its_number_its_time_its_type_and_its_link(scene: Scene) -> None:
    path = f"{V1}/sessions/{scene.session_id}/events"
    read = [
        scene.callers[name].get(path, params={"after": scene.first}) for name in ("assessor", "candidate")
    ]
    whole, part = [(await each).json()["items"] for each in read]
    assert [each["seq"] for each in part] == list(range(scene.first + 1, scene.last + 1))
    for ours, theirs in zip(whole, part, strict=True):
        assert {**theirs, "event": ours["event"]["type"]} == {**ours, "event": ours["event"]["type"]}
    assert part[1]["event"] == {"type": "message.sent", "withheld": True}
    assert part[5]["event"] == {"type": "message.sent", "withheld": True}  # no size either
    assert whole[1]["event"]["audience"] == OWNER_SIDE
    assert "audience" not in whole[0]["event"]


async def test_entries_written_during_a_stream_are_withheld_too(api: Api) -> None:
    ada, bob = await api.as_user("ada"), await api.as_user("a-live-candidate", "candidate")
    session_id = SessionId(await ada.ready_session(purpose="live"))
    await share(ada, session_id, "a-live-candidate", "candidate")
    person = (await bob.get(f"{V1}/me")).json()["user"]["id"]
    path = f"/sessions/{session_id}/events/socket"
    async with (
        sse(bob, session_id) as by_sse,
        socket(bob, path) as by_ws,
        graphql_helpers.socket(bob) as by_graph,
    ):
        await graphql_helpers.subscribe(by_graph, EVENTS, "1", {"id": session_id})
        await asyncio.gather(by_sse.next(), next_frame(by_ws), graphql_helpers.receive(by_graph))
        deltas = [
            Delta("run_x", 1, "text", word, audience=to)
            for word, to in ((OWNERS, OWNER_SIDE), (PUBLIC, None))
        ]
        await eventually(lambda: _count(api, 3))
        for delta in deltas:
            api.server.host._dependencies.channels.publish(session_id, delta)
        await api.server.log.append(session_id, private_events(person))
        texts = await asyncio.gather(_until_last(by_sse.lines), _until_last(by_ws), _until_last(by_graph))
    for text in texts:
        assert words_in(text) == {PUBLIC, PERSON, LAST}
        assert text.count(PUBLIC) == 2  # the delta and the entry


async def _count(api: Api, wanted: int) -> bool:
    return api.server.host.followers >= wanted


async def test_a_reduced_record_verifies_and_names_withheld_events(scene: Scene, tmp_path: Path) -> None:
    for name, withheld in (("candidate", 6), ("the session's owner", 2), ("the person", 5)):
        exported = await scene.callers[name].get(f"{V1}/sessions/{scene.session_id}/record")
        path = tmp_path / f"{name}.zip"
        path.write_bytes(exported.content)
        report = verify_record(path)
        assert (report.ok, report.erased, report.events) == (True, withheld, scene.last), (name, report)
        with zipfile.ZipFile(path) as record:
            statements = [json.loads(line) for line in record.read("statements.ndjson").splitlines()]
        reasons = {each["reason"] for each in statements if each["kind"] == "erasure"}
        assert reasons == {"Withheld from this copy of the record: its reader may not see it."}
    kept = await scene.callers["candidate"].server.log.count_payloads(scene.session_id)
    assert kept == scene.last  # nothing was erased from the log itself


async def test_an_assessor_who_becomes_a_candidate_is_not_shown_more_of_it(api: Api) -> None:
    ada, eve = await api.as_user("ada"), await api.as_user("eve", "candidate")
    session_id = SessionId(await ada.ready_session(purpose="roles change"))
    await share(ada, session_id, "eve", "assessor")
    async with sse(eve, session_id) as stream:
        await stream.next()
        await share(ada, session_id, "eve", "candidate")
        async with asyncio.timeout(DEADLINE_S):
            last = [said async for said in frames_of(stream)][-1]
        assert last.kind == "refused"
    await api.server.log.append(session_id, [*private_events("usr_" + "0" * 26)])
    assert OWNERS not in await by_sse(eve, session_id, 0)


async def frames_of(stream: Any) -> Any:
    while (said := await stream.next()) is not None:
        yield said


async def test_a_question_for_the_owners_side_cannot_be_answered_by_others(api: Api) -> None:
    ada, bob = await api.as_user("ada"), await api.as_user("a-guessing-candidate", "candidate")
    session_id = SessionId(await ada.ready_session(purpose="questions"))
    await share(ada, session_id, "a-guessing-candidate", "candidate")
    asked = QuestionAsked(run_id="run_x", call_id="call_1", text=OWNERS, audience=OWNER_SIDE)
    await api.server.log.append(session_id, [asked])
    await Sessions(api.server.rows).set(session_id, state="waiting")
    path = f"{V1}/sessions/{session_id}/inputs"
    answer = {"type": "answer", "call_id": "call_1", "text": "Yes."}
    assert (await bob.post(path, json=answer)).status_code == 409
    assert (await ada.post(path, json=answer)).status_code == 202


async def test_an_answer_to_a_question_for_the_owners_side_is_withheld_from_others(api: Api) -> None:
    ada = await api.as_user("ada")
    session_id = SessionId(await ada.ready_session(purpose="answers"))
    asked = [
        QuestionAsked(call_id="call_1", text="For the owners?", audience=OWNER_SIDE),
        QuestionAsked(call_id="call_2", text="For everyone?"),
    ]
    await api.server.log.append(session_id, asked)
    await Sessions(api.server.rows).set(session_id, state="waiting")
    path = f"{V1}/sessions/{session_id}/inputs"
    for call_id, word in (("call_1", OWNERS), ("call_2", PUBLIC)):
        given = await ada.post(path, json={"type": "answer", "call_id": call_id, "text": word})
        assert given.status_code == 202 and word in given.text  # the caller sees what they gave
    seen, listed = {}, {}
    roles: tuple[ShareRole, ...] = ("member", "candidate", "observer", "assessor")
    for role in roles:
        reader = await api.as_user(f"answers-{role}", role)
        await share(ada, session_id, f"answers-{role}", role)
        listed[role] = (await reader.get(path)).json()["items"]
        everything = json.dumps(listed[role]) + await by_rest(reader, session_id, 0)
        seen[role] = words_in(everything + await by_graphql(reader, session_id, 0))
    assert seen == {role: {PUBLIC, OWNERS} if role == "assessor" else {PUBLIC} for role in roles}
    withheld = {"type": "answer", "withheld": True}
    assert [(each["seq"], each["input"] == withheld) for each in listed["candidate"]] == [
        (1, True),
        (2, False),
    ]


async def test_a_stream_of_code_omits_withheld_events(api: Api, tmp_path: Path) -> None:
    finish = call("finish", title="Done", summary="So.")
    asked = {
        "repoUrl": str(repository(tmp_path / "repo")),
        "prompt": "Work.",
        "persona": "pair",
        "model": cassette(tmp_path / "c.json", call("ask_user", question="Which?"), finish),
    }
    async with asyncio.timeout(DEADLINE_S), api.stream("POST", "/api/code", json=asked) as answered:
        location = answered.headers["location"]
        run_id = location.rpartition("/")[2]
        async for line in answered.aiter_lines():
            frame = json.loads(line[6:]) if line.startswith("data: ") else {}
            if frame.get("type") == "question":
                session_id = SessionId(frame["answerUrl"].split("/")[-2])
                for word, audience in ((PUBLIC, None), (OWNERS, OWNER_SIDE)):
                    result = ToolReturned(
                        run_id=run_id, call_id="x", tool="bash", ok=True, text=word, audience=audience
                    )
                    step = StepReached(step="inspecting", message=word, audience=audience)
                    await api.server.log.append(session_id, [result, step])
                given = {"type": "answer", "call_id": frame["callId"], "text": "This."}
                assert (await api.post(frame["answerUrl"], json=given)).status_code == 202
    seen = {}
    for role in ("candidate", "observer", "assessor"):
        reader = await api.as_user(f"code-{role}", role)
        await share(api, session_id, f"code-{role}", role)
        whole = (await reader.get(location)).text
        resumed = (await reader.get(location, headers={"Last-Event-ID": "1"})).text
        waited = (await reader.get(location, headers={"Accept": "application/json"})).json()
        assert waited["outcome"] == "nothing"
        seen[role] = words_in(whole + resumed + json.dumps(waited))
    assert seen == {"candidate": {PUBLIC}, "observer": {PUBLIC}, "assessor": {PUBLIC, OWNERS}}


@pytest.mark.parametrize("audience", ["", "everyone", "usr_short", "candidate"])
async def test_an_unknown_audience_is_not_written(api: Api, audience: str) -> None:
    session_id = SessionId(await api.ready_session(purpose="refused"))
    with pytest.raises(Exception, match="is not a user's id"):
        await api.server.log.append(session_id, [MessageSent(author="user", text="x", audience=audience)])
    with pytest.raises(Exception, match="for everyone"):
        await api.server.log.append(session_id, [SessionEnded(outcome="done", audience=OWNER_SIDE)])


async def test_the_model_is_not_shown_what_is_for_the_owners_side(api: Api, tmp_path: Path) -> None:
    session_id = SessionId(await api.ready_session(purpose="a conversation"))
    private = MessageSent(author="user", text=OWNERS, audience=OWNER_SIDE)
    await api.server.log.append(session_id, [MessageSent(author="user", text=PUBLIC), private])
    live = api.server.host.live(session_id)
    seen = str([entry.event for entry in await live.entries()])
    assert words_in(seen) == {PUBLIC}
