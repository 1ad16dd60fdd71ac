"""Hostile text of a candidate in an interview: it stays text in the report, and hides no code from it."""

import json
from pathlib import Path
from uuid import UUID

import pytest

from tests.gateway.api_server import V1
from tests.gateway.interview_rooms import a_plan, a_room
from tests.gateway.test_interview_levels_and_report import run_tests

pytestmark = pytest.mark.anyio

OVERRIDE, NUL = "\u202e", "\0"
MARKUP = "</td></table><script>alert(1)</script><img src=//x.example/ onerror=f()>"
MARKUP += f"{OVERRIDE}{NUL}\x1b]0;x\x07"
EMOJI = "\U0001f98a\u0627" * 20_000
CODE = f"""\
def double(n):
    print("{"x" * 1000}" * 1000)
    raise ValueError("<script>" + chr(0x202E) + chr(0) + "A" * 1_000_000)
# {"y" * 1_000_000}
"""
UNREADABLE = (  # answered by an error of the client, not of the server
    '{"events": [{"type": "paste", "data": {"chars": NaN}}]}',
    '{"events": [{"type": "paste", "data": {"chars": 1e999}}]}',
    '{"events": [{"type": "paste", "data": {"chars": ' + "[" * 9_000 + "]" * 9_000 + "}}]}",
    '{"events": [{"type": "copy", "data": {"where": "\\ud800"}}]}',
)


async def test_the_text_of_a_candidate_stays_text_in_the_report(tmp_path: Path) -> None:
    plan = a_plan(first_level="copilot")
    async with a_room(tmp_path, plan, replies=({"text": MARKUP, "times": 100},)) as room:
        workspace = (await room.begin())["question"]["workspace"]
        files, inputs = f"{V1}/sessions/{workspace}/files", f"{V1}/sessions/{workspace}/inputs"
        await room.candidate.put(f"{files}/double.py", content=CODE.encode())
        for name in ("%3Cscript%3Ef()%3C%2Fscript%3E.py", "%E2%80%AEyp.evil.py", "a%0Ab.py"):
            put = await room.candidate.put(f"{files}/{name}", content=b"import os\n")
            assert put.status_code == 201, put.text
        for number in range(60):  # more than are measured, and before the others by name
            await room.candidate.put(f"{files}/a{number}.py", content=b"x = 1\n")
        for text in (MARKUP, EMOJI):
            given = await room.candidate.post(inputs, json={"type": "prompt", "text": text})
            assert given.status_code == 202, given.text
        await run_tests(room, workspace)
        batch = f"{room.path}/events/batch"
        for raw in UNREADABLE:
            answered = await room.candidate.post(batch, content=raw)
            assert 400 <= answered.status_code < 500, (raw[:80], answered.text)
        events = [
            {"type": "copy", "timestamp": MARKUP[:40], "data": {"chars": MARKUP, "where": MARKUP}},
            {"type": "paste", "timestamp": "0001-01-01T00:00:00+23:59", "data": {"chars": MARKUP}},
            {"type": "blur", "timestamp": "9999-12-31T23:59:59-23:59", "data": {NUL: {"a": [NUL]}}},
            {"type": "visibility", "data": {"state": {MARKUP: MARKUP}}},
            {"type": "test_run_start"},
        ]
        await room.post(room.candidate, "events/batch", 201, events=events)
        await room.api.until(workspace, "idle", "parked")
        await room.post(room.assessor, "marks", 201, number=1, mark="goal", points=1, comment=MARKUP)
        await room.post(room.candidate, "end")
        await room.until_event("interview.sealed")
        page = (await room.assessor.get(f"{room.path}/report.html")).text
        assert "&lt;script&gt;" in page
        for dangerous in ("<script", "<img", OVERRIDE, NUL, "\x1b"):
            assert dangerous not in page, dangerous
        document = await room.assessor.get(f"{room.path}/report.pdf")
        assert document.content.startswith(b"%PDF") and len(document.content) < 1_000_000
        assert b"/JavaScript" not in document.content and b"x.example" not in document.content
        report = (await room.assessor.get(f"{room.path}/report")).json()
        assert "Not counted: 1 file that is too large or no text, such as double.py, at " in page
        code = report["questions"][0]["workspaces"][0]["code"]
        assert "Not measured: " in code["problem"] and "double.py" in code["problem"], code["problem"]
        [session] = (await room.assessor.get(f"{room.path}/ai-sessions")).json()
        quality = (await room.assessor.get(f"{room.path}/ai-interaction-quality")).json()
        assert {each["aiSessionId"] for each in quality} == {session["id"]} == {str(UUID(session["id"]))}
        assert len({UUID(each["id"]) for each in quality}) == len(quality)
        [goal] = [each for each in quality if each["metricType"] == "prompt_goal"]
        assert goal["score"] == 1.0 and "Set by an assessor" in goal["description"]
        asked = {"question": "double"}
        compared = await room.assessor.get(f"{V1}/interview-comparison", params=asked)
        assert json.loads(compared.text)[0]["interview"] == room.id
