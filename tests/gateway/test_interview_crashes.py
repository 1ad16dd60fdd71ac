"""A server that is killed between two questions is at the one or at the other, never between them."""

import asyncio
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from hutch.store.interviews import Interviews
from hutch.store.shares import Shares
from tests.gateway.api_server import V1, Api, serving

pytestmark = pytest.mark.anyio

ROOT = Path(__file__).parents[2]
KILL_AT_EVENT = """
import asyncio, os, signal, sys
from pathlib import Path
from tests.gateway.interview_rooms import a_room

place, type_, number = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])

def die(session_id, events):
    for event in events:
        if event.type == type_ and getattr(event, "number", number) == number:
            os.kill(os.getpid(), signal.SIGKILL)

async def main():
    async with a_room(place) as room:
        (place / "room").write_text(room.id)
        await room.post(room.candidate, "lobby")
        room.api.server.log.listeners.insert(0, die)
        await room.post(room.api, "begin")
        await room.post(room.candidate, "next", after=1)

asyncio.run(main())
"""


async def check(api: Api, room: str, number: int) -> None:
    """The row, the log and the shares agree that this question is the current one."""
    interview = await Interviews(api.server.rows).get(room)
    opened = [each for each in await api.events(room) if each["type"] == "question.opened"]
    assert (interview.number, opened[-1]["number"]) == (number, number)
    assert interview.workspace == opened[-1]["workspace"]
    shares = await Shares(api.server.rows).of_user(interview.candidate)
    assert {each.session_id for each in shares} == {room, interview.workspace}


@pytest.mark.parametrize(("killed_at", "number"), [("session.opened", 1), ("question.opened", 2)])
async def test_a_kill_leaves_one_question_or_the_other(tmp_path: Path, killed_at: str, number: int) -> None:
    # `session.opened`: the workspace of the next question exists, and its step is not taken.
    died = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-c", KILL_AT_EVENT, str(tmp_path), killed_at, str(number)],
        cwd=ROOT,
        capture_output=True,
        check=False,
    )
    assert died.returncode == -signal.SIGKILL, died.stderr.decode()[-2000:]
    room = (tmp_path / "room").read_text()
    async with serving(tmp_path, questions={"banks": [str(tmp_path / "bank")]}) as api:
        await check(api, room, number)
        candidate = await api.as_user("candidate", "candidate")
        answered = await candidate.post(f"{V1}/interviews/{room}/next", json={"after": number})
        assert answered.status_code == 200, answered.text
        if number == 1:
            await check(api, room, 2)
            opened = [each for each in await Interviews(api.server.rows).workspaces(room) if each.number == 2]
            assert len(opened) == 1  # the one that was opened before the kill
        else:
            assert answered.json()["phase"] == "ended"
