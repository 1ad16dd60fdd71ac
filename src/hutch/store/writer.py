"""The one writer: many callers, one transaction, one sync to disk.

Callers hand their events over and wait. A thread takes all that has gathered,
links it into the chains, and commits; whoever comes meanwhile goes into the
next commit. The heads are read inside the write transaction, so that several
processes on one file cannot fork a log.
"""

import asyncio
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any, TypeVar

import structlog

from hutch.domain.errors import Conflict
from hutch.domain.events import Event, UnknownEvent
from hutch.domain.ids import SessionId
from hutch.store.batch import Append, Batch
from hutch.store.blobs import Blobs
from hutch.store.database import plain_errors
from hutch.store.erasure import delete_doomed_blobs
from hutch.store.seam import Head
from hutch.store.signing import Kind, Signer
from hutch.store.transaction import LogState, Transaction

BATCH_EVENTS = 1024
CHECKPOINT_EVENTS = 64
CHECKPOINT_S = 5.0

T = TypeVar("T")

logger = structlog.get_logger()


@dataclass(slots=True)
class Work:
    """Anything else that changes the database; it gets a transaction of its own."""

    do: Callable[[Transaction], Any]
    done: "asyncio.Future[Any]"


class Writer:
    """A thread that owns the only connection this process writes with."""

    def __init__(
        self,
        transaction: Transaction,
        path: Path,
        blobs: Blobs,
        signer: Signer,
        on_commit: Callable[[Iterable[SessionId]], None],
    ) -> None:
        self._transaction = transaction
        self._path = path
        self._blobs = blobs
        self._signer = signer
        self._on_commit = on_commit
        self._loop = asyncio.get_running_loop()
        self._queue: SimpleQueue[Append | Work | None] = SimpleQueue()
        self._unsigned_since: dict[SessionId, float] = {}
        self._closing = False
        self._thread = Thread(target=self._run, name="store-writer", daemon=True)
        self._thread.start()

    async def append(
        self, session_id: SessionId, events: Sequence[Event | UnknownEvent], expected_seq: int | None
    ) -> Head:
        done: asyncio.Future[Head] = self._loop.create_future()
        self._submit(Append(session_id, events, expected_seq, done))
        return await done

    async def work(self, do: Callable[[Transaction], T]) -> T:
        done: asyncio.Future[T] = self._loop.create_future()
        self._submit(Work(do, done))
        return await done

    async def close(self) -> None:
        """Write what is waiting, sign what is unsigned, and stop."""
        if not self._closing:
            self._closing = True
            self._queue.put(None)
        await asyncio.to_thread(self._thread.join)

    def _submit(self, job: Append | Work) -> None:
        if self._closing:
            raise Conflict("The event log is closed.")
        self._queue.put(job)

    # --- below here, everything runs in the writer's thread ---

    def _run(self) -> None:
        transaction = self._transaction
        try:
            open_, recovered = True, False
            while open_:
                jobs, open_ = self._gather()
                if jobs and not recovered:
                    recovered = self._recover(transaction)
                appends = [job for job in jobs if isinstance(job, Append)]
                if appends:
                    self._append_all(transaction, appends)
                for job in jobs:
                    if isinstance(job, Work):
                        self._do(transaction, job)
                self._sign_overdue(transaction, everything=not open_)
        finally:
            transaction.close()

    def _recover(self, transaction: Transaction) -> bool:
        """Before the first job, do what a crash left undone: sign heads, delete erased blobs."""
        try:
            transaction.begin()
            transaction.add_key(self._signer.fingerprint, self._signer.public_key)
            delete_doomed_blobs(transaction, self._blobs)
            for session_id in transaction.unsigned():
                self.sign_head(transaction, session_id)
            transaction.commit()
        except Exception:  # the job itself will say what is wrong; try again with the next one
            transaction.rollback()
            logger.warning("store.recovery_postponed", exc_info=True)
            return False
        return True

    def _gather(self) -> tuple[list[Append | Work], bool]:
        """All jobs that wait now, up to a batch; wait for the first, or until a signature is due."""
        jobs: list[Append | Work] = []
        events = 0
        timeout = None
        if self._unsigned_since:
            timeout = max(0.0, min(self._unsigned_since.values()) + CHECKPOINT_S - time.monotonic())
        try:
            job = self._queue.get(timeout=timeout)
            while job is not None:
                jobs.append(job)
                events += len(job.events) if isinstance(job, Append) else 1
                if events >= BATCH_EVENTS:
                    return jobs, True
                job = self._queue.get_nowait()
            return jobs, False
        except Empty:
            return jobs, True

    def _append_all(self, transaction: Transaction, jobs: list[Append]) -> None:
        batch = Batch(transaction, self._blobs)
        try:
            with plain_errors(self._path):
                transaction.begin()
                results = [(job.done, batch.add(job)) for job in jobs]
                transaction.add_events(batch.rows)
                for log in batch.logs.values():
                    self._sign_if_due(transaction, log)
                    transaction.save_log(log)
                transaction.commit()
        except Exception as error:  # noqa: BLE001  whatever it was, the callers must hear it
            transaction.rollback()
            self._settle([(job.done, error) for job in jobs])
        else:
            now = time.monotonic()
            for log in batch.logs.values():
                if log.signed_seq < log.seq:
                    self._unsigned_since.setdefault(log.session_id, now)
                else:
                    self._unsigned_since.pop(log.session_id, None)
            self._settle(results, changed=list(batch.logs))

    def _do(self, transaction: Transaction, job: Work) -> None:
        outcome: Any
        try:
            with plain_errors(self._path):
                transaction.begin()
                outcome = job.do(transaction)
                transaction.commit()
        except Exception as error:  # noqa: BLE001  whatever it was, the caller must hear it
            transaction.rollback()
            outcome = error
        self._settle([(job.done, outcome)])

    def _sign_if_due(self, transaction: Transaction, log: LogState) -> None:
        if log.ended:
            self.sign(transaction, log, "end")
        elif log.seq - log.signed_seq >= CHECKPOINT_EVENTS:
            self.sign(transaction, log, "checkpoint")

    def sign(self, transaction: Transaction, log: LogState, kind: Kind) -> None:
        """Vouch for a log's head; the caller saves the log."""
        transaction.add_statement(log.id, self._signer.sign(kind, log.session_id, log.seq, log.hash))
        log.signed_seq = log.seq

    def sign_head(self, transaction: Transaction, session_id: SessionId) -> None:
        """Vouch for a log's head unless that is done already."""
        log = transaction.log(session_id)
        if log and log.signed_seq < log.seq:
            self.sign(transaction, log, "checkpoint")
            transaction.save_log(log)

    def _sign_overdue(self, transaction: Transaction, *, everything: bool) -> None:
        before = time.monotonic() - CHECKPOINT_S
        due = [
            session_id for session_id, since in self._unsigned_since.items() if everything or since <= before
        ]
        if not due:
            return
        try:
            with plain_errors(self._path):
                transaction.begin()
                for session_id in due:
                    self.sign_head(transaction, session_id)
                transaction.commit()
        except Exception:  # nobody waits for this one: try again when it is due again
            transaction.rollback()
            logger.warning("checkpoint.postponed", sessions=len(due), exc_info=True)
            now = time.monotonic()
            self._unsigned_since.update(dict.fromkeys(due, now))
        else:
            for session_id in due:
                del self._unsigned_since[session_id]

    def _settle(
        self,
        results: "Sequence[tuple[asyncio.Future[Any], Any]]",
        changed: Iterable[SessionId] = (),
    ) -> None:
        """Answer the callers, in their own thread, all with one wake-up."""

        def answer() -> None:
            for done, outcome in results:
                if done.cancelled():
                    continue
                if isinstance(outcome, Exception):
                    done.set_exception(outcome)
                else:
                    done.set_result(outcome)
            self._on_commit(changed)

        self._loop.call_soon_threadsafe(answer)
