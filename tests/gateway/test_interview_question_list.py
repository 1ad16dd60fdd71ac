"""The list of questions, for those who plan interviews."""

from pathlib import Path

import pytest

from tests.gateway.api_server import V1
from tests.gateway.interview_rooms import a_room

pytestmark = pytest.mark.anyio


async def test_those_who_plan_interviews_list_questions_and_nobody_else(tmp_path: Path) -> None:
    async with a_room(tmp_path) as room:
        (tmp_path / "bank" / "broken").mkdir()
        (tmp_path / "bank" / "broken" / "question.toml").write_text("id = 3")
        for client in (room.api, room.assessor):
            listed = await client.get(f"{V1}/questions")
            assert listed.status_code == 200, listed.text
            found = {each["id"]: each for each in listed.json()["items"]}
            assert found["double"]["languages"] == ["python", "javascript"]
            assert (found["double"]["title"], found["double"]["minutes"]) == ("Double a number", 10)
            assert "statement" not in found["double"]
            assert found["broken"]["problem"]
        for client in (room.candidate, room.observer):
            assert (await client.get(f"{V1}/questions")).status_code == 403
