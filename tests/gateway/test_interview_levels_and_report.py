"""Levels and help by the policy in a running interview, and the report. The clock is moved by the tests."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hutch.domain.ids import to_uuid
from hutch.flows.interviews.running_interview_watcher import InterviewWatch
from hutch.store.interview_record_bundle import verify_bundle
from hutch.store.sessions import Sessions
from hutch.system.clock_without_jumps import wall_ms
from tests.gateway.api_server import V1
from tests.gateway.interview_rooms import Room, a_plan, a_room

pytestmark = pytest.mark.anyio

EDIT = {
    "calls": [
        {"tool": "write_file", "args": {"path": "double.py", "content": "def double(n):\n    return 2 * n\n"}}
    ]
}
WRONG = b"def double(n):\n    return n\n"


class MovedClock:
    """A watch of its own over the server's interviews, with a clock that the test moves."""

    def __init__(self, room: Room) -> None:
        self.passed_s = 0.0
        interviews = replace(
            room.api.server.interviews,
            now_ms=lambda: wall_ms() + round(self.passed_s * 1000),
            wake=asyncio.Event(),
            changed=set(),
        )
        self.room, self.watch = room, InterviewWatch(interviews)

    async def move(self, seconds: float) -> None:
        """Move the clock in ticks of 10 seconds."""
        until = self.passed_s + seconds
        while self.passed_s < until:
            self.passed_s = min(until, self.passed_s + 10)
            await self.watch.tick()


@asynccontextmanager
async def moved_clock(room: Room) -> AsyncIterator[MovedClock]:
    clock = MovedClock(room)
    async with clock.watch.listening():
        yield clock


async def run_tests(room: Room, workspace: str) -> dict[str, Any]:
    ran = await room.candidate.post(f"{V1}/sessions/{workspace}/tests", json={"wait_s": 60})
    assert ran.status_code == 200, ran.text
    return dict(ran.json())


async def get_stuck(room: Room, clock: MovedClock, workspace: str) -> dict[str, Any] | None:
    """Fail again and again until a level is proposed; None if none is within ten minutes."""
    await clock.move(10)
    for _ in range(8):
        assert (await run_tests(room, workspace))["failed"]
        await clock.move(70)
        if proposed := await room.events(room.api, "level.proposed"):
            return proposed[0]
    return None


async def test_a_stuck_candidate_gets_more_help_when_an_assessor_agrees(tmp_path: Path) -> None:
    async with a_room(tmp_path) as room:
        workspace = (await room.begin())["question"]["workspace"]
        await room.candidate.put(f"{V1}/sessions/{workspace}/files/double.py", content=WRONG)
        async with moved_clock(room) as clock:
            proposed = await get_stuck(room, clock, workspace)
        assert proposed is not None
        assert (proposed["before"], proposed["level"], proposed["to"]) == ("consultant", "pair", "assessors")
        assert proposed["policy"] == room.api.server.interviews.policy.version
        assert proposed["parts"]["failing_run_count"] >= 3
        assert (await room.get(room.candidate))["proposal"] is None
        assert (await room.events(room.candidate, "level.proposed"))[0].get("withheld")
        path = f"proposals/{proposed['proposal']}"
        assert (await room.candidate.post(f"{room.path}/{path}", json={"accept": True})).status_code == 403
        shown = await room.get(room.assessor)
        assert shown["proposal"] == {"number": proposed["proposal"], "level": "pair"}
        changed = await room.post(room.assessor, path, accept=True)
        assert (changed["question"]["level"], changed["proposal"]) == ("pair", None)
        assert (await Sessions(room.api.server.rows).get(workspace)).persona == "pair"
        [event] = await room.events(room.candidate, "level.changed")
        assert (event["before"], event["level"], event["proposal"]) == (
            "consultant",
            "pair",
            proposed["proposal"],
        )
        again = await room.assessor.post(f"{room.path}/{path}", json={"accept": True})
        assert again.status_code == 409
        second = await room.post(room.candidate, "next", after=1)
        assert second["question"]["level"] == "consultant"


async def test_an_unattended_candidate_decides_and_takes_help(tmp_path: Path) -> None:
    plan = a_plan(attended=False, proactive_help=True)
    async with a_room(tmp_path, plan) as room:
        await room.post(room.candidate, "lobby")
        workspace = (await room.post(room.candidate, "begin"))["question"]["workspace"]
        await room.api.until(workspace, "idle", "parked")
        await room.candidate.put(f"{V1}/sessions/{workspace}/files/double.py", content=WRONG)
        async with moved_clock(room) as clock:
            await clock.move(10)
            for _ in range(4):
                await run_tests(room, workspace)
                await clock.move(20)
            offer = (await room.get(room.candidate))["offer"]
            assert offer["kind"] == "repeated_failure"
            await room.post(room.candidate, f"offers/{offer['number']}", accept=True)
            await room.until_event("help.accepted")
            proposed = await get_stuck(room, clock, workspace)
        assert proposed is not None and proposed["to"] == "candidate"
        declined = await room.post(room.candidate, f"proposals/{proposed['proposal']}", accept=False)
        assert (declined["question"]["level"], declined["proposal"]) == ("consultant", None)
        prompts = [each for each in await room.api.events(workspace) if each["type"] == "run.queued"]
        assert any("test runs keep failing" in each["prompt"] for each in prompts)


async def test_idling_alone_proposes_nothing(tmp_path: Path) -> None:
    async with a_room(tmp_path, a_plan(proactive_help=True)) as room:
        await room.begin()
        async with moved_clock(room) as clock:
            await clock.move(15 * 60)
        assert not await room.events(room.api, "level.proposed", "help.offered")


async def test_the_clock_stands_while_the_candidate_is_offline(tmp_path: Path) -> None:
    async with a_room(tmp_path, a_plan(minutes=30, max_credit_minutes=10)) as room:
        await room.begin()
        await room.post(room.candidate, "heartbeat")
        async with moved_clock(room) as clock:
            await clock.move(8 * 60)
            offline = await room.get(room.assessor)
            assert offline["clock"]["offline_since_ms"] is not None
            assert [each["type"] for each in await room.events(room.candidate)][
                -1
            ] == "candidate.disconnected"
            await clock.move(40 * 60)  # more than the allowance and the rest of the time
        ended = await room.events(room.candidate, "interview.ended")
        assert ended[0]["cause"] == "clock"
        assert 30 * 60_000 <= ended[0]["elapsed_ms"] <= 31 * 60_000
        assert (await room.get(room.assessor))["clock"]["credited_ms"] == 10 * 60_000


async def test_time_that_was_extended_is_there(tmp_path: Path) -> None:
    async with a_room(tmp_path, a_plan(minutes=20, extra_time_percent=50)) as room:
        await room.begin()
        await room.post(room.assessor, "extend", minutes=10, reason="the network failed")
        async with moved_clock(room) as clock:
            await clock.move(35 * 60)  # of 40, as the real time counts too
            assert (await room.get(room.api))["phase"] == "running"
            await clock.move(6 * 60)
        assert (await room.get(room.api))["phase"] == "ended"


def unlinked(content: list[dict[str, Any]]) -> list[str]:
    """The beginning of each sentence and row of a report that leads to no moment."""
    lines = [block["spans"] for block in content if block["kind"] == "paragraph"]
    lines += [[span for cell in row for span in cell] for block in content for row in block["rows"]]
    return [line[0]["text"][:18].strip() for line in lines if not any(span["path"] for span in line)]


def unmarked(work: dict[str, Any]) -> list[str]:
    """The rows of marks without evidence: there is no moment to lead to."""
    marks = [each for each in work["marks"] if not each["evidence"]]
    return [f"{each['name']}: {'–' if each['points'] is None else each['points']}"[:18] for each in marks]


async def test_the_report_shows_what_was_done_and_by_whom(tmp_path: Path) -> None:
    replies = (EDIT, {"text": "I wrote it.", "times": 100})
    plan = a_plan(first_level="copilot")
    async with a_room(tmp_path, plan, replies=replies) as room:
        workspace = (await room.begin())["question"]["workspace"]
        prompt = {"type": "prompt", "text": "Why does test_one fail? It should return twice the number."}
        await room.candidate.post(f"{V1}/sessions/{workspace}/inputs", json=prompt)

        await room.api.until(workspace, "idle", "parked")
        await run_tests(room, workspace)
        pasted = {"type": "paste", "timestamp": "2026-01-01T00:00:00Z", "data": {"chars": 12, "seq": -1}}
        await room.post(room.candidate, "events/batch", 201, events=[pasted])
        await room.post(room.assessor, "notes", 201, text="<b>careful</b> 王小明 محمد \U0001f98a")
        await room.post(room.assessor, "ratings", 201, number=1, criterion="Correctness", points=4)
        await room.post(room.assessor, "ratings", 201, number=1, criterion="Correctness", points=5)
        await room.post(room.assessor, "marks", 201, number=1, mark="goal", points=1, comment="vague")
        await room.post(room.candidate, "end")
        await room.until_event("interview.sealed")
        for path in ("report", "report.html", "report.pdf", "ai-sessions", "ai-interaction-quality"):
            for client in (room.candidate, room.observer):
                assert (await client.get(f"{room.path}/{path}")).status_code == 403
        report = (await room.assessor.get(f"{room.path}/report")).json()
        [question] = report["questions"]
        [work] = question["workspaces"]
        own = [each for each in work["tests"] if each["by"] == report["candidate"]]
        assert [(each["passed"], each["failed"], each["aided"]) for each in own] == [(1, 0, True)]
        assert work["authors"]["agent"] > 0
        assert work["ai"]["changed_files"] == 1
        assert work["pastes"][0]["data"]["chars"] == 12 and work["pastes"][0]["seq"] > 0
        assert [each["points"] for each in question["ratings"]] == [5]
        [goal] = [each for each in work["marks"] if each["name"] == "goal"]
        assert (goal["points"], goal["computed"]) == (1, 2)
        assert question["hidden_tests"][0]["passed"] == 2
        code = work["code"]
        assert code["linter"] == "ruff" and code["added_lines"] == 1 and code["problem"] == ""
        assert [(each["name"], each["complexity"]) for each in code["functions"]] == [("double", 1)]
        assert code["authors"]["agent"]["lines"] == 1
        for client in (room.candidate, room.observer):
            [hidden] = await room.events(client, "code.measured")
            assert hidden.get("withheld") and "functions" not in hidden
        asked = {"question": "double"}
        [row] = (await room.assessor.get(f"{V1}/interview-comparison", params=asked)).json()
        assert (row["interview"], row["hidden_passed"], row["ai_chars"] > 0) == (room.id, 2, True)
        assert (await room.observer.get(f"{V1}/interview-comparison", params=asked)).json() == []
        assert (await room.candidate.get(f"{V1}/interview-comparison", params=asked)).status_code == 403
        page = (await room.assessor.get(f"{room.path}/report.html")).text
        assert "&lt;b&gt;careful&lt;/b&gt; 王小明" in page and "<b>" not in page
        opened = f"/s/{workspace}/play?at={own[0]['seq']}"
        assert (
            f'{opened}">#{own[0]["seq"]}</a>' in page
            and room.id in report["content"][2]["rows"][0][2][0]["path"]
        )
        notes = ["Facts for a person", "Reported by the ca", "Credited for time"]
        assert unlinked(report["content"]) == [*notes, *unmarked(work)]
        assert work["pastes"][0]["before"]["what"] == "ran the tests: 1 passed, 0 failed"
        document = await room.assessor.get(f"{room.path}/report.pdf")
        assert document.content.startswith(b"%PDF") and len(document.content) < 200_000
        assert f"{opened}".encode() in document.content  # links are not compressed
        [session] = (await room.assessor.get(f"{room.path}/ai-sessions")).json()
        assert session["initialHelpfulness"] == session["currentHelpfulness"] == "full-copilot"
        assert (session["fileModificationsCount"], session["workspace"]) == (1, workspace)
        assert session["sessionRecordingId"] == str(to_uuid(room.id))
        quality = (await room.assessor.get(f"{room.path}/ai-interaction-quality")).json()
        assert {each["aiSessionId"] for each in quality} == {session["id"]} == {str(to_uuid(workspace))}
        assert "prompt_verification" in {each["metricType"] for each in quality}


async def test_after_its_retention_the_content_is_gone_and_the_proof_stays(tmp_path: Path) -> None:
    async with a_room(tmp_path, a_plan(retention_days=1, company="Zwiebelfisch")) as room:
        workspace = (await room.begin())["question"]["workspace"]
        await room.candidate.put(f"{V1}/sessions/{workspace}/files/double.py", content=WRONG)
        await room.post(room.assessor, "notes", 201, text="remembers Zwiebelfisch")
        await room.post(room.assessor, "end")
        await room.until_event("interview.sealed")
        async with moved_clock(room) as clock:
            clock.passed_s = 20 * 3600
            await clock.watch.tick()
            assert "Zwiebelfisch" in json.dumps(await room.events(room.api))
            clock.passed_s = 25 * 3600
            await clock.watch.tick()
        record = tmp_path / "record.zip"
        record.write_bytes((await room.api.get(f"{room.path}/record")).content)
        shown = json.dumps(await room.events(room.api)) + (await room.api.get(room.path)).text
        assert "Zwiebelfisch" not in shown
        assert (await room.api.get(f"{V1}/sessions/{workspace}/files/double.py")).status_code == 404
    report = verify_bundle(record)
    assert report.ok and report.sealed and all(each.erased for each in report.records), report
    assert all("retention of 1 days" in each.warnings[-1] for each in report.records), report
