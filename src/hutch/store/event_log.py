"""The event log in a database: append, read, follow, erase, export."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Collection, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import structlog
from sqlalchemy import Connection, Engine, func, select

from hutch.domain.errors import BadRequest, Conflict
from hutch.domain.event_query import EventQuery
from hutch.domain.events import Entry, Event, UnknownEvent
from hutch.domain.ids import SessionId, ensure_ids_above
from hutch.domain.log_entry_audience import Reader
from hutch.store import schema
from hutch.store.analytics_from_events import AnalyticsChange, AnalyticsState
from hutch.store.analytics_projection import AnalyticsProjection, erase_analytics
from hutch.store.database import BUSY_TIMEOUT_S, MAX_CONCURRENT_EXPORTS, DatabaseDamaged
from hutch.store.database_location import DatabaseLocation
from hutch.store.event_log_interface import Evidence, Head, Listener, SearchResult
from hutch.store.event_text_copy_erasure import collect_texts, erase_copies
from hutch.store.large_payload_files import Blobs
from hutch.store.log_damage_check import damaged_log, find_defects, missing_end
from hutch.store.log_head_signing import Notary
from hutch.store.log_notifier import Notifier
from hutch.store.log_reader import (
    count_erasures,
    count_payloads,
    read_entries,
    read_entries_before,
    read_head,
    read_public_keys,
    read_size,
    session_not_found,
    to_head,
)
from hutch.store.log_search import search_log
from hutch.store.log_size_limit import DEFAULT_LOG_BYTES, log_is_full
from hutch.store.log_write_sql import Transaction
from hutch.store.log_writer import Writer
from hutch.store.newest_events_over_sessions import NewestEvents, Place, find_newest, read_newest_position
from hutch.store.open_database import OpenDatabase, open_location
from hutch.store.payload_erasure import chunks, collect_blobs, delete_pending_blobs, erase_payloads
from hutch.store.projections import Projector
from hutch.store.schema import logs
from hutch.store.signed_log_head_statements import Signer, Statement
from hutch.store.signed_log_view import EvidenceView
from hutch.store.usage_from_events import UsageChange, UsageState
from hutch.store.usage_totals import UsageProjection, erase_usage

PAGE_EVENTS = 500
MAX_CONCURRENT_READS = 4
MAX_CONCURRENT_SEARCHES = 2  # so that other readers do not wait for them
MAX_REASON_CHARS = 1000
MAX_SEQ = 2**63 - 1
ANALYTICS_BATCH_EVENTS = 5_000  # a batch has one commit, whatever its size

T = TypeVar("T")

logger = structlog.get_logger()


@asynccontextmanager
async def open_log(
    location: DatabaseLocation,
    blobs: Path,
    signing_key: Path,
    *,
    busy_timeout_s: float = BUSY_TIMEOUT_S,
    log_bytes: int = DEFAULT_LOG_BYTES,
) -> AsyncIterator["SqlLog"]:
    """Open the event log in a database; on exit everything is written and signed."""
    database = await asyncio.to_thread(open_location, location, busy_timeout_s=busy_timeout_s)
    try:
        with database.translate_errors():
            await asyncio.to_thread(_raise_id_clock, database.engine)
            signer = Signer.open(signing_key)
            await asyncio.to_thread(_warn_of_new_key, database.engine, signer, signing_key)
            log = SqlLog(database, Blobs(blobs), signer, log_bytes)
        try:
            yield log
        finally:
            await log.close()
    finally:
        database.engine.dispose()


def _raise_id_clock(engine: Engine) -> None:
    """Make new ids larger than all stored ids, even if the clock was set back: rows are ordered by id."""
    tables = (schema.sessions, schema.runs, schema.changes, schema.comments, schema.reviews)
    accounts = (schema.users, schema.tokens, schema.browser_sessions, schema.links)
    with engine.connect() as connection:
        for column in (schema.logs.c.session_id, *(table.c.id for table in (*tables, *accounts))):
            ensure_ids_above(connection.scalar(select(func.max(column))) or "")


def _warn_of_new_key(engine: Engine, signer: Signer, path: Path) -> None:
    """Warn that the installation has a new signing key: verifiers pin the old one."""
    if not signer.is_new:
        return
    with engine.connect() as connection:
        before = sorted(read_public_keys(connection))
    if before:
        logger.warning(
            "store.signing_key_was_missing",
            file=str(path),
            new_key=signer.fingerprint,
            old_keys=before,
            help="Restore the old file from a backup, or give the new key to those who verify records.",
        )


class SqlLog:
    """`EventLog` over SQL: one writer thread, a few reader threads, and a free event loop."""

    def __init__(
        self, database: OpenDatabase, blobs: Blobs, signer: Signer, log_bytes: int = DEFAULT_LOG_BYTES
    ) -> None:
        self.listeners: list[Listener] = []
        self._database = database
        self._blobs = blobs
        self._signer = signer
        self._log_bytes = log_bytes
        self._notifier = Notifier(database.commit_watch())
        self._readers = ThreadPoolExecutor(MAX_CONCURRENT_READS, thread_name_prefix="store-read")
        self._notary = Notary(signer)
        self.database_files = database.files
        self._writer = Writer(database, blobs, self._notary, self._notifier.notify, log_bytes)
        self._searches = asyncio.Semaphore(MAX_CONCURRENT_SEARCHES)
        self._exports = asyncio.Semaphore(MAX_CONCURRENT_EXPORTS)
        self._unfinished: set[asyncio.Task[Any]] = set()
        self._closed = False

    async def append(
        self,
        session_id: SessionId,
        events: Sequence[Event | UnknownEvent],
        *,
        expected_seq: int | None = None,
        also: Callable[[Connection], object] | None = None,
    ) -> Head:
        head = await self._writer.append(session_id, events, expected_seq, also)
        for listener in self.listeners:
            try:
                listener(session_id, events)
            except Exception:  # the events are durable even if a listener fails
                logger.exception("log.listener_failed", session_id=session_id)
        return head

    async def flush(self, session_id: SessionId) -> None:
        await self._writer.flush(session_id)

    def can_record(self, session_id: SessionId) -> bool:
        return self._writer.can_record(session_id)

    async def check_can_record(self, session_id: SessionId) -> None:
        await self._writer.check()
        if await self._read(lambda connection: read_size(connection, session_id)) > self._log_bytes:
            raise log_is_full(session_id, self._log_bytes)

    async def read(self, session_id: SessionId, *, after: int = 0, limit: int = PAGE_EVENTS) -> list[Entry]:
        entries, _ = await self.page(session_id, after=after, limit=limit)
        return entries

    async def page(
        self, session_id: SessionId, *, after: int = 0, limit: int = PAGE_EVENTS
    ) -> tuple[list[Entry], bool]:
        if not 0 <= after <= MAX_SEQ or not 1 <= limit <= MAX_SEQ:
            raise BadRequest(
                f"A page starts after event 0 or later and has 1 event or more, not {after}, {limit}."
            )
        return await self._read(
            lambda connection: read_entries(connection, self._blobs, session_id, after, limit)
        )

    async def page_before(self, session_id: SessionId, *, before: int, limit: int) -> list[Entry]:
        """The last entries before a number, the oldest first."""
        return await self._read(
            lambda connection: read_entries_before(connection, self._blobs, session_id, before, limit)
        )

    async def search(
        self,
        session_id: SessionId,
        query: EventQuery,
        reader: Reader,
        *,
        after: int | None = None,
        limit: int = 100,
        newest_first: bool = False,
    ) -> SearchResult:
        search = partial(search_log, after=after, limit=limit, newest_first=newest_first)
        async with self._searches:
            return await self._read(
                lambda connection: search(connection, self._blobs, session_id, query, reader)
            )

    async def follow(self, session_id: SessionId, *, after: int = 0) -> AsyncGenerator[Entry]:
        head = await self.head(session_id)
        if after > head.seq:
            raise Conflict(
                f"Session {session_id} ends at event {head.seq}, before {after}. Follow it from there."
            )
        if head.ended and after == head.seq:
            return
        with self._notifier.subscribe(session_id) as subscription:
            while not self._closed:
                entries, more = subscription.take(after), False
                if not entries:
                    entries, more = await self.page(session_id, after=after)
                for entry in entries:
                    yield entry
                    after = entry.seq
                    if entry.event.type == "session.ended":
                        return
                if head.ended and after >= head.seq:
                    raise missing_end(session_id)
                if not more:
                    await subscription.wait(after)

    async def head(self, session_id: SessionId) -> Head:
        return await self._read(lambda connection: read_head(connection, session_id))

    async def heads(self, *, limit: int = 100, before: SessionId | None = None) -> list[Head]:
        if not 1 <= limit <= MAX_SEQ:
            raise BadRequest(f"A page has 1 session or more, not {limit}.")
        query = select(logs).order_by(logs.c.session_id.desc()).limit(limit)
        if before is not None:
            query = query.where(logs.c.session_id < before)
        return await self._read(lambda connection: [to_head(row) for row in connection.execute(query)])

    async def erase(
        self,
        session_id: SessionId,
        seqs: Collection[int] | None,
        *,
        reason: str,
        keep: Collection[int] = (),
    ) -> int:
        if len(reason) > MAX_REASON_CHARS or _is_broken(reason):
            raise BadRequest(
                f"A reason is text of at most {MAX_REASON_CHARS} characters; this one has {len(reason)}."
            )
        head = await self.head(session_id)
        if beyond := [seq for seq in seqs or () if not 0 < seq <= head.seq]:
            raise BadRequest(f"Session {session_id} has no event {min(beyond)}; it has 1 to {head.seq}.")
        requested = set(range(1, head.seq + 1) if seqs is None else seqs).difference(keep)
        return await self._finish(self._erase(session_id, requested, reason, everything=seqs is None))

    async def count_payloads(self, session_id: SessionId) -> int:
        return await self._read(lambda connection: count_payloads(connection, session_id))

    async def count_erasures(self, session_id: SessionId) -> int:
        return await self._read(lambda connection: count_erasures(connection, session_id))

    async def collect_garbage(self) -> int:
        return await self._read(lambda connection: collect_blobs(connection, self._blobs))

    async def defects(self, session_id: SessionId) -> list[str]:
        return await self._read(lambda connection: find_defects(connection, session_id))

    async def receipt(self, session_id: SessionId) -> Statement:
        def read(connection: Connection) -> Head:
            if defects := find_defects(connection, session_id):
                raise damaged_log(session_id, defects)
            return read_head(connection, session_id)

        head = await self._read(read)
        return self._signer.sign("receipt", session_id, head.seq, head.hash)

    @asynccontextmanager
    async def evidence(self, session_id: SessionId, reader: Reader) -> AsyncIterator[Evidence]:
        async with self._exports:
            await self.head(session_id)
            await self._writer.work(lambda transaction: self._notary.sign_head(transaction, session_id))
            view = EvidenceView(self._database, self._blobs, session_id, reader, self._signer)
            async with view as evidence:
                yield evidence

    async def fetch(self, query: Callable[[Connection], T]) -> T:
        """`Rows`: read the tables beside the log."""
        return await self._read(query)

    async def change(self, do: Callable[[Connection], T]) -> T:
        """`Rows`: write in one transaction."""
        return await self._writer.work(lambda transaction: do(transaction.rows))

    async def newest(
        self,
        place: Place,
        query: EventQuery,
        *,
        before: int | None = None,
        after: int | None = None,
        limit: int = 100,
    ) -> NewestEvents:
        def find(connection: Connection) -> NewestEvents:
            return find_newest(connection, self._blobs, place, query, before=before, after=after, limit=limit)

        async with self._searches:
            return await self._read(find)

    async def newest_position(self) -> int:
        return await self._read(read_newest_position)

    def usage_projector(self) -> Projector[UsageState, UsageChange]:
        """The projector that updates the usage totals from this log."""
        return Projector(self, self._blobs, UsageProjection())

    def analytics_projector(
        self, *, batch_events: int = ANALYTICS_BATCH_EVENTS
    ) -> Projector[AnalyticsState, AnalyticsChange]:
        """The projector that updates the analytics from this log."""
        return Projector(self, self._blobs, AnalyticsProjection(), batch_events=batch_events)

    async def close(self) -> None:
        await self._finish(self._close())

    async def _close(self) -> None:
        others = self._unfinished - {asyncio.current_task()}
        if others:
            await asyncio.wait(others)
        self._closed = True
        await self._writer.close()
        await self._notifier.close()
        await asyncio.to_thread(self._readers.shutdown)
        self.database_files.close()

    async def _erase(
        self, session_id: SessionId, seqs: Collection[int], reason: str, *, everything: bool
    ) -> int:
        """Erase in chunks, each durable before the next, so that it can be repeated after a crash."""

        def erase(chunk: Sequence[int], transaction: Transaction) -> int:
            log = transaction.log(session_id)
            if log is None:
                raise session_not_found(session_id)
            texts = None if everything else collect_texts(transaction.rows, self._blobs, log.id, chunk)
            erase_copies(transaction.rows, session_id, texts)
            erase_usage(transaction.rows, session_id)
            erase_analytics(transaction.rows, session_id)
            return erase_payloads(transaction, self._signer, log, chunk, reason)

        erased = 0
        for chunk in chunks(seqs):
            erased += await self._writer.work(partial(erase, chunk))
        await self._writer.work(lambda transaction: delete_pending_blobs(transaction, self._blobs))
        if not await self._writer.scrub():
            logger.warning("erasure.lingers", session_id=session_id, until="older exports have finished")
        return erased

    async def _finish(self, work: Coroutine[Any, Any, T]) -> T:
        """Complete the work even if its caller is cancelled."""
        task = asyncio.get_running_loop().create_task(work)
        self._unfinished.add(task)
        task.add_done_callback(self._unfinished.discard)
        return await asyncio.shield(task)

    async def _read(self, query: Callable[[Connection], T]) -> T:
        """Run a query in a reader thread, and translate its errors."""
        if self._closed:
            raise Conflict("The event log is closed.")

        def run() -> T:
            try:
                with self._database.translate_errors(), self._database.engine.connect() as connection:
                    return query(connection)
            except DatabaseDamaged as error:
                self.database_files.fail(error)
                raise

        return await asyncio.get_running_loop().run_in_executor(self._readers, run)


def _is_broken(text: str) -> bool:
    """True if the text contains lone surrogates, which JSON cannot hold."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return True
    return False
