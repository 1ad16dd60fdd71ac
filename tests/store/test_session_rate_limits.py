"""The rate of one session, also for messages that become runs later."""

import pytest

from hutch.domain.errors import TooManyRequests
from hutch.domain.ids import SessionId, new_run_id
from hutch.domain.session import QueuedRun
from hutch.store.event_log import SqlLog
from hutch.store.message_and_run_rate_limits import SessionRates
from hutch.store.session_inputs import Inputs
from hutch.system.clock_without_jumps import wall_ms
from tests.store.test_session_inputs import session

pytestmark = pytest.mark.anyio

RATES = SessionRates(messages_per_minute=3, runs_per_hour=2)


def run(id: SessionId, queued_ms: int, input: int = 0) -> QueuedRun:
    return QueuedRun(id=new_run_id(), session_id=id, owner="ada", queued_ms=queued_ms, input=input)


async def give(log: SqlLog, id: SessionId, kind: str) -> None:
    body = f'{{"type":"{kind}","text":"x"}}'
    await Inputs(log).add(id, "ada", body, max_unprocessed=100, rates=RATES)


async def test_messages_count_and_answers_do_not(log: SqlLog) -> None:
    one, other = await session(log), await session(log)
    await log.change(lambda db: None)
    await Inputs(log).queue_run(run(one, wall_ms()))  # a run at work: messages start none
    for kind in ("message", "approve", "message", "cancel", "message"):
        await give(log, one, kind)
    with pytest.raises(TooManyRequests) as error:
        await give(log, one, "message")
    assert error.value.limit == "sessions.messages_per_minute" and 1 <= error.value.retry_after_s <= 60
    await give(log, one, "answer")
    await give(log, other, "message")  # each session has its own


async def test_prompts_that_wait_count_as_runs(log: SqlLog) -> None:
    one = await session(log)
    await Inputs(log).queue_run(run(one, wall_ms() - 1_800_000))
    await give(log, one, "prompt")
    with pytest.raises(TooManyRequests) as error:
        await give(log, one, "prompt")
    assert error.value.limit == "sessions.runs_per_hour" and 1700 < error.value.retry_after_s <= 1800


async def test_a_late_message_starts_no_run_over_the_limit(log: SqlLog) -> None:
    one = await session(log)
    for _ in range(2):
        await Inputs(log).queue_run(run(one, wall_ms()), RATES)
    with pytest.raises(TooManyRequests):
        await Inputs(log).queue_run(run(one, wall_ms()), RATES)
    await Inputs(log).queue_run(run(one, wall_ms()))  # without limits


async def test_runs_of_the_last_hour_are_forgotten(log: SqlLog) -> None:
    one = await session(log)
    for _ in range(3):
        await Inputs(log).queue_run(run(one, wall_ms() - 3_600_001))
    await Inputs(log).queue_run(run(one, wall_ms()), RATES)
