"""The debugger in an interview: the candidate drives, the others watch, and a pause stops it too."""

from pathlib import Path

import pytest

from tests.gateway.api_server import V1
from tests.gateway.interview_rooms import a_plan, a_room

pytestmark = pytest.mark.anyio
CODE = b"total = 0\nfor number in range(3):\n    total += number\nprint(total)\n"


async def test_the_candidate_debugs_and_others_only_watch(tmp_path: Path) -> None:
    async with a_room(tmp_path, a_plan(hidden_results="nothing")) as room:
        workspace = (await room.begin())["question"]["workspace"]
        path = f"{V1}/sessions/{workspace}"
        debugger = f"{path}/debugger"
        await room.candidate.put(f"{path}/files/sum.py", content=CODE)
        lines = {"path": "sum.py", "breakpoints": [{"line": 3}]}
        assert (await room.candidate.put(f"{debugger}/breakpoints", json=lines)).status_code == 200
        wanted = {"path": "sum.py", "wait_s": 60}
        for other in (room.assessor, room.observer):
            assert (await other.post(debugger, json=wanted)).status_code == 403
        started = (await room.candidate.post(debugger, json=wanted)).json()
        assert (started["status"], started["frames"][0]["line"]) == ("stopped", 3), started
        for other in (room.assessor, room.observer):
            assert (await other.get(debugger)).json()["frames"] == started["frames"]
            assert (await other.get(f"{debugger}/variables")).json()["items"]
            assert (await other.post(f"{debugger}/drive")).status_code == 403
            evaluated = await other.post(f"{debugger}/evaluate", json={"expression": "open('x', 'w')"})
            assert evaluated.status_code == 403

        await room.post(room.assessor, "pause", reason="a question")
        acts = (("control", {"action": "next"}), ("evaluate", {"expression": "total"}), ("drive", None))
        for act, body in acts:
            refused = await room.candidate.post(f"{debugger}/{act}", json=body)
            assert refused.status_code == 403, (act, refused.text)
        assert (await room.candidate.get(debugger)).json()["status"] == "stopped"
        await room.post(room.assessor, "resume")
        stepped = await room.candidate.post(f"{debugger}/control", json={"action": "next", "wait_s": 60})
        assert stepped.json()["status"] == "stopped", stepped.text

        await room.post(room.candidate, "next", after=1)
        left = await room.candidate.post(f"{debugger}/evaluate", json={"expression": "total"})
        assert left.status_code == 404
        assert (await room.candidate.get(debugger)).status_code == 404
