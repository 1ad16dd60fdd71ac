"""Runs that a process keeps for itself, beside the workers of a server."""

import os
import subprocess
from dataclasses import replace

import pytest

from hutch.store.event_log import SqlLog
from hutch.store.run_queue import RunCapacity, Runs
from hutch.store.runs_reserved_for_process import PREFIX, is_gone, is_reserved, reservation_name
from hutch.store.sessions import Sessions
from tests.store.test_run_queue import ROOM, queue

pytestmark = pytest.mark.anyio


def name_of(pid: int, birth: str = "boot/1") -> str:
    host = reservation_name().removeprefix(PREFIX).rpartition(":")[0].rpartition(":")[0]
    return f"{PREFIX}{host}:{pid}:{birth}"


def test_a_name_shows_whether_its_process_is_alive() -> None:
    ours = reservation_name()
    assert is_reserved(ours) and not is_gone(ours)
    done = subprocess.Popen(["true"])
    done.wait()
    assert is_gone(name_of(done.pid))
    assert is_gone(name_of(os.getpid()))  # an earlier process with the same number
    assert not is_gone(f"{PREFIX}elsewhere:1:boot/1")  # nothing is known of another machine
    assert not is_reserved("host:1:abc")


async def test_a_reserved_run_is_taken_by_its_own_worker_only(log: SqlLog) -> None:
    runs, ours = Runs(log), reservation_name()
    run, other = await queue(log), await queue(log)
    await runs.claim("server", lease_ms=1000, capacity=ROOM)
    await runs.end(run.id, "cancelled")
    await runs.requeue_ended(run.id, worker=ours)
    claimed = await runs.claim("server", lease_ms=1000, capacity=ROOM)
    assert claimed is not None and claimed.id == other.id
    assert await runs.claim("server", lease_ms=1000, capacity=ROOM) is None
    mine = await runs.claim(ours, lease_ms=1000, capacity=ROOM)
    assert mine is not None and mine.id == run.id
    assert await runs.claim(ours, lease_ms=1000, capacity=ROOM) is None
    assert [each.id for each in await runs.reclaim_all()] == [other.id]
    assert await runs.reserved_sessions() == [run.session_id]


async def test_what_a_process_left_is_paused_and_not_worked_on(log: SqlLog) -> None:
    runs, sessions = Runs(log), Sessions(log)
    run, alive = await queue(log), await queue(log)
    for each, worker in ((run, name_of(os.getpid())), (alive, reservation_name())):
        await runs.end(each.id, "cancelled")
        await runs.requeue_ended(each.id, worker=worker)
    assert await runs.pause_abandoned() == [run.session_id]
    assert await runs.pause_abandoned() == []
    left = await runs.get(run.id)
    assert left == replace(run, state="held", outcome="cancelled")
    assert (await sessions.get(run.session_id)).state == "paused"
    assert (await sessions.get(alive.session_id)).state == "queued"
    assert await runs.claim("server", lease_ms=1000, capacity=ROOM) is None


async def test_what_a_dead_server_was_at_takes_no_room_and_can_be_taken_over(log: SqlLog) -> None:
    runs, ours = Runs(log), reservation_name()
    left, mine = await queue(log), await queue(log)
    await runs.claim("server", lease_ms=1000, capacity=ROOM)
    await runs.end(mine.id, "cancelled")
    await runs.requeue_ended(mine.id, worker=ours)
    claimed = await runs.claim(ours, lease_ms=1000, capacity=RunCapacity(total=1, per_user=1))
    assert claimed is not None and claimed.id == mine.id
    for run in (left, mine):
        await runs.take_over(run.id)
    assert (await runs.get(left.id)).state == "held"
    assert (await Sessions(log).get(left.session_id)).state == "paused"
    assert (await runs.get(mine.id)).state == "running"  # its process is there
