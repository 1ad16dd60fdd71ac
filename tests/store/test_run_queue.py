"""The queue of runs: order, capacity, leases and pauses."""

from dataclasses import replace

import pytest

from hutch.domain.ids import new_run_id, new_session_id
from hutch.domain.session import DeliveryResult, QueuedRun, Session
from hutch.store.event_log import SqlLog
from hutch.store.run_queue import RunCapacity, Runs, add_run
from hutch.store.sessions import Sessions, add_session
from hutch.system.clock_without_jumps import wall_ms

pytestmark = pytest.mark.anyio

ROOM = RunCapacity(total=10, per_user=10)


async def queue(log: SqlLog, owner: str = "ada", session: Session | None = None) -> QueuedRun:
    made = session or Session(id=new_session_id(), owner=owner, created_ms=wall_ms(), updated_ms=wall_ms())
    run = QueuedRun(
        id=new_run_id(), session_id=made.id, owner=made.owner, prompt="fix it", queued_ms=wall_ms()
    )

    def add(connection):  # type: ignore[no-untyped-def]
        if session is None:
            add_session(connection, made)
        add_run(connection, run)

    await log.change(add)
    return run


async def test_the_oldest_is_claimed_first_and_by_one_worker_only(log: SqlLog) -> None:
    runs = Runs(log)
    first, second = await queue(log), await queue(log)
    assert await runs.queue_positions([first.id, second.id]) == {first.id: 1, second.id: 2}
    claimed = await runs.claim("a", lease_ms=1000, capacity=ROOM)
    assert claimed is not None
    assert (claimed.id, claimed.state, claimed.worker) == (first.id, "running", "a")
    other = await runs.claim("b", lease_ms=1000, capacity=ROOM)
    assert other is not None and other.id == second.id
    assert await runs.claim("b", lease_ms=1000, capacity=ROOM) is None
    assert await runs.counts() == {"running": 2}


async def test_there_is_room_for_so_many_in_all_and_for_so_many_of_a_user(log: SqlLog) -> None:
    runs = Runs(log)
    for _ in range(3):
        await queue(log, "ada")
    await queue(log, "bob")
    room = RunCapacity(total=3, per_user=1)
    owners = [
        claimed.owner for _ in range(2) if (claimed := await runs.claim("w", lease_ms=1000, capacity=room))
    ]
    assert owners == ["ada", "bob"]
    assert await runs.claim("w", lease_ms=1000, capacity=room) is None
    assert await runs.claim("w", lease_ms=1000, capacity=RunCapacity(total=2, per_user=9)) is None


async def test_runs_that_wait_for_a_user_count_only_beyond_a_number_of_their_own(log: SqlLog) -> None:
    runs = Runs(log)

    async def claimed(capacity: RunCapacity) -> str:
        run = await runs.claim("w", lease_ms=1000, capacity=capacity)
        return run.owner if run is not None else ""

    for owner in ("ada", "ada", "ada", "bob"):
        waits = await queue(log, owner)
        assert await claimed(ROOM) == owner
        await Sessions(log).set(waits.session_id, state="waiting")
    await queue(log, "ada")
    assert await claimed(RunCapacity(1, 9, waiting=3, waiting_per_user=9)) == ""
    assert await claimed(RunCapacity(9, 1, waiting=9, waiting_per_user=2)) == ""
    assert await claimed(RunCapacity(1, 1, waiting=4, waiting_per_user=3)) == "ada"
    await queue(log, "bob")
    assert await claimed(RunCapacity(1, 1, waiting=4, waiting_per_user=3)) == ""  # a run works
    await Sessions(log).set(waits.session_id, state="running")  # bob has answered
    assert await claimed(RunCapacity(9, 1, waiting=9, waiting_per_user=9)) == ""


async def test_runs_of_one_session_follow_each_other(log: SqlLog) -> None:
    runs = Runs(log)
    first = await queue(log)
    session = await Sessions(log).get(first.session_id)
    second = await queue(log, session=session)
    assert await runs.claim("w", lease_ms=1000, capacity=ROOM) is not None
    assert await runs.claim("w", lease_ms=1000, capacity=ROOM) is None
    await runs.end(first.id, "done")
    claimed = await runs.claim("w", lease_ms=1000, capacity=ROOM)
    assert claimed is not None and claimed.id == second.id


async def test_a_lease_that_ran_out_lets_another_take_over(log: SqlLog) -> None:
    runs = Runs(log)
    run = await queue(log)
    await runs.claim("gone", lease_ms=1000, capacity=ROOM)
    lost = list((await runs.leases(excluding="new")).items())
    assert [each.id for each in await runs.reclaim(lost)] == [run.id]
    claimed = await runs.claim("new", lease_ms=60_000, capacity=ROOM)
    assert claimed is not None and claimed.worker == "new"
    assert await runs.reclaim(lost) == []
    assert await runs.renew("gone", [run.id], lease_ms=1000) == []
    assert await runs.renew("new", [run.id], lease_ms=1000) == [run.id]
    assert [each.id for each in await runs.reclaim_all()] == [run.id]


async def test_what_a_pause_stops_is_not_claimed_until_it_goes_on(log: SqlLog) -> None:
    runs, sessions = Runs(log), Sessions(log)
    run = await queue(log)
    await runs.claim("w", lease_ms=1000, capacity=ROOM)
    await runs.hold(run.id)
    await sessions.set(run.session_id, state="paused")
    later = await queue(log, session=await sessions.get(run.session_id))
    assert await runs.claim("w", lease_ms=1000, capacity=ROOM) is None
    await sessions.set(run.session_id, state="parked")
    await runs.requeue(run.session_id)
    claimed = await runs.claim("w", lease_ms=1000, capacity=ROOM)
    assert claimed is not None and claimed.id == run.id
    assert [each.id for each in await runs.unfinished(run.session_id)] == [run.id, later.id]


async def test_the_first_end_counts(log: SqlLog) -> None:
    runs = Runs(log)
    run = await queue(log)
    await runs.end(run.id, "cancelled", "by ada")
    await runs.end(run.id, "done")
    ended = await runs.get(run.id)
    assert ended == replace(run, state="ended", outcome="cancelled", reason="by ada", ended_ms=ended.ended_ms)


async def test_all_runs_of_a_session_end_at_once(log: SqlLog) -> None:
    runs = Runs(log)
    first, other = await queue(log), await queue(log)
    session = await Sessions(log).get(first.session_id)
    second = await queue(log, session=session)
    await runs.end(first.id, "done")
    await runs.end_all(session.id, "cancelled", "enough")
    found = [await runs.get(each.id) for each in (first, second, other)]
    assert [(each.state, each.outcome, each.reason) for each in found] == [
        ("ended", "done", ""),
        ("ended", "cancelled", "enough"),
        ("queued", "", ""),
    ]


async def test_how_handing_over_ended_is_noted_and_found_by_session(log: SqlLog) -> None:
    runs = Runs(log)
    first = await queue(log)
    session = await Sessions(log).get(first.session_id)
    second, other = await queue(log, session=session), await queue(log)
    failed = DeliveryResult(outcome="failed", reason="GitHub is down.", at_ms=7)
    await runs.record_delivery(first.id, failed)
    assert (await runs.get(first.id)).delivered == failed
    assert (await runs.get(second.id)).delivered is None
    asked = [session.id, other.session_id]
    assert {id: run.id for id, run in (await runs.last_delivered(asked)).items()} == {session.id: first.id}
    claimed = await runs.claim("a", lease_ms=1000, capacity=ROOM)
    assert claimed is not None and claimed.delivered == (await runs.get(first.id)).delivered == failed
    await runs.record_delivery(second.id, DeliveryResult(outcome="proposed", change_id="chg_1"))
    assert (await runs.last_delivered(asked))[session.id].id == second.id


async def test_what_waits_in_a_session_that_ends_is_held(log: SqlLog) -> None:
    runs = Runs(log)
    first = await queue(log)
    session = await Sessions(log).get(first.session_id)
    assert await runs.claim("w", lease_ms=1000, capacity=ROOM) is not None
    second, elsewhere = await queue(log, session=session), await queue(log, "bob")
    await runs.hold_all(session.id)
    assert [(run.id, run.state) for run in await runs.unfinished(session.id)] == [
        (first.id, "running"),
        (second.id, "held"),
    ]
    await runs.end(first.id, "cancelled")
    claimed = await runs.claim("w", lease_ms=1000, capacity=ROOM)
    assert claimed is not None and claimed.id == elsewhere.id
    assert await runs.claim("w", lease_ms=1000, capacity=ROOM) is None


async def test_runs_of_a_killed_worker_wait_again_unless_their_session_is_paused(
    log: SqlLog,
) -> None:
    runs = Runs(log)
    held, paused = await queue(log), await queue(log, "bob")
    for run in (held, paused):
        await runs.hold_all(run.session_id)
    await Sessions(log).set(paused.session_id, state="paused")
    await runs.reclaim(list((await runs.leases(excluding="")).items()))
    assert {(await runs.get(run.id)).state for run in (held, paused)} == {"held"}
    await runs.reclaim_all()
    assert [(await runs.get(run.id)).state for run in (held, paused)] == ["queued", "held"]


async def test_a_session_waits_with_what_is_to_be_delivered_again(log: SqlLog) -> None:
    runs, sessions = Runs(log), Sessions(log)
    run = await queue(log)
    for state, then in (("idle", "queued"), ("parked", "queued"), ("paused", "paused")):
        await runs.end(run.id, "done")
        await sessions.set(run.session_id, state=state)
        await runs.requeue_ended(run.id)
        assert (await runs.get(run.id)).state == "queued"
        assert (await sessions.get(run.session_id)).state == then
    await sessions.set(run.session_id, state="idle")
    await runs.requeue_ended(run.id)  # it waits already
    assert (await sessions.get(run.session_id)).state == "idle"
