"""Candidates run the tests of a question in its language, with the toolchain that the lobby promises."""

from pathlib import Path
from typing import Any

import pytest

from hutch.flows.code_execution.language_toolchains import find_language_toolchains
from tests.gateway.api_server import V1, eventually, serving
from tests.gateway.interview_rooms import a_plan, new_room

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    ("language", "program"),
    [("typescript", "node"), pytest.param("go", "go", marks=pytest.mark.soak)],  # compiles Go's library
)
async def test_a_candidate_runs_the_tests_of_a_question(tmp_path: Path, language: str, program: str) -> None:
    async with serving(tmp_path) as api:
        room = await new_room(api, a_plan(questions=[{"id": "rate-limiter", "language": language}]))
        workspace = f"{V1}/sessions/{(await room.begin())['question']['workspace']}"
        seen = await room.candidate.post(f"{workspace}/commands", json={"command": f"command -v {program}"})
        expected = find_language_toolchains().get(language)  # type: ignore[arg-type]
        assert seen.json()["stdout"].strip() == expected.program
        started = await room.candidate.post(f"{workspace}/tests", json={"wait_s": 0})
        assert started.status_code in (200, 202), started.text

        async def ended() -> dict[str, Any] | None:
            found: dict[str, Any] = (await room.candidate.get(f"{workspace}/tests")).json()["items"][0]
            return found if found["state"] != "running" else None

        result = await eventually(ended)
    assert (result["state"], result["failed"] > 0) == ("failed", True), result
