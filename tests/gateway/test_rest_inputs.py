"""Inputs over HTTP, and the events that they cause."""

import asyncio
import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.cli.hutch_up_process import HUTCH
from tests.gateway.api_server import V1, Api, serving

pytestmark = pytest.mark.anyio


async def test_a_prompt_is_processed_and_its_result_is_in_the_log(api: Api) -> None:
    session = await api.ready_session()
    given = await api.post(f"{V1}/sessions/{session}/inputs", json={"type": "prompt", "text": "Go on"})
    assert (given.status_code, given.json()["seq"]) == (202, 1)
    assert given.json()["input"] == {"type": "prompt", "text": "Go on", "generation": None}
    [run] = (await api.get(f"{V1}/sessions/{session}/runs")).json()["items"]
    assert (given.json()["run_id"], run["input"]) == (run["id"], 1)
    await api.until(session, "idle")
    events = await api.events(session)
    taken = [each for each in events if each["type"] == "input.processed"]
    assert [(each["input"], each["kind"]) for each in taken] == [(1, "prompt")]
    assert [each["outcome"] for each in events if each["type"] == "run.ended"] == ["done"]
    [kept] = (await api.get(f"{V1}/sessions/{session}/inputs")).json()["items"]
    assert (kept["processed"], kept["input"]["text"], kept["run_id"]) == (True, "Go on", run["id"])


async def test_a_repeated_prompt_returns_the_same_run(api: Api) -> None:
    session = await api.ready_session()
    asked = {"json": {"type": "message", "text": "Go on"}, "headers": {"Idempotency-Key": "the-same"}}
    first, second = [await api.post(f"{V1}/sessions/{session}/inputs", **asked) for _ in range(2)]
    assert first.json()["run_id"].startswith("run_") and second.json() == first.json()
    paused = await api.give(session, type="pause")
    assert paused["run_id"] is None


async def test_inputs_come_in_pages(api: Api) -> None:
    session = await api.ready_session()
    for number in range(5):
        await api.give(session, type="message", text=f"{number}")
    found, url = [], f"{V1}/sessions/{session}/inputs?limit=2"
    while url:
        page = await api.get(url)
        found += [each["input"]["text"] for each in page.json()["items"]]
        url = page.links.get("next", {}).get("url", "")
    assert found == ["0", "1", "2", "3", "4"]


async def test_events_come_in_pages_each_with_its_hash(api: Api) -> None:
    session = await api.ready_session(prompt="Say it")
    whole = (await api.get(f"{V1}/sessions/{session}/events")).json()
    found, url = [], f"{V1}/sessions/{session}/events?limit=2"
    while url:
        page = await api.get(url)
        assert len(page.json()["items"]) <= 2
        found += page.json()["items"]
        url = page.links.get("next", {}).get("url", "")
    assert found == whole["items"]
    assert [each["seq"] for each in found] == list(range(1, len(found) + 1))
    entries = await api.server.log.read(session)
    assert [each["hash"] for each in found] == [entry.hash for entry in entries]
    beyond = await api.get(f"{V1}/sessions/{session}/events?after=99999")
    assert beyond.json() == {"items": [], "next": None}
    for query in ("after=-1", "after=99999999999999999999", "limit=0", "limit=100000", "after=x"):
        assert (await api.get(f"{V1}/sessions/{session}/events?{query}")).status_code == 422, query


async def test_an_erased_event_is_marked_as_such(api: Api) -> None:
    session = await api.ready_session(prompt="Say it")
    await api.server.log.erase(session, [2], reason="it was private")
    erased = (await api.events(session))[1]
    del erased["erased_at_ms"]
    assert erased == {"type": "run.queued", "erased": True, "reason": "it was private"}


async def test_events_come_as_a_stream_from_the_same_address(api: Api) -> None:
    session = await api.ready_session(prompt="Say it")
    url = f"{V1}/sessions/{session}/events?after=1"
    async with api.stream("GET", url, headers={"Accept": "text/event-stream"}) as stream:
        assert stream.headers["content-type"].startswith("text/event-stream")
        async for line in stream.aiter_lines():
            if line.startswith("id:"):
                assert line == "id: 2"
                break


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"type": "dance"},
        {"type": "prompt"},
        {"type": "prompt", "text": ""},
        {"type": "prompt", "text": "x" * 200_001},
        {"type": "prompt", "text": "x", "more": 1},
        {"type": "approve", "call_id": "x", "scope": "everything"},
        [],
        "prompt",
        None,
    ],
    ids=repr,
)
async def test_an_invalid_input_is_refused(api: Api, body: object) -> None:
    session = await api.ready_session()
    refused = await api.post(f"{V1}/sessions/{session}/inputs", json=body)
    assert (refused.status_code, refused.json()["code"]) == (422, "invalid")
    assert refused.json()["errors"]


@pytest.mark.parametrize("type", ["resume", "approve", "answer"])
async def test_an_input_that_does_not_fit_is_a_conflict(api: Api, type: str) -> None:
    session = await api.ready_session()
    more = {"resume": {}, "approve": {"call_id": "x"}, "answer": {"call_id": "x", "text": "y"}}[type]
    refused = await api.post(f"{V1}/sessions/{session}/inputs", json={"type": type, **more})
    assert (refused.status_code, refused.json()["code"]) == (409, "conflict")


async def test_an_ended_session_refuses_inputs_and_can_be_read(api: Api) -> None:
    session = await api.ready_session()
    await api.put(f"{V1}/sessions/{session}/files/a.txt", content=b"a")
    await api.give(session, type="end", reason="enough")
    await api.until(session, "ended")
    url = f"{V1}/sessions/{session}"
    for path, body in (("inputs", {"type": "prompt", "text": "x"}), ("commands", {"command": "true"})):
        refused = await api.post(f"{url}/{path}", json=body)
        assert (refused.status_code, refused.json()["code"]) == (409, "conflict"), path
    assert (await api.put(f"{url}/files/a.txt", content=b"b")).status_code == 409
    assert (await api.get(f"{url}/files/a.txt")).content == b"a"
    assert (await api.events(session))[-1]["type"] == "session.ended"


async def test_an_approval_is_asked_for_and_given(tmp_path: Path) -> None:
    replies = [
        {"calls": [{"tool": "bash", "args": {"command": "echo hello > said"}, "id": "call_1"}]},
        {"text": "Done.", "times": 100},
    ]
    async with serving(tmp_path, replies=replies) as api:
        session = (await api.new_session(persona="pair", prompt="Say hello in a file"))["id"]
        await api.until(session, "waiting")
        asked = [each for each in await api.events(session) if each["type"] == "approval.requested"]
        await api.give(session, type="approve", call_id=asked[0]["call_id"], scope="once")
        await api.until(session, "idle")
        assert (await api.get(f"{V1}/sessions/{session}/files/said")).content == b"hello\n"


TOUCHES = {"calls": [{"tool": "bash", "args": {"command": "touch said"}}]}


async def test_permanent_approvals_are_the_users_own_in_every_session(tmp_path: Path) -> None:
    async with serving(tmp_path, replies=[TOUCHES, {"text": "Done.", "times": 100}]) as api:
        ada, bob = await api.as_user("ada"), await api.as_user("bob")

        async def begin(user: Api) -> tuple[str, list[str]]:
            """A session whose agent asks or does it, and the questions."""
            session = (await user.new_session(persona="pair", prompt="Make the file"))["id"]
            await user.until(session, "waiting", "idle")
            events = await user.events(session)
            return session, [each["call_id"] for each in events if each["type"] == "approval.requested"]

        session, [call_id] = await begin(ada)
        await ada.give(session, type="approve", call_id=call_id, scope="always")
        await ada.until(session, "idle")
        given = [each for each in await ada.events(session) if each["type"] == "approval.answered"]
        assert [(each["allowed"], each["scope"]) for each in given] == [(True, "always")]
        session, asked = await begin(ada)
        assert asked == []
        assert (await ada.get(f"{V1}/sessions/{session}/files/said")).status_code == 200
        for other in (bob, api):
            assert len((await begin(other))[1]) == 1
            assert (await other.get(f"{V1}/me/approvals")).json() == {"items": [], "next": None}
        [rule] = (await ada.get(f"{V1}/me/approvals")).json()["items"]
        assert rule["tool"] == "bash"
        listed = [HUTCH, "approvals", "list", "--json", "--user", "ada"]
        home = {"HUTCH_HOME": str(tmp_path / "home"), "PATH": os.environ["PATH"]}
        result = await asyncio.to_thread(subprocess.check_output, listed, env=home)
        assert json.loads(result) == [rule]
        session, [call_id] = await begin(api)  # the installation's first owner: the user of this machine
        await api.give(session, type="approve", call_id=call_id, scope="always")
        await api.until(session, "idle")
        result = await asyncio.to_thread(subprocess.check_output, listed[:4], env=home)
        assert json.loads(result) == (await api.get(f"{V1}/me/approvals")).json()["items"] == [rule]
        assert (await bob.delete(f"{V1}/me/approvals", params=rule)).status_code == 404
        assert (await ada.delete(f"{V1}/me/approvals", params=rule)).status_code == 204
        assert (await ada.get(f"{V1}/me/approvals")).json()["items"] == []
        assert len((await begin(ada))[1]) == 1


async def test_permanent_approvals_of_a_guest_belong_to_the_guest(tmp_path: Path) -> None:
    async with serving(tmp_path, replies=[TOUCHES, {"text": "Done.", "times": 100}]) as api:
        ada, guest = await api.as_user("ada"), await api.as_user("guest")
        session = (await ada.new_session(persona="pair", prompt="Make the file"))["id"]
        await ada.until(session, "waiting")
        await ada.put(f"{V1}/sessions/{session}/shares/guest", json={"role": "member"})
        [asked] = [each for each in await ada.events(session) if each["type"] == "approval.requested"]
        await guest.give(session, type="approve", call_id=asked["call_id"], scope="always")
        await ada.until(session, "idle")
        kept = [(await each.get(f"{V1}/me/approvals")).json()["items"] for each in (ada, guest)]
        assert [len(each) for each in kept] == [0, 1]


async def test_the_log_is_read_from_its_end(api: Api) -> None:
    session_id = await api.ready_session()
    whole = await api.events(session_id)
    found: list[dict[str, Any]] = []
    link: int | None = 9_999
    while link is not None:
        asked = await api.get(f"{V1}/sessions/{session_id}/events", params={"before": link, "limit": 2})
        assert asked.status_code == 200, asked.text
        found = [entry["event"] for entry in asked.json()["items"]] + found
        link = asked.json()["next"]
        assert (link is None) == ("link" not in asked.headers)
    assert found == whole
    both = await api.get(f"{V1}/sessions/{session_id}/events", params={"before": 3, "after": 1})
    assert both.status_code == 400 and "only one of" in both.json()["detail"]
    stranger = await api.as_user("bob")
    hidden = await stranger.get(f"{V1}/sessions/{session_id}/events", params={"before": 3})
    assert hidden.status_code == 404
