"""Claims runs from the queue when there is capacity, and performs each to its end.

The worker renews the lease of a run while it works on it. A run always ends with the same outcome
in the log and in the queue; or it is left open, to be resumed after a pause, a shutdown or a crash.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress

import structlog

from hutch.domain.errors import HutchError
from hutch.domain.events import RunEnded, SessionEnded, SessionPaused
from hutch.domain.ids import SessionId
from hutch.domain.session import QueuedRun
from hutch.domain.trace_id import traced
from hutch.sessions.host_dependencies_and_callbacks import Done
from hutch.sessions.live_session import LiveSession
from hutch.sessions.lost_run_detection import LeaseWatch
from hutch.sessions.waiting_run_cancellation import CANCELLED, first_end, report_undelivered
from hutch.store.run_queue import RunCapacity, Runs
from hutch.store.runs_reserved_for_process import is_reserved
from hutch.store.unwritten_events import is_storage_failure

POLL_INTERVAL_S = (
    1.0  # of the queue without a notification: leases expire, and other processes queue runs too
)
RETRY_DELAY_S = 1.0  # when the end of a run could not be recorded
RECENT_ENTRIES = 100  # entries in which the end of a run is looked for
FAULT = "Hutch itself failed. This is a bug in Hutch; its log has the details."
logger = structlog.get_logger()


class Worker:
    """The worker of one host."""

    def __init__(
        self,
        name: str,
        runs: Runs,
        live: Callable[[SessionId], LiveSession],
        on_idle: Callable[[LiveSession], None],
        *,
        make_room: Callable[[LiveSession], Awaitable[None]] | None = None,
        capacity: RunCapacity,
        lease_ms: int,
        on_storage_failure: Callable[[HutchError], None] | None = None,
    ) -> None:
        self.name = name
        self.runs = runs
        self.closing = False
        self.heartbeat_at = time.monotonic()  # of the last check of the queue
        self._live = live
        self._on_idle = on_idle  # called when a session has nothing left to do
        self._make_room = make_room  # called before a run opens a jail
        self._on_storage_failure = (
            on_storage_failure  # called instead of a retry, when nothing can be recorded
        )
        self._capacity = capacity
        self._lease_ms = lease_ms
        self._leases = LeaseWatch(lease_ms)
        self._wakeup = asyncio.Event()
        self._working: dict[str, LiveSession] = {}
        self._claiming: asyncio.Task[None] | None = None
        self._beginning: asyncio.Task[None] | None = None  # performs the run that was claimed last
        self._renewing: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._claiming = asyncio.ensure_future(self._claim())
        self._renewing = asyncio.ensure_future(self._renew())

    def notify(self) -> None:
        """Check the queue now: there may be a run."""
        self._wakeup.set()

    async def close(self) -> None:
        """Claim no more runs. Current runs are left open and return to the queue."""
        self.closing = True
        for task in (self._claiming, self._renewing):
            if task is not None:
                task.cancel()
                await asyncio.wait([task])
        working = [live for live in self._working.values() if live.working is not None]
        for live in working:
            live.leaves_open = True
            assert live.working is not None
            live.working.cancel()
        if working:
            await asyncio.wait([live.working for live in working if live.working is not None])

    async def wait_for(self, run_id: str) -> None:
        """Wait until a run of this worker has ended and its end is recorded."""
        live = self._working.get(run_id)
        if live is not None and live.working is not None:
            await asyncio.wait([live.working])

    async def _claim(self) -> None:
        while not self.closing:
            self._wakeup.clear()
            try:
                run = await self.runs.claim(self.name, lease_ms=self._lease_ms, capacity=self._capacity)
            except HutchError as error:
                if self._stops_after(error):
                    return
                logger.warning("worker.cannot_claim", error=str(error))
                run = None
            self.heartbeat_at = time.monotonic()
            if run is not None:
                # A task that is cancelled before its first step runs nothing, and would record no end. So a
                # run can be cancelled only from its first step on.
                begun = asyncio.get_running_loop().create_future()
                self._beginning = asyncio.ensure_future(self._work(self._live(run.session_id), run, begun))
                await begun
                continue
            try:
                async with asyncio.timeout(POLL_INTERVAL_S):
                    await self._wakeup.wait()
            except TimeoutError:
                pass

    def _stops_after(self, error: HutchError) -> bool:
        """Stop after an error of the storage; False for a worker that retries, such as a server's."""
        if self._on_storage_failure is None or not is_storage_failure(error):
            return False
        self._on_storage_failure(error)
        return True

    async def _renew(self) -> None:
        while True:
            await asyncio.sleep(self._lease_ms / 3000)
            held = dict(self._working)
            try:
                renewed = await self.runs.renew(self.name, list(held), lease_ms=self._lease_ms)
                await self.runs.pause_abandoned()
                if not is_reserved(self.name):
                    await self.runs.reclaim(self._leases.lost(await self.runs.leases(excluding=self.name)))
            except HutchError as error:
                logger.warning("worker.cannot_renew", error=str(error))
                continue
            for run_id in set(held) - set(renewed):
                live = held[run_id]
                if live.working is not None and live.run is not None and live.run.id == run_id:
                    logger.warning("worker.lost_run", run_id=run_id)
                    live.leaves_open = True
                    live.working.cancel()

    async def _work(self, live: LiveSession, run: QueuedRun, begun: "asyncio.Future[None]") -> None:
        """Perform one run, from its claim until it ends or is left open."""
        live.run, live.working = run, self._beginning
        self._working[run.id] = live
        if not begun.done():  # else the worker is being closed
            begun.set_result(None)
        try:
            with traced(run.trace_id, session_id=live.id, run_id=run.id):
                await self._see_through(live, run)
        finally:
            self._working.pop(run.id, None)
            if live.working is asyncio.current_task():  # else the next run of the session has begun
                live.run = live.working = None
                live.leaves_open = False
                self._on_idle(live)
            self.notify()

    async def _see_through(self, live: LiveSession, run: QueuedRun) -> None:
        logger.info("run.claimed", kind=run.kind)
        done: Done | None
        try:
            done = await self._perform(live, run)
        except asyncio.CancelledError:
            done = None if live.leaves_open else Done("cancelled", CANCELLED)
        except HutchError as error:
            done = Done("failed", str(error), error.code)
        except Exception:
            logger.exception("run.failed")
            done = Done("failed", FAULT)
        finishing = asyncio.ensure_future(self._record_end(live, run, done))
        while not finishing.done():  # a cancellation is too late now, and must not come before the end
            with suppress(asyncio.CancelledError):
                await asyncio.wait([finishing])
        finishing.result()
        logger.info("run.over", outcome=done.outcome if done else "left open")

    async def _record_end(self, live: LiveSession, run: QueuedRun, done: Done | None) -> None:
        """Record how a run ended; on a full disk, as soon as there is space again."""
        while True:
            try:
                await self._finish(live, run, done)
                return
            except HutchError as error:
                if self._stops_after(error):
                    return
                logger.error("run.not_ended", error=str(error))
                if self.closing or not is_storage_failure(error):
                    return
            await asyncio.sleep(RETRY_DELAY_S)

    async def _perform(self, live: LiveSession, run: QueuedRun) -> Done:
        if self._make_room is not None:
            await self._make_room(live)
        async with live.used():
            await live.publish_state()
            if run.kind == "prepare":
                return Done("done")
            return await live.dependencies.callbacks.perform(live, run)

    async def _finish(self, live: LiveSession, run: QueuedRun, done: Done | None) -> None:
        await live.settle()
        await live.waits.forget()
        session = await live.sessions.get(live.id)
        if done is None:
            live.run = None
            if is_reserved(self.name) and session.state != "paused":
                await live.append([SessionPaused(by=session.owner)])
                await live.set_state("paused")
                await self.runs.hold(run.id)
            elif session.state == "paused":
                await self.runs.hold(run.id)
            else:
                await self.runs.release(run.id, self.name)
                await live.set_state("queued")
            return
        reason = live.dependencies.redactor.redact(done.reason)
        ended = await self._ended(live, run.id) if run.kind == "prompt" else None
        if ended is not None and done.outcome == "cancelled":
            await report_undelivered(live, await live.entries(), run.id, CANCELLED)
            # The outcome of the work, which can no longer be cancelled.
            done, reason = (Done(ended.outcome), ended.reason)
        if run.kind == "prompt" and ended is None:
            outcome = done.outcome if done.outcome in ("cancelled", "failed") else "failed"
            await live.append([RunEnded(run_id=run.id, outcome=outcome, reason=reason, code=done.code)])
        await self.runs.end(run.id, done.outcome, reason)
        live.run = None
        if not session.workspace_id and done.outcome == "failed":  # it was never prepared, and will not be
            await live.append([SessionEnded(outcome="failed", reason=reason)])
            await live.set_state("ended", reason)
            return
        if session.state not in ("paused", "ended"):
            # Late messages are next.
            waiting = await self.runs.unfinished(live.id) or live.undelivered
            await live.set_state("queued" if waiting else live.state)

    async def _ended(self, live: LiveSession, run_id: str) -> RunEnded | None:
        if live.run_ended is not None and live.run_ended.run_id == run_id:
            return live.run_ended
        head = await live.log.head(live.id)
        recent = await live.log.read(live.id, after=max(0, head.seq - RECENT_ENTRIES))
        ended = first_end(recent, run_id)
        if (
            ended is None and head.seq > RECENT_ENTRIES
        ):  # a run that is delivered again may have ended long ago
            ended = first_end(await live.entries(), run_id)
        return ended
