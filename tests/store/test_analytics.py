"""The analytics equal the log: kept live, rebuilt, after erasures, for each kind of viewer, to the cent."""

import asyncio
import random
import tempfile
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import Connection, insert, select

from hutch.domain.events import (
    ApprovalAnswered,
    ChangeProposed,
    CommandEnded,
    EgressAttempted,
    Event,
    MessageSent,
    ModelReplied,
    RunEnded,
    RunQueued,
    RunStarted,
    SessionOpened,
    SessionPrepared,
    ToolReturned,
)
from hutch.domain.ids import SessionId, new_session_id
from hutch.domain.task_assignment import TaskAssignment
from hutch.flows.analytics.report_columns import percentile_s
from hutch.flows.analytics.reports import ReportRequest, report_for
from hutch.flows.analytics.spend_forecast import forecast_month, month_of
from hutch.store.analytics_from_events import Histogram, bin_of
from hutch.store.analytics_projection import DAY_MS, HOUR_MS, prune_analytics
from hutch.store.analytics_queries import Analytics, Window
from hutch.store.analytics_tables import (
    analytics_counts,
    analytics_latencies,
    analytics_session_counts,
    analytics_session_latencies,
    analytics_sessions,
)
from hutch.store.event_log import SqlLog, open_log
from hutch.store.schema import sessions
from hutch.store.task_assignments import _row
from hutch.store.task_tables import task_assignments, task_links
from hutch.system.clock_without_jumps import wall_ms
from tests.hypothesis_examples import examples
from tests.new_database import place_database
from tests.store.usage_events import make_events

TABLES = (
    analytics_sessions,
    analytics_counts,
    analytics_latencies,
    analytics_session_counts,
    analytics_session_latencies,
)
steps = st.lists(
    st.tuples(st.sampled_from(["append", "append", "erase", "erase all", "catch up"]), st.integers(0, 2**32)),
    min_size=1,
    max_size=12,
)


def open_at(home: Path):  # type: ignore[no-untyped-def]
    place_database(home)
    return open_log(home / "hutch.db", home / "blobs", home / "signing.pem")


async def read_rows(log: SqlLog) -> list[list[tuple[object, ...]]]:
    return await log.fetch(
        lambda connection: [sorted(map(tuple, connection.execute(select(table)))) for table in TABLES]
    )


def today(**more: object) -> Window:
    now_ms = wall_ms()
    return Window(DAY_MS, now_ms - now_ms % DAY_MS - DAY_MS, now_ms + DAY_MS, **more)  # type: ignore[arg-type]


async def sum_log(log: SqlLog) -> Counter[str]:
    """Cost and tokens, by adding up the events of every log one by one."""
    sums: Counter[str] = Counter()
    for head in await log.heads(limit=1000):
        after = 0
        while page := await log.read(head.session_id, after=after):
            after = page[-1].seq
            for event in (entry.event for entry in page):
                if getattr(event, "type", "") in ("model.replied", "context.compacted") and hasattr(
                    event, "cost_usd"
                ):
                    sums["cost_nano_usd"] += round((event.cost_usd or 0) * 1_000_000_000)
                    sums["unpriced"] += event.cost_usd is None
                    sums["input_tokens"] += event.input_tokens
                sums["runs"] += isinstance(event, RunStarted)
                sums["tool_errors"] += isinstance(event, ToolReturned) and not event.ok
    return sums


@given(steps, st.integers(1, 7))
@settings(
    max_examples=examples(15),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
def test_live_rebuilt_and_the_log_are_equal(made: list[tuple[str, int]], batch_events: int) -> None:
    async def run(home: Path) -> None:
        async with open_at(home) as log:
            folding = log.analytics_projector(batch_events=batch_events)
            ids = [new_session_id() for _ in range(3)]
            for number, session_id in enumerate(ids):
                await log.append(session_id, [SessionOpened(owner=f"usr_{number % 2}")])
            for step, seed in made:
                await _do(log, folding.catch_up, step, random.Random(seed), ids)
            await folding.catch_up()
            live = await read_rows(log)
            for group in ("all", "model", "user", "session"):
                rows = await Analytics(log).counts(today(), group)  # type: ignore[arg-type]
                for name, amount in (await sum_log(log)).items():
                    assert sum(row.counts[name] for row in rows) == amount, (group, name)
            await folding.rebuild()
            assert await read_rows(log) == live

    with tempfile.TemporaryDirectory() as home:
        asyncio.run(run(Path(home)))


async def _do(log: SqlLog, catch_up, step: str, rng: random.Random, ids: list[SessionId]) -> None:  # type: ignore[no-untyped-def]
    session_id = rng.choice(ids)
    if step == "append":
        proposed = ChangeProposed(change_id="c", branch="b", base="m", commit="1", title="", url="")
        prepared = SessionPrepared(workspace="w", source=f"/srv/{rng.choice('ab')}", commit="1", duration_s=1)
        extra: list[Event] = [proposed, prepared, RunQueued(run_id="run_1", prompt="")]
        await log.append(session_id, [*make_events(rng, rng.randint(1, 12)), rng.choice(extra)])
    elif step == "erase":
        head = await log.head(session_id)
        await log.erase(session_id, {rng.randint(1, head.seq) for _ in range(3)}, reason="test")
    elif step == "erase all":
        await log.erase(session_id, None, reason="test")
    else:
        await catch_up()


@pytest.mark.anyio
async def test_each_event_is_counted_once_where_it_belongs(tmp_path: Path) -> None:
    async with open_at(tmp_path) as log:
        one, other = new_session_id(), new_session_id()
        reply = ModelReplied(
            run_id="r",
            turn=1,
            input_tokens=100,
            cached_tokens=40,
            cost_usd=0.1,
            attempts=3,
            duration_s=2,
            first_token_s=0.5,
        )
        work = [
            RunQueued(run_id="r", prompt=""),
            RunStarted(run_id="r", prompt="", persona="engineer", model="m:a", jail_s=0.08),
            *(reply for _ in range(3)),
            ToolReturned(run_id="r", call_id="c", tool="bash", ok=False, text="", duration_s=1, rule="no"),
            ApprovalAnswered(call_id="c", allowed=False, by="usr_a"),
            MessageSent(author="user", text="no"),
            MessageSent(author="hutch", text="not a person"),
            CommandEnded(command="x", cwd="/", exit_code=None, timed_out=True, duration_s=9),
            EgressAttempted(method="CONNECT", host="evil", port=443, allowed=False),
            ChangeProposed(change_id="c", branch="b", base="m", commit="1", title="", url=""),
            RunEnded(run_id="r", outcome="failed", code="unavailable", duration_s=4),
            RunQueued(run_id="r2", prompt=""),
        ]
        for session_id, owner, source in ((one, "usr_a", "/srv/x"), (other, "usr_b", "/srv/y")):
            prepared = SessionPrepared(workspace="w", source=source, commit="1", duration_s=1)
            await log.append(session_id, [SessionOpened(owner=owner), prepared, *work])
        await log.analytics_projector().catch_up()
        found = Analytics(log)
        (row,) = await found.counts(today(repository="/srv/x"), "all")
        expected = {
            "runs": 1,
            "runs_failed": 1,
            "provider_errors": 1,
            "duration_ms": 4000,
            "turns": 3,
            "retries": 6,
            "input_tokens": 300,
            "cached_tokens": 120,
            "cost_nano_usd": 300_000_000,
            "tool_calls": 1,
            "tool_errors": 1,
            "denials": 2,
            "egress_denied": 1,
            "command_timeouts": 1,
            "interventions": 3,
            "proposals": 1,
        }
        assert {name: count for name, count in row.counts.items() if count} == expected
        latencies = {row.key: row.counts["count"] for row in await found.latencies(today(viewer="usr_b"))}
        assert latencies == {
            "prepare/": 1,
            "jail/": 1,
            "model/m:a": 3,
            "first_token/m:a": 3,
            "tool/bash": 1,
            "change/": 1,
        }
        assert [row.key for row in await found.counts(today(viewer="usr_b"), "session")] == [other]
        assert await found.counts(today(viewer="usr_c"), "model") == []
        (outcome,) = await found.outcomes(today(user="usr_a"), "user")
        assert (
            outcome.counts["sessions"],
            outcome.counts["with_change"],
            outcome.counts["interventions"],
        ) == (1, 1, 3)
        _, _, _, opened_ms, prompted_ms, proposed_ms = next(
            row for row in (await read_rows(log))[0] if row[1] == "usr_a"
        )
        assert outcome.counts["change_ms"] == proposed_ms - prompted_ms  # type: ignore[operator]
        assert opened_ms <= prompted_ms  # type: ignore[operator]


def helper_of(parent: SessionId | str, id: SessionId) -> dict[str, object]:
    """A row of `sessions` for a helper."""
    given = {"id": str(id), "parent": str(parent), "owner": "usr_a", "state": "ended"}
    return {column.name: given.get(column.name, column.type.python_type()) for column in sessions.c}


@pytest.mark.anyio
async def test_the_cost_of_helpers_is_that_of_their_session_and_its_task(tmp_path: Path) -> None:
    async with open_at(tmp_path) as log:
        top, helper, below, other = (new_session_id() for _ in range(4))
        started = RunStarted(run_id="r", prompt="", persona="engineer", model="m:a")
        queued = RunQueued(run_id="r", prompt="")
        for session_id in (top, helper, below, other):
            prepared = SessionPrepared(workspace="w", source="/srv/x", commit="1", duration_s=1)
            reply = ModelReplied(run_id="r", turn=1, cost_usd=1)
            await log.append(session_id, [SessionOpened(owner="usr_a"), prepared, queued, started, reply])
        # A review asked for changes: its prompt comes from the queue of tasks. Then a person asks, too.
        await log.append(top, [RunQueued(run_id="r2", prompt=""), RunQueued(run_id="r3", prompt="")])
        await log.analytics_projector().catch_up()

        def write(connection: Connection) -> None:
            connection.execute(insert(sessions), [helper_of(top, helper), helper_of(helper, below)])
            link = {"task_id": "tsk_1", "kind": "session", "target": str(top), "by": "", "at_ms": 1}
            connection.execute(insert(task_links).values(link))

        await log.change(write)
        work = TaskAssignment(
            **dict.fromkeys(("repository", "address", "persona", "assigned_by"), "x"),
            id="asg_1",
            task_id="tsk_1",
            state="done",
            session_id=str(top),
            reworks=1,
            created_ms=1,
            updated_ms=1,
        )
        await log.change(lambda connection: connection.execute(insert(task_assignments).values(_row(work))))
        found = Analytics(log)
        (of_task,) = await found.counts(today(), "task")
        assert (of_task.key, of_task.counts["cost_nano_usd"]) == ("tsk_1", 3_000_000_000)
        outcomes = {row.key: row.counts for row in await found.outcomes(today(), "session")}
        costs = {key: counts["cost_nano_usd"] for key, counts in outcomes.items()}
        assert costs == {str(top): 3_000_000_000, str(other): 1_000_000_000}
        assert outcomes[str(top)]["interventions"] == 1
        (by_task,) = await found.outcomes(today(), "task")
        assert (by_task.key, by_task.counts["cost_nano_usd"]) == ("tsk_1", 3_000_000_000)
        (whole,) = await found.outcomes(today(), "all")
        assert (whole.counts["sessions"], whole.counts["cost_nano_usd"]) == (2, 4_000_000_000)


@pytest.mark.anyio
async def test_a_repository_is_one_however_its_address_is_written(tmp_path: Path) -> None:
    async with open_at(tmp_path) as log:
        for source in ("https://github.com/acme/Shop.git", "git@github.com:acme/shop"):
            prepared = SessionPrepared(workspace="w", source=source, commit="1", duration_s=1)
            started = RunStarted(run_id="r", prompt="", persona="engineer", model="m:a")
            await log.append(new_session_id(), [SessionOpened(owner="usr_a"), prepared, started])
        await log.analytics_projector().catch_up()
        (row,) = await Analytics(log).counts(today(), "repository")
        assert (row.key, row.counts["runs"]) == ("github.com/acme/shop", 2)
        asked = ReportRequest("spend", "all", repository="ssh://git@github.com/acme/shop.git")
        assert (await report_for(log, None, asked)).total["runs"] == 2


@pytest.mark.anyio
async def test_old_rows_are_pruned_by_step_and_an_erasure_subtracts_the_rest(tmp_path: Path) -> None:
    async with open_at(tmp_path) as log:
        session_id = new_session_id()
        started = RunStarted(run_id="r", prompt="", persona="engineer", model="m:a")
        await log.append(session_id, [SessionOpened(owner="usr_a"), started])
        await log.analytics_projector().catch_up()

        async def read_steps() -> set[int]:
            statement = select(analytics_counts.c.step_ms)
            return set(await log.fetch(lambda connection: connection.execute(statement).scalars().all()))

        assert await read_steps() == {60_000, HOUR_MS, DAY_MS}
        now_ms = wall_ms()
        await log.change(lambda connection: prune_analytics(connection, now_ms + 3 * DAY_MS))
        assert await read_steps() == {HOUR_MS, DAY_MS}
        await log.change(lambda connection: prune_analytics(connection, now_ms + 100 * DAY_MS))
        assert await read_steps() == {DAY_MS}
        await log.erase(session_id, None, reason="all")
        assert (await read_rows(log))[1] == []


def test_a_percentile_lies_in_the_bin_of_the_exact_value() -> None:
    rng = random.Random(7)
    values = sorted(rng.lognormvariate(0, 2) for _ in range(2000))
    histogram = Histogram()
    for value in values:
        histogram.add(value)
    counts = {"count": histogram.count, **{f"bin_{n}": count for n, count in enumerate(histogram.bins)}}
    for share in (0.5, 0.95):
        exact = values[int(share * len(values))]
        found = percentile_s(counts, share)
        assert found is not None
        assert abs(bin_of(round(found * 1000)) - bin_of(round(exact * 1000))) <= 1


def test_a_month_is_expected_to_continue_as_its_last_days() -> None:
    now_ms = 1_763_424_000_000  # 2025-11-18, midnight
    begin_ms, end_ms = month_of(now_ms)
    days = dict.fromkeys(range(begin_ms, now_ms, DAY_MS), 2.0)
    found = forecast_month(days, now_ms)
    assert (found.month, found.spent_usd, found.daily_mean_usd, found.base_days) == ("2025-11", 34.0, 2.0, 17)
    assert found.expected_usd == pytest.approx(2.0 * (end_ms - begin_ms) / DAY_MS)
    assert forecast_month({}, now_ms).expected_usd == 0
