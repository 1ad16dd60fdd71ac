"""The single writer: many callers, one transaction, one sync to disk.

Callers queue their events and wait. A thread takes all queued events, links them
into the chains and commits; events that arrive meanwhile go into the next commit.
The heads are read inside the write transaction, so that several processes on one
file cannot fork a log.
"""

import asyncio
import sqlite3
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any, TypeVar

import structlog
from sqlalchemy import Connection

from hutch.domain.errors import Conflict, DataGone
from hutch.domain.events import Event, UnknownEvent
from hutch.domain.ids import SessionId
from hutch.store.commit_watch import LogGrowth
from hutch.store.database import DatabaseDamaged
from hutch.store.event_log_interface import Head
from hutch.store.large_payload_files import Blobs
from hutch.store.log_append_batch import Append, AppendBatch
from hutch.store.log_head_signing import Notary
from hutch.store.log_write_sql import Transaction
from hutch.store.open_database import OpenDatabase
from hutch.store.payload_erasure import delete_pending_blobs
from hutch.store.unwritten_events import Gaps, is_storage_failure
from hutch.system.lazy_dataclass import dataclass

BATCH_EVENTS = 1024
SCRUB_RETRY_DELAY_S = 0.5
GAP_RETRY_DELAY_S = 0.5  # while there are unwritten events

T = TypeVar("T")

logger = structlog.get_logger()


@dataclass(slots=True)
class Work:
    """Any other change of the database, in its own transaction."""

    do: Callable[[Transaction], Any]
    done: "asyncio.Future[Any]"


@dataclass(slots=True)
class Scrub:
    """Remove erased data from the write-ahead file, now or as soon as possible."""

    done: "asyncio.Future[bool]"


Job = Append | Work | Scrub


class Writer:
    """A thread that owns the only write connection of this process."""

    def __init__(
        self,
        database: OpenDatabase,
        blobs: Blobs,
        notary: Notary,
        on_commit: Callable[[Mapping[SessionId, LogGrowth]], None],
        log_bytes: int,
    ) -> None:
        self._database = database
        self._transaction = database.open_transaction()
        self._database_files = database.files
        self._blobs = blobs
        self._notary = notary
        self._on_commit = on_commit
        self._log_bytes = log_bytes
        self._gaps = Gaps()
        self._full: set[SessionId] = set()  # logs that have reached their size limit
        self._gaps_at = 0.0
        self._failing = False  # the last write failed
        self._appending: dict[SessionId, asyncio.Future[Head]] = {}  # the last one of each log
        self._loop = asyncio.get_running_loop()
        self._queue: SimpleQueue[Job | None] = SimpleQueue()
        self._recovered = False
        self._scrub_at: float | None = None
        self._closing = False
        self._thread = Thread(target=self._run, name="store-writer", daemon=True)
        self._thread.start()

    async def append(
        self,
        session_id: SessionId,
        events: Sequence[Event | UnknownEvent],
        expected_seq: int | None,
        also: Callable[[Connection], object] | None = None,
    ) -> Head:
        done: asyncio.Future[Head] = asyncio.get_running_loop().create_future()
        self._submit(Append(session_id, tuple(events), expected_seq, done, also))
        self._appending[session_id] = done
        done.add_done_callback(lambda _: self._appended(session_id, done))
        return await asyncio.shield(done)  # a cancelled caller does not withdraw its events

    async def work(self, do: Callable[[Transaction], T]) -> T:
        done: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._submit(Work(do, done))
        return await done

    async def flush(self, session_id: SessionId) -> None:
        """Wait until all pending appends to a log are on disk; raise if one failed."""
        if appending := self._appending.get(session_id):
            await asyncio.wait([appending])
        await self.check()

    def can_record(self, session_id: SessionId) -> bool:
        """False if new events of a log are known to fail."""
        return not self._failing and session_id not in self._full

    async def check(self) -> None:
        """Raise the error that blocks writes, if a write has failed; otherwise return at once."""
        if self._failing or self._gaps:
            await self.work(Transaction.try_to_write)
            self._failing = False

    async def scrub(self) -> bool:
        """True if the write-ahead file holds no erased data any more; otherwise it is retried later."""
        done: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._submit(Scrub(done))
        return await done

    async def close(self) -> None:
        """Write the queued events, sign all heads, and stop."""
        if not self._closing:
            self._closing = True
            self._queue.put(None)
        await asyncio.to_thread(self._thread.join)

    def _appended(self, session_id: SessionId, done: "asyncio.Future[Head]") -> None:
        if self._appending.get(session_id) is done:
            del self._appending[session_id]
        if not done.cancelled():
            done.exception()  # the caller may be cancelled, and would not retrieve it

    def _submit(self, job: Job) -> None:
        if self._closing:
            raise Conflict("The event log is closed.")
        if job.done.get_loop() is not self._loop:
            raise RuntimeError("an event log belongs to the event loop that opened it")
        self._queue.put(job)

    # --- below here, everything runs in the writer's thread ---

    def _run(self) -> None:
        open_ = True
        try:
            while open_:
                jobs, open_ = self._gather()
                try:
                    self._serve(jobs)
                    self._maintain(everything=not open_)
                except Exception as error:  # a bug must not leave callers waiting
                    logger.exception("store.writer_failed")
                    self._settle([(job.done, error) for job in jobs])
        finally:
            self._transaction.close()

    def _gather(self) -> tuple[list[Job], bool]:
        """All queued jobs, up to a batch; waits for the first, or until maintenance is due."""
        jobs: list[Job] = []
        events = 0
        waits = [self._notary.due_in_s()]
        if self._scrub_at is not None:
            waits.append(max(0.0, self._scrub_at - time.monotonic()))
        if self._gaps:
            waits.append(max(0.0, self._gaps_at - time.monotonic()))
        try:
            job = self._queue.get(timeout=min((wait for wait in waits if wait is not None), default=None))
            while job is not None:
                jobs.append(job)
                events += len(job.events) if isinstance(job, Append) else 1
                if events >= BATCH_EVENTS:
                    return jobs, True
                job = self._queue.get_nowait()
            return jobs, False
        except Empty:
            return jobs, True

    def _serve(self, jobs: Sequence[Job]) -> None:
        if jobs and not self._recovered:
            self._recover()
        appends = [job for job in jobs if isinstance(job, Append)]
        if together := [job for job in appends if job.also is None]:
            self._append_all(together)
        for append in appends:
            if append.also is not None:  # in its own transaction: it may fail
                self._append_all([append])
        for job in jobs:
            if isinstance(job, Work):
                self._settle([(job.done, self._attempt(job.do))])
            elif isinstance(job, Scrub):
                self._settle([(job.done, self._scrub())])

    def _attempt(self, do: Callable[[Transaction], T]) -> T | Exception:
        """Run `do` in its own transaction. Errors are returned after a rollback."""
        try:
            with self._database.translate_errors():
                self._database_files.check()
                self._transaction.begin()
                result = do(self._transaction)
                self._transaction.commit()
                self._database_files.check()
                return result
        except Exception as error:  # noqa: BLE001  every error goes to the caller
            self._failing = self._failing or is_storage_failure(error)
            if isinstance(error, DatabaseDamaged):
                self._database_files.fail(error)
            self._transaction.rollback()
            if isinstance(error, DataGone):
                self._save_wal()
            return error

    def _save_wal(self) -> None:
        """Save acknowledged events after their write-ahead file was deleted."""
        if self._database_files.can_save_wal:
            try:
                saved = self._transaction.save_wal()
            except sqlite3.Error as error:
                logger.error("store.wal_not_saved", problem=str(error))
            else:
                logger.warning("store.wal_saved", whole=saved)
                if saved:
                    self._database_files.clear_damage_mark()

    def _append_all(self, jobs: Sequence[Append]) -> None:
        batch = AppendBatch(self._transaction, self._blobs, self._gaps, self._log_bytes)

        def write(transaction: Transaction) -> "list[tuple[asyncio.Future[Head], Head | Exception]]":
            results = [(job.done, batch.add(job)) for job in jobs]
            self._save(transaction, batch)
            for job, (_, outcome) in zip(jobs, results, strict=True):
                if job.also is not None and not isinstance(outcome, Exception):
                    job.also(transaction.rows)
            return results

        results = self._attempt(write)
        if isinstance(results, Exception):
            for job in jobs:
                self._gaps.note(job.session_id, job.events, results)
            self._gaps_at = time.monotonic() + GAP_RETRY_DELAY_S
            self._settle([(job.done, results) for job in jobs])
            return
        self._settle(results, self._committed(batch))

    def _write_gaps(self) -> None:
        """Write the events that could not be written earlier."""
        batch = AppendBatch(self._transaction, self._blobs, self._gaps, self._log_bytes)
        sessions = self._gaps.sessions

        def write(transaction: Transaction) -> None:
            for session_id in sessions:
                batch.add_gap(session_id)
            self._save(transaction, batch)

        problem = self._attempt(write)
        if problem is None:
            self._gaps.forget(sessions)  # including those of logs that have ended or were removed
            self._settle([], self._committed(batch))
        else:
            self._gaps_at = time.monotonic() + GAP_RETRY_DELAY_S
            logger.warning("store.events_wait", sessions=len(sessions), problem=str(problem))

    def _save(self, transaction: Transaction, batch: AppendBatch) -> None:
        transaction.add_events(batch.rows)
        for id, log in batch.logs.items():
            self._notary.sign_if_due(transaction, log, now=id in batch.marked)
            transaction.save_log(log)

    def _committed(self, batch: AppendBatch) -> dict[SessionId, LogGrowth]:
        self._failing = self._failing and not batch.rows
        self._gaps.forget(batch.logs)
        for log in batch.logs.values():
            self._notary.remember(log)
            if log.payload_bytes > self._log_bytes and not log.ended:
                self._full.add(log.session_id)
            else:
                self._full.discard(log.session_id)
        return {id: LogGrowth(log.seq, batch.entries.get(id, ())) for id, log in batch.logs.items()}

    def _recover(self) -> None:
        """Before the first job, finish interrupted jobs of a crash: sign heads, delete erased blobs."""

        def sign(transaction: Transaction) -> None:
            self._notary.introduce(transaction)
            for session_id in transaction.unsigned():
                self._notary.sign_head(transaction, session_id)

        problem = self._attempt(sign)
        if problem is None:
            self._recovered = True
            problem = self._attempt(lambda transaction: delete_pending_blobs(transaction, self._blobs))
        if problem is not None:  # the job itself will report the error
            logger.warning("store.recovery_postponed", problem=str(problem))

    def _maintain(self, *, everything: bool) -> None:
        """Background work: signatures that are due, unwritten events, and scrubbing of erased data."""
        if self._scrub_at is not None and time.monotonic() >= self._scrub_at:
            self._scrub()
        if self._gaps and (everything or not self._failing or time.monotonic() >= self._gaps_at):
            self._write_gaps()
        due = self._notary.due(everything=everything)
        if not due:
            return

        def sign(transaction: Transaction) -> None:
            for session_id in due:
                self._notary.sign_head(transaction, session_id)

        problem = self._attempt(sign)
        if problem is None:
            self._notary.signed(due)
        else:
            self._notary.postpone(due)
            logger.warning("checkpoint.postponed", sessions=len(due), problem=str(problem))

    def _scrub(self) -> bool:
        done = self._transaction.truncate_wal()
        self._scrub_at = None if done else time.monotonic() + SCRUB_RETRY_DELAY_S
        return done

    def _settle(
        self,
        results: "Sequence[tuple[asyncio.Future[Any], Any]]",
        grown: Mapping[SessionId, LogGrowth] | None = None,
    ) -> None:
        """Resolve the futures of the callers in their own thread, with one wake-up."""

        def answer() -> None:
            for done, outcome in results:
                if done.done():  # the caller was cancelled
                    continue
                if isinstance(outcome, Exception):
                    done.set_exception(outcome)
                else:
                    done.set_result(outcome)
            if grown:
                self._on_commit(grown)

        with suppress(RuntimeError):  # the loop is closed, so there are no callers
            self._loop.call_soon_threadsafe(answer)
