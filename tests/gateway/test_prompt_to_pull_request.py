"""`POST /api/code`: a repository and a prompt in, a stream to watch, a pull request at the end."""

import asyncio
import json
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from sqlalchemy import event

from hutch.domain.events import MessageSent
from hutch.domain.ids import SessionId
from hutch.flows.user_accounts import LOCAL, Accounts
from hutch.gateway.rest.prompt_to_pull_request import CodeOut
from hutch.gateway.stream.open_streams import Streams, streams_of
from hutch.gateway.stream.stream_quota import stream_quota_of
from hutch.llm.scripted_model import OFFLINE
from tests.deadline import DEADLINE_S
from tests.gateway.api_server import V1, Api, eventually, serving
from tests.sessions.session_server import call, cassette, repository

pytestmark = pytest.mark.anyio

READ = call("read_file", path="slug.py")
FIX = call("write_file", path="slug.py", content="def slug(text):\n    return text.lower()\n")
FINISH = call("finish", title="Slugs are lower case", summary="As they should be.")
SLEEP = call("bash", command="sleep 600", timeout_s=600)
CHUNK_OF_ONE = b"1\r\n\n\r\n"


async def frames(answered: httpx.Response) -> list[tuple[int, dict[str, Any]]]:
    """The frames of a stream with their numbers, until its end."""
    found, id = [], 0
    async for line in answered.aiter_lines():
        if line.startswith("id: "):
            id = int(line[4:])
        elif line.startswith("data: "):
            found.append((id, json.loads(line[6:])))
    return found


@asynccontextmanager
async def waiting(
    api: Api, method: str, path: str, asked: dict[str, Any], *, version: str = "1.1"
) -> AsyncIterator[tuple[str, asyncio.StreamReader]]:
    """A request for the result, over a socket of its own: the head of its answer, and what follows."""
    url, body = httpx.URL(api.url), json.dumps(asked).encode()
    reader, writer = await asyncio.open_connection(url.host, url.port)
    writer.write(
        f"{method} {path} HTTP/{version}\r\nHost: {url.netloc.decode()}\r\n"
        f"Authorization: Bearer {api.token}\r\n"
        f"Accept: application/json\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\n\r\n".encode()
        + body
    )
    try:
        yield (await reader.readuntil(b"\r\n\r\n")).decode(), reader
    finally:
        writer.close()


async def unchunked(reader: asyncio.StreamReader) -> bytes:
    """The rest of a body that comes in chunks."""
    body = b""
    while size := int(await reader.readline(), 16):
        body += (await reader.readexactly(size + 2))[:-2]
    return body


async def test_the_frames_of_a_change_come_in_order(api: Api, tmp_path: Path) -> None:
    repo = repository(tmp_path / "repo")
    asked = {
        "repoUrl": str(repo),
        "prompt": "Make slugs lower case.",
        "model": cassette(tmp_path / "c.json", [READ, FIX, FINISH]),
    }
    async with asyncio.timeout(DEADLINE_S), api.stream("POST", "/api/code", json=asked) as answered:
        assert answered.status_code == 200
        assert answered.headers["content-type"].startswith("text/event-stream")
        location = answered.headers["location"]
        result = await frames(answered)
    ids, types = [id for id, _ in result], [frame["type"] for _, frame in result]
    assert ids == sorted(set(ids))
    statuses = [frame["step"] for _, frame in result if frame["type"] == "status"]
    assert statuses == ["cloning", "inspecting", "working", "branching", "committing", "pushing", "opening"]
    looked = next(frame["message"] for _, frame in result if frame.get("step") == "inspecting")
    assert looked == "Looked at the repository: 1 file, Python (1); no tests found."
    assert types[0] == "status" and types[-3:] == ["diff", "pull_request", "done"]
    calls = [(frame["tool"], frame["input"]) for _, frame in result if frame["type"] == "tool_call"]
    assert calls[0] == ("read_file", {"path": "slug.py"})
    results = [frame for _, frame in result if frame["type"] == "tool_result"]
    assert results[0]["tool"] == "read_file" and "return text" in results[0]["result"]
    by_type = {frame["type"]: frame for _, frame in result}
    assert "+    return text.lower()" in by_type["diff"]["diff"]
    assert by_type["usage"]["turns"] == 3
    assert by_type["pull_request"]["branch"] == "hutch/slugs-are-lower-case"
    waited = (await api.get(location, headers={"Accept": "application/json"})).json()
    assert by_type["done"] == {
        "type": "done",
        "outcome": "done",
        "url": by_type["pull_request"]["url"],
        "message": "As they should be.",
        "run": location.rpartition("/")[2],
        "session": waited["session"],
        "timestamp": by_type["pull_request"]["timestamp"],
    }
    times = [frame["timestamp"] for _, frame in result]
    assert times == sorted(times) and times[0] > 1_700_000_000_000
    for last_id in (0, ids[3], ids[-2], ids[-1]):
        async with api.stream("GET", location, headers={"Last-Event-ID": str(last_id)}) as again:
            assert await frames(again) == [(id, frame) for id, frame in result if id > last_id]
    assert (waited["outcome"], waited["message"]) == ("done", "As they should be.")
    assert waited["pullRequest"]["url"] == by_type["done"]["url"]
    shown = await asyncio.to_thread(
        subprocess.run,
        ["git", "-C", str(repo), "show", "hutch/slugs-are-lower-case:slug.py"],
        capture_output=True,
        check=True,
    )
    assert b"lower()" in shown.stdout


async def test_frames_of_questions_and_approvals_say_how_to_answer(api: Api, tmp_path: Path) -> None:
    asks = call("ask_user", question="Which case?")
    asked = {
        "repoUrl": str(repository(tmp_path / "repo")),
        "prompt": "Make slugs lower case.",
        "persona": "pair",
        "model": cassette(tmp_path / "c.json", [asks, call("bash", command="touch said"), FINISH]),
    }
    result: list[dict[str, Any]] = []
    async with asyncio.timeout(DEADLINE_S), api.stream("POST", "/api/code", json=asked) as answered:
        async for line in answered.aiter_lines():
            if not line.startswith("data: "):
                continue
            result.append(frame := json.loads(line[6:]))
            if frame["type"] in ("question", "approval"):
                reply = {**frame["answers"][0]}
                if "text" in reply:
                    reply["text"] = "Lower."
                assert (await api.post(frame["answerUrl"], json=reply)).status_code == 202
    session = result[-1]["session"]
    question, approval = (
        next(each for each in result if each["type"] == kind) for kind in ("question", "approval")
    )
    ask_id, call_id = question["callId"], approval["callId"]
    assert question == {
        "type": "question",
        "callId": ask_id,
        "text": "Which case?",
        "answerUrl": f"{V1}/sessions/{session}/inputs",
        "answers": [{"type": "answer", "call_id": ask_id, "text": ""}],
        "timestamp": question["timestamp"],
    }
    assert approval == {
        "type": "approval",
        "callId": call_id,
        "tool": "bash",
        "summary": "touch said",
        "rule": approval["rule"],
        "covers": ["bash touch said"],
        "answerUrl": f"{V1}/sessions/{session}/inputs",
        "answers": [
            {"type": "approve", "call_id": call_id, "scope": "once"},
            {"type": "deny", "call_id": call_id, "reason": ""},
        ],
        "timestamp": approval["timestamp"],
    }
    replies = [each for each in result if each["type"] == "answered"]
    assert [(each["callId"], each["allowed"], each["text"]) for each in replies] == [
        (ask_id, None, "Lower."),
        (call_id, True, None),
    ]
    assert question["timestamp"] <= replies[0]["timestamp"] <= approval["timestamp"]
    assert result[-1]["outcome"] == "done"


@pytest.mark.parametrize(
    "waits", [call("ask_user", question="Which case?"), call("bash", command="touch said")]
)
async def test_a_run_without_an_answer_ends_at_its_timeout(
    api: Api, tmp_path: Path, waits: dict[str, Any]
) -> None:
    asked = {
        "repoUrl": str(repository(tmp_path / "repo")),
        "prompt": "Make slugs lower case.",
        "persona": "pair",
        "model": cassette(tmp_path / "c.json", [waits, FINISH]),
    }
    for limit_s in (2, 8, 32):
        asked["timeoutSeconds"] = limit_s
        result = (await api.post("/api/code", json=asked, headers={"Accept": "application/json"})).json()
        events = await api.events(result["session"])
        if any(each["type"] in ("question.asked", "approval.requested") for each in events):
            break  # else this machine needed all of that time to ask
    assert (result["outcome"], result["message"]) == (
        "limit_reached",
        f"It took {limit_s} seconds, which is the limit. It was waiting for a user's answer.",
    )


async def test_a_waiting_client_gets_the_result_even_if_nothing_changed(api: Api, tmp_path: Path) -> None:
    asked = {
        "repoUrl": str(repository(tmp_path / "repo")),
        "prompt": "Is it fine?",
        "model": cassette(tmp_path / "c.json", [{"text": "It is fine."}]),
    }
    answered = await api.post(
        "/api/code", json=asked, headers={"Accept": "application/json"}, timeout=DEADLINE_S
    )
    result = answered.json()
    assert (answered.status_code, result["outcome"], result["pullRequest"]) == (200, "nothing", None)
    assert result["message"] == "Nothing was changed."


async def test_a_run_without_a_delivery_ends_too(api: Api) -> None:
    session = await api.new_session(prompt="Is it fine?")
    await api.until(session["id"], "idle", "parked")
    (run,) = (await api.get(f"{V1}/sessions/{session['id']}/runs")).json()["items"]
    async with api.stream("GET", f"/api/code/{run['id']}", timeout=DEADLINE_S) as answered:
        *_, (_, last) = await frames(answered)
    assert (last["type"], last["outcome"], last["message"]) == ("done", "done", "Done.")
    waited = await api.get(f"/api/code/{run['id']}", headers={"Accept": "application/json"})
    assert (waited.json()["outcome"], waited.json()["pullRequest"]) == ("done", None)


@pytest.mark.parametrize(
    ("replies", "message"),
    [
        (
            [{"text": "I look first.", **READ}, FIX, {"text": "All are lower case now."}],
            "All are lower case now.",
        ),
        ([{"text": "I look first.", **READ}, FIX, {"text": "So.", **FINISH}], "As they should be."),
        ([FIX, call("finish", title="Slugs are lower case")], "Slugs are lower case"),
        ([READ, FINISH], "As they should be."),
    ],
)
async def test_the_message_is_the_summary_of_the_agent(
    api: Api, tmp_path: Path, replies: list[dict[str, Any]], message: str
) -> None:
    asked = {
        "repoUrl": str(repository(tmp_path / "repo")),
        "prompt": "Make slugs lower case.",
        "model": cassette(tmp_path / "c.json", replies),
    }
    async with asyncio.timeout(DEADLINE_S), api.stream("POST", "/api/code", json=asked) as answered:
        location, result = answered.headers["location"], await frames(answered)
    waited = (await api.get(location, headers={"Accept": "application/json"})).json()
    assert (waited["message"], result[-1][1]["message"]) == (message, message)
    assert waited["outcome"] == ("done" if FIX in replies else "nothing")


async def test_work_whose_tests_fail_is_shown(api: Api, tmp_path: Path) -> None:
    asked = {
        "repoUrl": str(repository(tmp_path / "repo")),
        "prompt": "Make slugs lower case.",
        "model": cassette(tmp_path / "c.json", [FIX, FINISH, FINISH, FINISH, FINISH]),
        "tests": "! grep -q lower slug.py",
    }
    async with asyncio.timeout(DEADLINE_S), api.stream("POST", "/api/code", json=asked) as answered:
        location, result = answered.headers["location"], await frames(answered)
    assert [frame["type"] for _, frame in result[-3:]] == ["diff", "error", "done"]
    assert result[-1][1]["outcome"] == "tests_failing"
    assert "+    return text.lower()" in result[-3][1]["diff"]
    waited = (await api.get(location, headers={"Accept": "application/json"})).json()
    assert waited["diff"] == result[-3][1]["diff"] and waited["message"] == result[-1][1]["message"]
    for last_id, _ in result[-4:]:
        async with api.stream("GET", location, headers={"Last-Event-ID": str(last_id)}) as again:
            assert await frames(again) == [(id, frame) for id, frame in result if id > last_id]


async def test_a_limit_leaves_what_was_done_and_no_diff_where_nothing_was(api: Api, tmp_path: Path) -> None:
    for name, first in (("changed", FIX), ("same", READ)):
        asked = {
            "repoUrl": str(repository(tmp_path / name)),
            "prompt": "Make slugs lower case.",
            "model": cassette(tmp_path / f"{name}.json", [first, SLEEP]),
        }
        for limit_s in (3, 12, 48):
            asked["timeoutSeconds"] = limit_s
            async with asyncio.timeout(DEADLINE_S), api.stream("POST", "/api/code", json=asked) as answered:
                result = [frame for _, frame in await frames(answered)]
            if any(frame["type"] == "tool_result" for frame in result):
                break  # else this machine needed all of that time to begin
        assert result[-1]["outcome"] == "limit_reached" and result[-1]["message"]
        assert any(frame["type"] == "diff" for frame in result) == (name == "changed")


async def test_without_a_model_it_fails_with_advice(tmp_path: Path) -> None:
    asked = {"repoUrl": str(repository(tmp_path / "repo")), "prompt": "Make slugs lower case."}
    async with serving(tmp_path / "server", model=f"scripted:{OFFLINE}") as api:
        async with asyncio.timeout(DEADLINE_S), api.stream("POST", "/api/code", json=asked) as answered:
            location, result = answered.headers["location"], [frame for _, frame in await frames(answered)]
        waited = (await api.get(location, headers={"Accept": "application/json"})).json()
    assert [frame["type"] for frame in result[-2:]] == ["error", "done"]
    assert (result[-1]["outcome"], waited["outcome"]) == ("failed", "failed")
    assert "hutch config set-secret" in result[-1]["message"] == waited["message"]
    for words_of_others in ("offline.json", "--model"):
        assert words_of_others not in json.dumps([result, waited])


async def test_a_stopping_server_says_so_and_the_run_can_be_followed_later(api: Api, tmp_path: Path) -> None:
    asked = {
        "repoUrl": str(repository(tmp_path / "repo")),
        "prompt": "Sleep.",
        "model": cassette(tmp_path / "c.json", [SLEEP, FINISH]),
    }
    async with asyncio.timeout(DEADLINE_S), api.stream("POST", "/api/code", json=asked) as answered:
        location = answered.headers["location"]
        api.server.closing = True
        lines = [line async for line in answered.aiter_lines()]
    api.server.closing = False
    last = json.loads([line for line in lines if line][-1].removeprefix("data: "))
    assert last.pop("timestamp") > 1_700_000_000_000
    assert last == {"type": "closing", "message": "the server is stopping; reconnect in a moment"}
    assert not any(line.startswith("event:") for line in lines)
    assert (await api.delete(location)).status_code == 204
    async with asyncio.timeout(DEADLINE_S), api.stream("GET", location) as again:
        assert (await frames(again))[-1][1]["outcome"] == "cancelled"


async def test_a_waiting_client_gets_bytes_at_once_and_regularly(tmp_path: Path) -> None:
    asked = {
        "repoUrl": str(repository(tmp_path / "repo")),
        "prompt": "Sleep.",
        "model": cassette(tmp_path / "c.json", [SLEEP, FINISH]),
    }
    async with asyncio.timeout(DEADLINE_S), serving(tmp_path / "server") as api:
        api.app.state.streams = Streams(
            api.app.state.authenticator.access_changes, tick_s=0.05, heartbeat_s=0.1
        )
        async with waiting(api, "POST", "/api/code", asked) as (head, reader):
            assert head.startswith("HTTP/1.1 200 ") and "\r\ncontent-type: application/json\r\n" in head
            location = head.partition("\r\nlocation: ")[2].partition("\r\n")[0]
            run = (await api.get(f"{V1}/runs/{location.rpartition('/')[2]}")).json()
            assert run["state"] in ("queued", "running")  # it is far from its end
            beats = await reader.readexactly(len(CHUNK_OF_ONE) * 5)
            assert beats == CHUNK_OF_ONE * 5
            assert (await api.delete(location)).status_code == 204
            result = json.loads(await unchunked(reader))
        assert (result["outcome"], result["run"]) == ("cancelled", location.rpartition("/")[2])


async def test_an_http_1_0_client_gets_the_result_whole(api: Api, tmp_path: Path) -> None:
    asked = {"repoUrl": str(repository(tmp_path / "repo")), "prompt": "Hello."}
    asked["model"] = cassette(tmp_path / "c.json", [READ, FIX, FINISH])
    async with (
        asyncio.timeout(DEADLINE_S),
        waiting(api, "POST", "/api/code", asked, version="1.0") as (head, reader),
    ):
        body = await reader.read()
    assert "transfer-encoding" not in head and f"\r\ncontent-length: {len(body)}\r\n" in head
    assert "\r\nlocation: /api/code/run_" in head and "\r\nconnection: close\r\n" in head
    assert body.startswith(b"{") and json.loads(body)["outcome"] == "done"


async def test_an_http_1_0_client_is_notified_that_the_server_stops(tmp_path: Path) -> None:
    asked = {"repoUrl": str(repository(tmp_path / "repo")), "prompt": "Sleep."}
    asked["model"] = cassette(tmp_path / "c.json", [SLEEP, FINISH])
    async with asyncio.timeout(DEADLINE_S), serving(tmp_path / "server") as api:

        async def waits() -> bool:
            return len(streams_of(api.app)) == 1

        async def end() -> None:
            await eventually(waits)
            api.server.closing = True

        ending = asyncio.ensure_future(end())
        async with waiting(api, "POST", "/api/code", asked, version="1.0") as (head, reader):
            result = json.loads(await reader.read())
        await ending
        api.server.closing = False
        assert "transfer-encoding" not in head
        assert result["outcome"] == "unfinished" and "the server is stopping" in result["message"]
        assert (await api.delete(f"/api/code/{result['run']}")).status_code == 204


ACCEPTED = {
    "APPLICATION/JSON": True,
    "application/json; charset=utf-8; q=0.5": True,
    "application/json, text/event-stream;q=0": True,
    "application/json;q=0.9, Text/Event-Stream; Q=0.1": True,
    "application/json, */*": True,
    "application/json;q=0": False,
    "application/json; Q = 0.000": False,
    "application/json, text/event-stream": False,
    "application/json;q=0.1, text/event-stream": False,
    "application/jsonp": False,
    "*/*": False,
}


async def test_what_is_accepted(api: Api, tmp_path: Path) -> None:
    asked = {"repoUrl": str(repository(tmp_path / "repo")), "prompt": "Hello."}
    begun = await api.post(
        "/api/code", json=asked, headers={"Accept": "APPLICATION/JSON"}, timeout=DEADLINE_S
    )
    url = f"/api/code/{begun.json()['run']}"
    found = {}
    for accept in ACCEPTED:
        answered = await api.get(url, headers={"Accept": accept}, timeout=DEADLINE_S)
        found[accept] = (answered.status_code, answered.headers["content-type"])
    kinds = {True: "application/json", False: "text/event-stream; charset=utf-8"}
    assert found == {accept: (200, kinds[is_json]) for accept, is_json in ACCEPTED.items()}


async def test_a_waiting_client_that_disconnects_does_not_stop_the_run(tmp_path: Path) -> None:
    asked = {
        "repoUrl": str(repository(tmp_path / "repo")),
        "prompt": "Sleep.",
        "model": cassette(tmp_path / "c.json", [SLEEP, FINISH]),
    }
    async with asyncio.timeout(DEADLINE_S), serving(tmp_path / "server") as api:
        async with waiting(api, "POST", "/api/code", asked) as (head, _):
            location = head.partition("\r\nlocation: ")[2].partition("\r\n")[0]

        async def let_go() -> bool:
            return len(stream_quota_of(api.app)) == 0

        await eventually(let_go)
        run = (await api.get(f"{V1}/runs/{location.rpartition('/')[2]}")).json()
        assert run["state"] in ("queued", "running")
        assert (await api.delete(location)).status_code == 204


async def test_a_waiting_client_counts_among_the_streams_of_a_user(tmp_path: Path) -> None:
    asked = {
        "repoUrl": str(repository(tmp_path / "repo")),
        "prompt": "Sleep.",
        "model": cassette(tmp_path / "c.json", [SLEEP, FINISH]),
    }
    async with (
        asyncio.timeout(DEADLINE_S),
        serving(tmp_path / "server", server={"streams_per_user": 1}) as api,
    ):
        async with waiting(api, "POST", "/api/code", asked) as (head, _):
            location = head.partition("\r\nlocation: ")[2].partition("\r\n")[0]
            before = (await api.get(f"{V1}/sessions")).json()["items"]
            for accept in ("application/json", "text/event-stream"):
                refused = await api.post("/api/code", json=asked, headers={"Accept": accept})
                assert (refused.status_code, refused.json()["limit"]) == (429, "server.streams_per_user")
            assert len((await api.get(f"{V1}/sessions")).json()["items"]) == len(before) == 1
        await api.delete(location)


async def test_a_waiting_client_that_lost_access_gets_no_result(tmp_path: Path) -> None:
    asked = {
        "repoUrl": str(repository(tmp_path / "repo")),
        "prompt": "Sleep.",
        "model": cassette(tmp_path / "c.json", [SLEEP, FINISH]),
    }
    async with asyncio.timeout(DEADLINE_S), serving(tmp_path / "server") as api:
        bob = await api.as_user("bob", "owner")
        async with waiting(bob, "POST", "/api/code", asked) as (head, reader):
            users = {user.name: user.id for user in await Accounts(api.server.rows).users.list()}
            await Accounts(api.server.rows).set_disabled(users["bob"], True, LOCAL)
            result = json.loads(await unchunked(reader))
        location = head.partition("\r\nlocation: ")[2].partition("\r\n")[0]
        assert result["outcome"] == "unfinished" and "no longer have access" in result["message"]
        await api.delete(location)


async def test_a_stopping_server_notifies_waiting_clients(api: Api, tmp_path: Path) -> None:
    asked = {
        "repoUrl": str(repository(tmp_path / "repo")),
        "prompt": "Sleep.",
        "model": cassette(tmp_path / "c.json", [SLEEP, FINISH]),
    }
    async with asyncio.timeout(DEADLINE_S), waiting(api, "POST", "/api/code", asked) as (head, reader):
        location = head.partition("\r\nlocation: ")[2].partition("\r\n")[0]
        api.server.closing = True
        result = json.loads(await unchunked(reader))
    api.server.closing = False
    run_id = location.rpartition("/")[2]
    assert (result["run"], result["outcome"]) == (run_id, "unfinished")
    assert f"GET {location} " in result["message"] and "the server is stopping" in result["message"]
    assert set(result) == set(CodeOut.model_fields)
    assert (await api.delete(location)).status_code == 204
    later = await api.get(location, headers={"Accept": "application/json"}, timeout=DEADLINE_S)
    assert later.json()["outcome"] == "cancelled"


async def test_a_waiting_client_is_notified_that_the_server_stops(api: Api, tmp_path: Path) -> None:
    asked = {
        "repoUrl": str(repository(tmp_path / "repo")),
        "prompt": "Sleep.",
        "model": cassette(tmp_path / "c.json", [SLEEP, FINISH]),
    }
    wait = {"Accept": "application/json"}
    api.server.closing = True
    result = await api.post("/api/code", json=asked, headers=wait, timeout=DEADLINE_S)
    api.server.closing = False
    assert result.status_code == 503 and "GET /api/code/run_" in result.json()["detail"]
    location = result.json()["detail"].split()[-4]
    assert (await api.delete(location)).status_code == 204
    assert (await api.get(location, headers=wait, timeout=DEADLINE_S)).json()["outcome"] == "cancelled"


async def test_the_session_takes_another_prompt(api: Api, tmp_path: Path) -> None:
    more = call("write_file", path="more.py", content="x = 1\n")
    asked = {
        "repoUrl": str(repository(tmp_path / "repo")),
        "prompt": "Make slugs lower case.",
        "model": cassette(tmp_path / "c.json", [FIX, FINISH, more, FINISH]),
    }
    wait = {"Accept": "application/json"}
    first = (await api.post("/api/code", json=asked, headers=wait, timeout=DEADLINE_S)).json()
    given = await api.give(first["session"], type="prompt", text="Add more.")
    runs = (await api.get(f"{V1}/sessions/{first['session']}/runs")).json()["items"]
    assert [run["input"] for run in runs] == [given["seq"], 0]
    second = (await api.get(f"/api/code/{runs[0]['id']}", headers=wait, timeout=DEADLINE_S)).json()
    assert second["session"] == first["session"] and second["outcome"] == "done"
    assert second["pullRequest"]["branch"] == first["pullRequest"]["branch"]
    assert "more.py" in second["diff"]


async def test_a_client_that_claims_later_frames_is_not_kept_waiting(api: Api, tmp_path: Path) -> None:
    asked = {
        "repoUrl": str(repository(tmp_path / "repo")),
        "prompt": "Is it fine?",
        "model": cassette(tmp_path / "c.json", [{"text": "It is fine."}]),
    }
    async with asyncio.timeout(DEADLINE_S), api.stream("POST", "/api/code", json=asked) as answered:
        location, result = answered.headers["location"], await frames(answered)
    last = result[-1][0]
    for seen in (last, last + 1, last + 4, last + 8, 999_999):
        headers = {"Last-Event-ID": str(seen)}
        async with asyncio.timeout(DEADLINE_S), api.stream("GET", location, headers=headers) as again:
            assert await frames(again) == []


async def test_a_repository_that_cannot_be_had_is_an_error_with_a_reason(api: Api, tmp_path: Path) -> None:
    asked = {"repoUrl": str(tmp_path / "nowhere"), "prompt": "Mend it."}
    refused = await api.post("/api/code", json=asked)
    assert refused.status_code == 400 and "nowhere" in refused.json()["detail"]
    (tmp_path / "nowhere").mkdir()
    (tmp_path / "nowhere/.git").write_text("gitdir: /nothing/there\n")
    refused = await api.post("/api/code", json=asked)
    assert refused.status_code == 400 and "does not point back" in refused.json()["detail"]
    (tmp_path / "nowhere/.git").unlink()
    (tmp_path / "nowhere/.git").mkdir()
    async with asyncio.timeout(DEADLINE_S), api.stream("POST", "/api/code", json=asked) as answered:
        result = [frame for _, frame in await frames(answered)]
    assert [frame["type"] for frame in result[-2:]] == ["error", "done"]
    assert "nowhere" in result[-2]["message"] and result[-1]["outcome"] == "failed"


async def test_going_away_does_not_stop_it_and_delete_does(api: Api, tmp_path: Path) -> None:
    asked = {
        "repoUrl": str(repository(tmp_path / "repo")),
        "prompt": "Sleep.",
        "model": cassette(tmp_path / "c.json", [SLEEP, FINISH]),
    }
    async with asyncio.timeout(DEADLINE_S), api.stream("POST", "/api/code", json=asked) as answered:
        location = answered.headers["location"]
        async for line in answered.aiter_lines():
            if '"tool_call"' in line:
                break
    await asyncio.sleep(0.3)
    run = (await api.get(f"{V1}/runs/{location.rpartition('/')[2]}")).json()
    assert run["state"] == "running"
    assert (await api.delete(location)).status_code == 204
    async with asyncio.timeout(DEADLINE_S), api.stream("GET", location) as again:
        result = [frame for _, frame in await frames(again)]
    assert result[-1]["outcome"] == "cancelled"
    assert (await api.delete(location)).status_code == 204


async def test_a_run_of_another_is_as_if_it_were_not_there(api: Api, tmp_path: Path) -> None:
    asked = {"repoUrl": str(repository(tmp_path / "repo")), "prompt": "Hello."}
    answered = await api.post(
        "/api/code", json=asked, headers={"Accept": "application/json"}, timeout=DEADLINE_S
    )
    bob = await api.as_user("bob")
    for method in ("GET", "DELETE"):
        found = await bob.request(method, answered.headers["location"])
        missing = await bob.request(method, "/api/code/run_01jd2m4c9k7w6t0q8n5x3vbaeh")
        assert found.status_code == missing.status_code == 404


@pytest.mark.parametrize(
    ("wrong", "status"),
    [
        ({}, 422),
        ({"prompt": "x"}, 422),
        ({"repoUrl": "x", "prompt": ""}, 422),
        ({"repoUrl": "ext::sh -c id", "prompt": "x"}, 400),
        ({"repoUrl": "https://example.com/a", "prompt": "x", "maxCost": -1}, 422),
        ({"repoUrl": "https://example.com/a", "prompt": "x", "unknown": 1}, 422),
        ({"repoUrl": "https://example.com/a", "prompt": "x", "model": "nonsense"}, 400),
    ],
)
async def test_a_senseless_request_is_refused_at_once(api: Api, wrong: dict[str, Any], status: int) -> None:
    assert (await api.post("/api/code", json=wrong)).status_code == status


async def test_an_error_names_the_field_that_the_caller_knows(api: Api, tmp_path: Path) -> None:
    asked = {"repoUrl": str(repository(tmp_path / "repo")), "prompt": "x", "branch": "a\nb"}
    refused = await api.post("/api/code", json=asked)
    assert refused.status_code == 400 and refused.json()["detail"].startswith("A branch is one line")


async def test_only_owners_name_files_of_the_server(api: Api, tmp_path: Path) -> None:
    bob = await api.as_user("bob")
    local = {"repoUrl": str(repository(tmp_path / "repo")), "prompt": "x"}
    script = {"repoUrl": "https://example.com/a", "prompt": "x", "model": f"scripted:{tmp_path}/c.json"}
    url = {"repoUrl": f"file://{tmp_path}/repo", "prompt": "x"}
    for asked in (local, script, url):
        assert (await bob.post("/api/code", json=asked)).status_code == 403


async def test_a_request_is_counted_once_and_its_address_not_at_all(tmp_path: Path) -> None:
    """With two requests a minute: each of these would be refused if it counted twice."""
    repo, as_json = repository(tmp_path / "repo"), {"Accept": "application/json"}
    async with serving(tmp_path, server={"requests_per_minute": 2}) as api:
        asked = {"repoUrl": str(repo), "prompt": "Say something."}
        made = await api.post("/api/code", json=asked, headers=as_json)
        assert made.status_code == 200, made.text
        url = f"/api/code/{made.json()['run']}"
        assert (await api.get(url, headers=as_json)).json() == made.json()
        again, nobody = await api.as_user("owner"), await api.as_nobody()
        assert [(await again.get(url)).status_code for _ in range(2)] == [200, 200]
        another = await api.as_user("owner")
        said = [(await each.get(url)).status_code for each in (nobody, another, nobody, nobody)]
        assert said == [401, 200, 401, 429]


@contextmanager
def pages_read(api: Api) -> Iterator[list[tuple[Any, ...]]]:
    """Which pages of logs are read, by the parameters of their queries."""
    found: list[tuple[Any, ...]] = []

    def note(connection: Any, cursor: Any, statement: str, parameters: tuple[Any, ...], *more: Any) -> None:
        if statement.startswith("SELECT events."):
            found.append(parameters[:2])  # the log, and the number after which the page begins

    engine = api.server.log._database.engine  # type: ignore[attr-defined]
    event.listen(engine, "before_cursor_execute", note)
    try:
        yield found
    finally:
        event.remove(engine, "before_cursor_execute", note)


@pytest.mark.parametrize("accept", ["application/json", "text/event-stream"])
async def test_a_log_is_read_once(api: Api, tmp_path: Path, accept: str) -> None:
    asked = {"repoUrl": str(repository(tmp_path / "repo")), "prompt": "Say something."}
    made = (await api.post("/api/code", json=asked, headers={"Accept": "application/json"})).json()
    await api.until(made["session"], "idle", "parked")  # nothing else reads it then
    said = [MessageSent(author="user", text=str(number)) for number in range(500)]
    head = await api.server.log.append(SessionId(made["session"]), said)
    with pages_read(api) as pages:
        result = await api.get(f"/api/code/{made['run']}", headers={"Accept": accept})
    assert made["message"] in result.text
    begins = [after for _, after in pages if after < head.seq]
    assert begins == sorted(set(begins)) and len(begins) > 1
