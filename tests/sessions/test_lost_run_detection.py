"""Runs of workers that are gone are found without comparing wall clocks."""

import pytest

from hutch.domain.ids import new_run_id, new_session_id
from hutch.domain.session import QueuedRun, Session
from hutch.sessions.lost_run_detection import LeaseWatch
from hutch.store.event_log import SqlLog
from hutch.store.run_queue import RunCapacity, Runs, add_run
from hutch.store.sessions import add_session
from hutch.system.clock_without_jumps import wall_ms

pytestmark = pytest.mark.anyio
ROOM = RunCapacity(total=10, per_user=10)
HOUR_MS = 3_600_000


async def _claimed(log: SqlLog, worker: str) -> QueuedRun:
    session = Session(id=new_session_id(), owner="ada", created_ms=wall_ms(), updated_ms=wall_ms())
    run = QueuedRun(id=new_run_id(), session_id=session.id, owner="ada", prompt="fix it", queued_ms=wall_ms())
    await log.change(lambda rows: (add_session(rows, session), add_run(rows, run)))
    claimed = await Runs(log).claim(worker, lease_ms=30_000, capacity=ROOM)
    assert claimed is not None and claimed.id == run.id
    return claimed


async def _step(log: SqlLog, by_ms: int) -> None:
    """As if the wall clock had been set forward by so much since the leases were written."""
    change = f"UPDATE runs SET lease_until_ms = lease_until_ms - {by_ms}"
    await log.change(lambda rows: rows.exec_driver_sql(change).rowcount)


@pytest.mark.parametrize("by_ms", [HOUR_MS, 24 * HOUR_MS, -HOUR_MS, -24 * HOUR_MS])
async def test_a_step_of_the_clock_takes_no_run_from_a_worker_that_lives(log: SqlLog, by_ms: int) -> None:
    runs, now = Runs(log), [0.0]
    run, watch = await _claimed(log, "lives"), LeaseWatch(30_000, lambda: now[0])
    await _step(log, by_ms)
    for _ in range(6):
        assert await runs.reclaim(watch.lost(await runs.leases(excluding="watches"))) == []
        now[0] += 10.0
        await log.change(lambda rows: rows.exec_driver_sql("UPDATE runs SET lease_until_ms = 0").rowcount)
        assert await runs.renew("lives", [run.id], lease_ms=30_000) == [run.id]
        now[0] += 10.0


@pytest.mark.parametrize("by_ms", [0, HOUR_MS, -HOUR_MS, -24 * HOUR_MS])
async def test_the_run_of_a_worker_that_is_gone_waits_again_after_one_lease(log: SqlLog, by_ms: int) -> None:
    runs, now = Runs(log), [0.0]
    run, watch = await _claimed(log, "gone"), LeaseWatch(30_000, lambda: now[0])
    await _step(log, by_ms)
    found = []
    for _ in range(4):
        found.append(
            [each.id for each in await runs.reclaim(watch.lost(await runs.leases(excluding="watches")))]
        )
        now[0] += 10.0
    assert found == [[], [], [], [run.id]]
    assert (await runs.get(run.id)).state == "queued"


async def test_a_worker_does_not_take_its_own_runs_for_lost(log: SqlLog) -> None:
    await _claimed(log, "me")
    assert await Runs(log).leases(excluding="me") == {}


async def test_a_lease_that_is_renewed_at_the_last_moment_holds(log: SqlLog) -> None:
    runs = Runs(log)
    run = await _claimed(log, "late")
    seen = await runs.leases(excluding="watches")
    await _step(log, 1)  # written anew
    assert await runs.reclaim(list(seen.items())) == []
    assert (await runs.get(run.id)).state == "running"
