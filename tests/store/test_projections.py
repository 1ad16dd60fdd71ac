"""Rows that are folded from logs equal the logs: kept live, rebuilt, after erasures and after crashes."""

import asyncio
import random
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hutch.domain.events import ModelReplied, RunEnded, RunResumed, RunStarted, SessionOpened, ToolReturned
from hutch.domain.ids import SessionId, new_session_id
from hutch.store.event_log import SqlLog, open_log
from hutch.store.usage_totals import Usage
from tests.deadline import DEADLINE_S
from tests.hypothesis_examples import examples
from tests.new_database import place_database
from tests.store.usage_events import make_events, projector, read_folded, read_rows

STARTED = RunStarted(run_id="run_1", prompt="", persona="engineer", model="m:a")
REPLIED = ModelReplied(
    run_id="run_1", turn=1, input_tokens=100, cached_tokens=40, output_tokens=7, cost_usd=0.25
)
steps = st.lists(
    st.tuples(st.sampled_from(["append", "append", "erase", "erase all", "catch up"]), st.integers(0, 2**32)),
    min_size=1,
    max_size=14,
)


def open_at(home: Path):  # type: ignore[no-untyped-def]
    place_database(home)
    return open_log(home / "hutch.db", home / "blobs", home / "signing.pem")


@given(steps, st.integers(1, 7))
@settings(
    max_examples=examples(25),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
def test_live_rebuilt_and_folded_are_equal(made: list[tuple[str, int]], batch_events: int) -> None:
    async def run(home: Path) -> None:
        async with open_at(home) as log:
            folding = projector(log, batch_events=batch_events)
            ids = [new_session_id() for _ in range(3)]
            for number, session_id in enumerate(ids):
                await log.append(session_id, [SessionOpened(owner=f"usr_{number % 2}")])
            for step, seed in made:
                await _do(log, folding.catch_up, step, random.Random(seed), ids)
            await folding.catch_up()
            live = await read_rows(log)
            assert live == await read_folded(log)
            await folding.rebuild()
            assert await read_rows(log) == live
            assert await Usage(log).count_unprocessed() == 0

    with tempfile.TemporaryDirectory() as home:
        asyncio.run(run(Path(home)))


async def _do(log: SqlLog, catch_up, step: str, rng: random.Random, ids: list[SessionId]) -> None:  # type: ignore[no-untyped-def]
    session_id = rng.choice(ids)
    if step == "append":
        await log.append(session_id, make_events(rng, rng.randint(1, 12)))
    elif step == "erase":
        head = await log.head(session_id)
        await log.erase(session_id, {rng.randint(1, head.seq) for _ in range(3)}, reason="test")
    elif step == "erase all":
        await log.erase(session_id, None, reason="test")
    else:
        await catch_up()


@pytest.mark.anyio
async def test_what_is_counted(tmp_path: Path) -> None:
    async with open_at(tmp_path) as log:
        session_id = new_session_id()
        unpriced = ModelReplied(run_id="run_1", turn=2, input_tokens=10)
        failed = ToolReturned(run_id="run_1", call_id="c", tool="bash", ok=False, text="")
        ended = RunEnded(run_id="run_1", outcome="done", duration_s=2)
        opened = SessionOpened(owner="usr_ada")
        await log.append(session_id, [opened, STARTED, REPLIED, unpriced, failed, ended])
        resumed = RunResumed(run_id="run_1", model="m:b")
        again = RunEnded(run_id="run_1", outcome="done", duration_s=5)  # in all
        await log.append(session_id, [resumed, REPLIED, again])
        await log.usage_projector().catch_up()
        first, second = await Usage(log).page("model")
        assert (first.key, first.runs, first.turns, first.unpriced) == ("m:a", 1, 2, 1)
        assert (first.input_tokens, first.cached_tokens, first.output_tokens) == (110, 40, 7)
        assert (first.cost_usd, first.tool_calls, first.tool_errors, first.duration_s) == (0.25, 1, 1, 2)
        assert (second.key, second.runs, second.turns, second.duration_s) == ("m:b", 0, 1, 3)
        (whole,) = await Usage(log).page("user")
        assert (whole.key, whole.turns, whole.cost_usd, whole.duration_s) == ("usr_ada", 3, 0.5, 5)
        assert [each.key for each in await Usage(log).page("persona")] == ["engineer"]
        (day,) = await Usage(log).page("day")
        assert await Usage(log).page("day", first_day=day.key, last_day=day.key) == [day]
        assert await Usage(log).page("day", last_day="2001-01-01") == []


@pytest.mark.anyio
async def test_an_erasure_takes_its_session_out_at_once(tmp_path: Path) -> None:
    async with open_at(tmp_path) as log:
        session_id = new_session_id()
        await log.append(session_id, [SessionOpened(owner="usr_ada"), STARTED, REPLIED, REPLIED])
        folding = log.usage_projector()
        await folding.catch_up()
        assert [each.turns for each in await Usage(log).page("user")] == [2]
        await log.erase(session_id, [3], reason="a secret")
        assert await Usage(log).page("user") == []
        await folding.catch_up()
        assert [(each.runs, each.turns) for each in await Usage(log).page("user")] == [(1, 1)]
        await log.erase(session_id, None, reason="all of it")
        await folding.catch_up()
        assert await read_rows(log) == {}


@pytest.mark.anyio
async def test_appends_wake_it_and_it_begins_at_the_first_event(tmp_path: Path) -> None:
    async with open_at(tmp_path) as log:
        one, other = new_session_id(), new_session_id()
        await log.append(one, [SessionOpened(owner="usr_ada"), STARTED])
        task = asyncio.create_task(log.usage_projector().run())
        try:
            await _until(log, 1)
            await log.append(other, [SessionOpened(owner="usr_bob"), STARTED])
            await _until(log, 2)
        finally:
            task.cancel()
            await asyncio.wait([task])
        assert log.listeners == []


async def _until(log: SqlLog, rows: int) -> None:
    async with asyncio.timeout(DEADLINE_S):
        while len(await Usage(log).page("session")) < rows:  # noqa: ASYNC110  it reports no event
            await asyncio.sleep(0.02)


@pytest.mark.anyio
async def test_two_that_fold_at_once_count_once(tmp_path: Path) -> None:
    async with open_at(tmp_path) as log, open_at(tmp_path) as other:
        session_id = new_session_id()
        await log.append(session_id, [SessionOpened(owner="usr_ada"), *make_events(random.Random(1), 200)])
        folding = (projector(log, batch_events=3), projector(other, batch_events=5))
        await asyncio.gather(*(each.catch_up() for each in folding))
        assert await read_rows(log) == await read_folded(log) != {}


def test_a_process_that_is_killed_counts_nothing_twice_and_loses_nothing(tmp_path: Path) -> None:
    place_database(tmp_path)
    command = [sys.executable, "-m", "tests.store.projection_crashes", str(tmp_path), "8", "1"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
