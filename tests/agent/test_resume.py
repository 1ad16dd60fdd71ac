"""A run that was killed at any moment resumes from its log and repeats nothing."""

# ruff: noqa: ASYNC240 (nothing else is to be done meanwhile)

import random
import signal
import sys
from pathlib import Path

import pytest

from hutch.agent.conversation import INTERRUPTED
from hutch.domain.events import Entry, ModelReplied, RunEnded, ToolCalled, ToolReturned
from hutch.flows.run_execution.agent_work_and_tests import resume_run
from tests.agent.run_setups import entries, open_setup
from tests.agent.self_killing_run import REQUESTS, SESSION, TURNS
from tests.deadline import DEADLINE_S
from tests.forked_command import PLAIN, run

pytestmark = pytest.mark.anyio
ROOT = Path(__file__).resolve().parents[2]
LAST_DELTA, LAST_EVENT, LAST_COMMAND = 120, 45, TURNS


async def kill_and_resume(home: Path, moment: str, number: int) -> bool:
    """One round; whether the process was killed before it was done."""
    home.mkdir(exist_ok=True)
    ended = run(
        [sys.executable, "-m", "tests.agent.self_killing_run", str(home), moment, str(number)],
        env=PLAIN,
        cwd=ROOT,
        capture_output=True,
        timeout=DEADLINE_S,
    )
    assert ended.returncode in (0, -signal.SIGKILL), ended.stderr.decode()
    if not (home / SESSION).exists():
        return False  # too early: there is no log yet
    session_id = (home / SESSION).read_text()
    async with open_setup(home, REQUESTS, session_id) as setup:
        log = await entries(setup.recorder)
        if not any(entry.event.type == "run.started" for entry in log):
            return False
        before = {entry.event.call_id for entry in log if isinstance(entry.event, ToolReturned)}
        if not any(isinstance(entry.event, RunEnded) for entry in log):
            finished = await resume_run(setup, "run_1", log)
            assert finished.ended.outcome == "done"
        log = await entries(setup.recorder)
        ran = ((await setup.context.workspace.read_small("ran.txt")) or b"").decode().split()
    check(log, ran, before)
    return ended.returncode != 0


def check(log: list[Entry], ran: list[str], before: set[str]) -> None:
    events = [entry.event for entry in log]
    replies = [event for event in events if isinstance(event, ModelReplied)]
    called = [event.call_id for event in events if isinstance(event, ToolCalled)]
    returned = {event.call_id: event for event in events if isinstance(event, ToolReturned)}
    # Every turn happened once, and every call got exactly one result.
    assert [reply.turn for reply in replies] == list(range(1, TURNS + 2))
    call_ids = [call.id for reply in replies for call in reply.calls]
    assert sorted(returned) == sorted(call_ids)
    assert sum(isinstance(event, ToolReturned) for event in events) == len(call_ids)
    # No call was made twice.
    assert sorted(called) == sorted(set(called)) and before <= set(called)
    # Interrupted calls are reported as such. They were made once or not at all, the others once.
    assert len(ran) == len(set(ran))
    for reply in replies[:TURNS]:
        shell, read, patch = (returned[call.id] for call in reply.calls)
        interrupted = [each for each in (shell, read, patch) if each.text == INTERRUPTED]
        assert all(each.ok or each in interrupted for each in (shell, read, patch))
        assert f"bash_{reply.turn - 1}" in ran or shell in interrupted
    assert [event.outcome for event in events if isinstance(event, RunEnded)] == ["done"]


@pytest.mark.parametrize(
    ("moment", "number"),
    [
        ("stream", 3),  # in the first reply
        pytest.param("stream", 47, marks=pytest.mark.soak),
        ("append", 2),  # before the first reply is written
        pytest.param("append", 5, marks=pytest.mark.soak),
        pytest.param("written", 2, marks=pytest.mark.soak),
        ("written", 3),  # after a call was logged, before it is made
        pytest.param("written", 9, marks=pytest.mark.soak),
        ("tool", 1),
        ("any", 900),
    ],
)
async def test_a_killed_run_resumes(tmp_path: Path, moment: str, number: int) -> None:
    killed = await kill_and_resume(tmp_path / "home", moment, number)
    assert killed or moment == "any"


@pytest.mark.soak
async def test_killed_a_hundred_times(tmp_path: Path) -> None:
    rng, killed = random.Random(5), 0
    for number in range(100):
        moment, most = rng.choice(
            [
                ("stream", LAST_DELTA),
                ("append", LAST_EVENT // 2),
                ("written", LAST_EVENT),
                ("tool", LAST_COMMAND),
                ("any", 2000),
            ]
        )
        killed += await kill_and_resume(tmp_path / str(number), moment, rng.randrange(most))
    assert killed > 50
