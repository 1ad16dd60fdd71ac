"""A candidate who cheats: what they could gain by requests that no page sends."""

from pathlib import Path

import pytest

from tests.gateway.api_server import V1, eventually
from tests.gateway.interview_rooms import a_room

pytestmark = pytest.mark.anyio


async def test_a_candidate_does_not_end_the_workspace(tmp_path: Path) -> None:
    async with a_room(tmp_path) as room:
        workspace = (await room.begin())["question"]["workspace"]
        path = f"{V1}/sessions/{workspace}"
        refused = await room.candidate.post(f"{path}/inputs", json={"type": "end"})
        assert refused.status_code == 403, refused.text
        ran = await room.candidate.post(f"{path}/commands", json={"command": "echo 1"})
        assert ran.json()["stdout"] == "1\n"


async def test_a_candidate_does_not_choose_options_of_the_model(tmp_path: Path) -> None:
    async with a_room(tmp_path) as room:
        workspace = (await room.begin())["question"]["workspace"]
        path = f"{V1}/sessions/{workspace}"
        prompt = {"type": "prompt", "text": "x", "generation": {"effort": "high"}}
        refused = await room.candidate.post(f"{path}/inputs", json=prompt)
        assert refused.status_code == 403, refused.text
        assert (await room.api.post(f"{path}/inputs", json=prompt)).status_code == 202


@pytest.mark.parametrize(
    "options", [{"limits": {"turns": 900}}, {"generation": {"effort": "high"}}, {"model": "other"}]
)
async def test_a_candidate_does_not_change_options_by_resuming_a_run(
    tmp_path: Path, options: dict[str, object]
) -> None:
    async with a_room(tmp_path) as room:
        workspace = (await room.begin())["question"]["workspace"]
        path = f"{V1}/sessions/{workspace}"
        before = (await room.api.get(path)).json()
        await room.candidate.give(workspace, type="pause")
        given = await room.candidate.give(workspace, type="prompt", text="x")

        async def run_id() -> str | None:
            found = (await room.api.get(f"{path}/runs")).json()["items"]
            return next((each["id"] for each in found if each["input"] == given["seq"]), None)

        resumed = f"{V1}/runs/{await eventually(run_id)}/resume"
        assert (await room.candidate.post(resumed, json=options)).status_code == 403
        after = (await room.api.get(path)).json()
        for name in ("limits", "generation", "model"):
            assert after[name] == before[name]
