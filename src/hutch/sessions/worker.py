"""Takes runs from the queue when there is room, and sees each to its end.

A run is held under a lease that is renewed while it is worked on. Whatever
happens, it ends in the log and in the queue in one way; or it is left open, for
whoever takes it up again after a pause, a shutdown or a crash.
"""

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress

import structlog

from hutch.domain.errors import HutchError
from hutch.domain.events import RunEnded, SessionEnded, SessionPaused
from hutch.domain.ids import SessionId
from hutch.domain.session import QueuedRun
from hutch.domain.trace import traced
from hutch.sessions.abandoned_runs import CANCELLED, first_end, report_undelivered
from hutch.sessions.dependencies import Done
from hutch.sessions.leases import LeaseWatch
from hutch.sessions.live_session import LiveSession
from hutch.store.log_gaps import is_storage_failure
from hutch.store.run_reservation import is_reserved
from hutch.store.runs import RunCapacity, Runs

POLL_INTERVAL_S = 1.0  # at the queue, when nobody rang: leases run out, and other processes queue too
RETRY_S = 1.0  # after the end of a run could not be recorded
RECENT = 100  # entries in which the end of a run is looked for
FAULT = "Hutch itself failed. This is a fault of it; its log has the details."
logger = structlog.get_logger()


class Worker:
    """One that works for a host."""

    def __init__(
        self,
        name: str,
        runs: Runs,
        live: Callable[[SessionId], LiveSession],
        freed: Callable[[LiveSession], None],
        *,
        room: RunCapacity,
        lease_ms: int,
        give_up: Callable[[HutchError], None] | None = None,
    ) -> None:
        self.name = name
        self.runs = runs
        self.closing = False
        self.beat_at = time.monotonic()  # of the last look at the queue
        self._live = live
        self._freed = freed  # a session has nothing to do any more
        self._give_up = give_up  # instead of trying again, when nothing can be recorded
        self._room = room
        self._lease_ms = lease_ms
        self._leases = LeaseWatch(lease_ms)
        self._bell = asyncio.Event()
        self._working: dict[str, LiveSession] = {}
        self._claiming: asyncio.Task[None] | None = None
        self._renewing: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._claiming = asyncio.ensure_future(self._claim())
        self._renewing = asyncio.ensure_future(self._renew())

    def ring(self) -> None:
        """There may be something to do."""
        self._bell.set()

    async def close(self) -> None:
        """Take nothing more; what is worked on is left open and goes back into the queue."""
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
        """Return when a run that is worked on here is over, and that is written down."""
        live = self._working.get(run_id)
        if live is not None and live.working is not None:
            await asyncio.wait([live.working])

    async def _claim(self) -> None:
        while not self.closing:
            self._bell.clear()
            try:
                run = await self.runs.claim(self.name, lease_ms=self._lease_ms, capacity=self._room)
            except HutchError as error:
                if self._gives_up(error):
                    return
                logger.warning("worker.cannot_claim", error=str(error))
                run = None
            self.beat_at = time.monotonic()
            if run is not None:
                live = self._live(run.session_id)
                live.run = run
                live.working = asyncio.ensure_future(self._work(live, run))
                self._working[run.id] = live
                continue
            try:
                async with asyncio.timeout(POLL_INTERVAL_S):
                    await self._bell.wait()
            except TimeoutError:
                pass

    def _gives_up(self, error: HutchError) -> bool:
        """Give up on an error of the storage; False for a worker that tries again, as a server's does."""
        if self._give_up is None or not is_storage_failure(error):
            return False
        self._give_up(error)
        return True

    async def _renew(self) -> None:
        while True:
            await asyncio.sleep(self._lease_ms / 3000)
            held = dict(self._working)
            try:
                kept = await self.runs.renew(self.name, list(held), lease_ms=self._lease_ms)
                await self.runs.pause_abandoned()
                if not is_reserved(self.name):
                    await self.runs.reclaim(self._leases.lost(await self.runs.leases(excluding=self.name)))
            except HutchError as error:
                logger.warning("worker.cannot_renew", error=str(error))
                continue
            for run_id in set(held) - set(kept):
                live = held[run_id]
                if live.working is not None and live.run is not None and live.run.id == run_id:
                    logger.warning("worker.lost_run", run_id=run_id)
                    live.leaves_open = True
                    live.working.cancel()

    async def _work(self, live: LiveSession, run: QueuedRun) -> None:
        """One run, from its claim to its end, or to where it is left open."""
        try:
            with traced(run.trace_id, session_id=live.id, run_id=run.id):
                await self._see_through(live, run)
        finally:
            live.run = live.working = None
            live.leaves_open = False
            self._working.pop(run.id, None)
            self._freed(live)
            self.ring()

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
        while not finishing.done():  # who stops it by now is too late, and must not come before its end
            with suppress(asyncio.CancelledError):
                await asyncio.wait([finishing])
        finishing.result()
        logger.info("run.over", outcome=done.outcome if done else "left open")

    async def _record_end(self, live: LiveSession, run: QueuedRun, done: Done | None) -> None:
        """Record how a run ended; on a full disk, as soon as there is room again."""
        while True:
            try:
                await self._finish(live, run, done)
                return
            except HutchError as error:
                if self._gives_up(error):
                    return
                logger.error("run.not_ended", error=str(error))
                if self.closing or not is_storage_failure(error):
                    return
            await asyncio.sleep(RETRY_S)

    async def _perform(self, live: LiveSession, run: QueuedRun) -> Done:
        async with live.used():
            await live.publish_state()
            if run.kind == "prepare":
                return Done("done")
            return await live.grounds.ways.perform(live, run)

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
        reason = live.grounds.redactor.redact(done.reason)
        ended = await self._ended(live, run.id) if run.kind == "prompt" else None
        if ended is not None and done.outcome == "cancelled":
            await report_undelivered(live, await live.entries(), run.id, CANCELLED)
            done, reason = Done(ended.outcome), ended.reason  # of the work: that is not cancelled any more
        if run.kind == "prompt" and ended is None:
            outcome = done.outcome if done.outcome in ("cancelled", "failed") else "failed"
            await live.append([RunEnded(run_id=run.id, outcome=outcome, reason=reason, code=done.code)])
        await self.runs.end(run.id, done.outcome, reason)
        live.run = None
        if not session.workspace_id and done.outcome == "failed":  # it never got ready, and never will
            await live.append([SessionEnded(outcome="failed", reason=reason)])
            await live.set_state("ended", reason)
            return
        if session.state not in ("paused", "ended"):
            waiting = await self.runs.unfinished(live.id) or live.handed  # what was said too late is next
            await live.set_state("queued" if waiting else live.state)

    async def _ended(self, live: LiveSession, run_id: str) -> RunEnded | None:
        head = await live.log.head(live.id)
        recent = await live.log.read(live.id, after=max(0, head.seq - RECENT))
        ended = first_end(recent, run_id)
        if ended is None and head.seq > RECENT:  # one that is delivered again may have ended long ago
            ended = first_end(await live.entries(), run_id)
        return ended
