"""A run ends properly, however and whenever it is stopped."""

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from hutch.agent.session_recorder import Recorder
from hutch.domain.errors import Conflict
from hutch.domain.events import SessionOpened
from hutch.domain.ids import SessionId, new_run_id, new_session_id
from hutch.domain.redaction import Redactor
from hutch.domain.session import QueuedRun, Session
from hutch.sessions.host_dependencies_and_callbacks import Done, HostCallbacks, HostDependencies, Prepared
from hutch.sessions.live_session import LiveSession
from hutch.sessions.run_worker import Worker
from hutch.sessions.sandbox import Sandbox
from hutch.sessions.session_update_fan_out import Channels
from hutch.store.event_log import SqlLog, open_log
from hutch.store.run_queue import RunCapacity, Runs, add_run
from hutch.store.sessions import add_session
from hutch.system.clock_without_jumps import wall_ms
from tests.deadline import DEADLINE_S

pytestmark = pytest.mark.anyio


class Held:
    """A workspace cannot be made, and nothing is written to disk from then until it is let go."""

    def __init__(self, log: SqlLog) -> None:
        self._log = log
        self.reached = asyncio.Event()
        self.go = threading.Event()

    async def prepare(self, session: Session, recorder: Recorder) -> Prepared:
        holding = asyncio.ensure_future(self._log.change(lambda rows: self.go.wait(DEADLINE_S)))
        await asyncio.sleep(0)  # it is in the writer's hands
        self.reached.set()
        holding.add_done_callback(lambda done: done.result())
        raise Conflict("There is no room.")

    @asynccontextmanager
    async def open_sandbox(self, session: Session, recorder: Recorder) -> AsyncIterator[Sandbox]:
        raise AssertionError("there is nothing to open")
        yield

    async def perform(self, live: LiveSession, run: QueuedRun) -> Done:
        raise AssertionError("there is nothing to work on")


async def queued(log: SqlLog) -> QueuedRun:
    session = Session(id=new_session_id(), owner="ada", created_ms=wall_ms(), updated_ms=wall_ms())
    run = QueuedRun(id=new_run_id(), session_id=session.id, owner="ada", kind="prepare", queued_ms=wall_ms())
    await log.append(session.id, [SessionOpened(purpose="")])
    await log.change(lambda rows: (add_session(rows, session), add_run(rows, run)))
    return run


async def test_a_run_stopped_while_its_end_is_recorded_is_recorded_all_the_same(tmp_path: Path) -> None:
    async with open_log(tmp_path / "db", tmp_path / "blobs", tmp_path / "key") as log:
        held, run = Held(log), await queued(log)
        ways = HostCallbacks(held.prepare, held.open_sandbox, held.perform)
        lives: dict[SessionId, LiveSession] = {}
        dependencies = HostDependencies(log, log, Redactor(), Channels(log), ways)

        def live_of(session_id: SessionId) -> LiveSession:
            return lives.setdefault(session_id, LiveSession(session_id, dependencies))

        worker = Worker(
            "w", Runs(log), live_of, lambda live: None, capacity=RunCapacity(1, 1), lease_ms=30_000
        )
        worker.start()
        async with asyncio.timeout(DEADLINE_S):
            await held.reached.wait()
            live = lives[run.session_id]
            stops = [asyncio.ensure_future(live.stop()) for _ in range(2)]
            await asyncio.sleep(0.05)
            closing = asyncio.ensure_future(worker.close())
            await asyncio.sleep(0.05)
            assert not any(each.done() for each in (*stops, closing))  # it is not over before it is noted
            held.go.set()
            await asyncio.gather(*stops, closing)
        assert (await Runs(log).get(run.id)).state == "ended"
        assert (await log.head(run.session_id)).ended


async def test_a_run_stopped_right_after_it_was_claimed_is_not_lost(tmp_path: Path) -> None:
    async with open_log(tmp_path / "db", tmp_path / "blobs", tmp_path / "key") as log:
        held, run = Held(log), await queued(log)
        held.go.set()
        ways = HostCallbacks(held.prepare, held.open_sandbox, held.perform)
        dependencies = HostDependencies(log, log, Redactor(), Channels(log), ways)
        live = LiveSession(run.session_id, dependencies)

        async def stop_at_once(turns: int) -> None:
            for _ in range(turns):
                await asyncio.sleep(0)
            while not await live.stop():  # noqa: ASYNC110 (as often as possible)
                await asyncio.sleep(0)

        stops = [asyncio.ensure_future(stop_at_once(turns)) for turns in range(3)]
        worker = Worker(
            "w", Runs(log), lambda _: live, lambda live: None, capacity=RunCapacity(1, 1), lease_ms=30_000
        )
        worker.start()
        async with asyncio.timeout(DEADLINE_S):
            await asyncio.wait(stops, return_when=asyncio.FIRST_COMPLETED)
            while live.working is not None:  # noqa: ASYNC110 (a moment)
                await asyncio.sleep(0.01)
        for each in stops:
            each.cancel()
        assert live.run is None
        await worker.close()
        assert (await Runs(log).get(run.id)).state == "ended"
