"""Projections: rows that are computed from the events of all logs, in commit order.

A projection has a cursor: the position of the last event that its rows include. Rows and cursor are
written in one transaction, so a crash leaves both or neither. Events are read and folded in a reader
thread; the writer gets only the few resulting rows of a batch.

An erasure marks its log and deletes the log's rows in the same transaction. The rest of the log is then
folded again, so a projection that has caught up equals a fold over the current logs.
"""

import asyncio
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any, Generic, Protocol, TypeVar

import structlog
from sqlalchemy import ColumnElement, Connection, delete, func, select
from sqlalchemy.dialects.sqlite import insert

from hutch.domain.errors import HutchError
from hutch.domain.events import Entry, ErasedEvent, Event, UnknownEvent, from_json
from hutch.domain.ids import SessionId
from hutch.store.event_log_interface import Listener
from hutch.store.large_payload_files import BlobMissing, Blobs
from hutch.store.schema import events, logs, projections, stale_projections
from hutch.store.table_access_interface import Rows

BATCH_EVENTS = 500
MAX_BATCH_BYTES = 1_000_000  # of payloads, but for the last one: all events of a batch are in memory
MAX_SCANNED_EVENTS = 20_000  # of any type, in one batch: a long read delays the checkpoints of the database
COALESCE_DELAY_S = 0.5  # after an append: later appends share a commit
POLL_INTERVAL_S = 5.0  # for changes by other processes
RETRY_DELAY_S = 5.0
_READ = ("position", "seq", "at_ms", "type", "payload_hash", "hash", "salt", "payload")
logger = structlog.get_logger()

State = TypeVar("State")
Change = TypeVar("Change")


class Projection(Protocol[State, Change]):
    """A fold and its rows. Each row belongs to one session."""

    name: str
    version: int  # increased when the same events give different rows: then all logs are folded again
    types: Collection[str]  # of the events that matter to it

    def read_state(self, connection: Connection, session_ids: Collection[str]) -> State:
        """The state after the earlier events of these sessions; without sessions, the initial state."""
        ...

    def fold(self, state: State, entries: Sequence[Entry]) -> Change:
        """The changes by these entries. Updates `state` and nothing else."""
        ...

    def write(
        self, connection: Connection, state: State, changes: Sequence[Change], without: Collection[str]
    ) -> None:
        """Add changes to the rows and store the state, except for the sessions in `without`."""
        ...

    def clear(self, connection: Connection, session_id: str | None) -> None:
        """Delete the rows of a session; with None, all."""
        ...


class ProjectedLog(Rows, Protocol):
    """The part of the log that a projection needs."""

    listeners: list[Listener]


def note_erasure(connection: Connection, session_id: str) -> None:
    """Make every projection fold a log again, because this transaction erases payloads of it."""
    more = {"erasures": stale_projections.c.erasures + 1}
    for name in connection.scalars(select(projections.c.name)).all():
        noted = insert(stale_projections).values(projection=name, session_id=session_id, erasures=1)
        key = ["projection", "session_id"]
        connection.execute(noted.on_conflict_do_update(index_elements=key, set_=more))


class Projector(Generic[State, Change]):
    """Keeps the rows of one projection up to date with the logs."""

    def __init__(
        self,
        log: ProjectedLog,
        blobs: Blobs,
        projection: Projection[State, Change],
        *,
        batch_events: int = BATCH_EVENTS,
    ) -> None:
        self._log = log
        self._blobs = blobs
        self._projection = projection
        self._batch_events = batch_events
        self._is_own = stale_projections.c.projection == projection.name
        self._woken = asyncio.Event()

    async def run(self) -> None:
        """Follow the logs until it is cancelled."""
        self._log.listeners.append(self._wake)
        try:
            while True:
                self._woken.clear()
                try:
                    await self.catch_up()
                except (HutchError, OSError) as error:
                    logger.warning("projection.failed", name=self._projection.name, problem=str(error))
                    await asyncio.sleep(RETRY_DELAY_S)
                except Exception:  # a bug must not end the projector
                    logger.exception("projection.failed", name=self._projection.name)
                    await asyncio.sleep(RETRY_DELAY_S)
                await self._wait()
                await asyncio.sleep(COALESCE_DELAY_S)
        finally:
            self._log.listeners.remove(self._wake)

    async def catch_up(self) -> None:
        """Fold all events that the rows do not include yet."""
        if await self._log.fetch(self._is_other_version):
            await self._log.change(self._reset)
        while await self._fold_erased() or await self._fold_next():
            pass

    async def rebuild(self) -> None:
        """Drop all rows, and fold all logs from the beginning."""
        await self._log.change(self._reset)
        await self.catch_up()

    def _wake(self, session_id: SessionId, appended: Sequence[Event | UnknownEvent]) -> None:
        if any(event.type in self._projection.types for event in appended):
            self._woken.set()

    async def _wait(self) -> None:
        try:
            async with asyncio.timeout(POLL_INTERVAL_S):
                await self._woken.wait()
        except TimeoutError:
            return

    def _is_other_version(self, connection: Connection) -> bool:
        """True if the rows were written by another version, or do not exist."""
        version = select(projections.c.version).where(projections.c.name == self._projection.name)
        return connection.scalar(version) != self._projection.version

    def _reset(self, connection: Connection) -> None:
        self._projection.clear(connection, None)
        connection.execute(
            delete(stale_projections).where(stale_projections.c.projection == self._projection.name)
        )
        fresh = {"version": self._projection.version, "position": 0}
        made = insert(projections).values(name=self._projection.name, **fresh)
        connection.execute(made.on_conflict_do_update(index_elements=["name"], set_=fresh))

    # --- one batch: read in a reader thread, written by the writer if the cursor has not moved ---

    async def _fold_next(self) -> bool:
        """Fold the events after the cursor; True if there were any."""
        write = await self._log.fetch(self._read_next)
        if write is None:
            return False
        await self._log.change(write)
        return True

    def _read_next(self, connection: Connection) -> Callable[[Connection], None] | None:
        begin = read_position(connection, self._projection.name)
        last = min(read_newest(connection), begin + MAX_SCANNED_EVENTS)
        if begin >= last:
            return None
        found, is_cut = self._read(connection, events.c.position.between(begin + 1, last), events.c.position)
        end = found[-1][0] if is_cut else last
        entries = [entry for _, entry in found]
        state = self._projection.read_state(connection, {entry.session_id for entry in entries})
        change = self._projection.fold(state, entries)

        def write(connection: Connection) -> None:
            if read_position(connection, self._projection.name) != begin:
                return  # another process has folded them
            erased = set(connection.scalars(select(stale_projections.c.session_id).where(self._is_own)))
            self._projection.write(connection, state, [change], erased)
            self._move(connection, end)

        return write

    async def _fold_erased(self) -> bool:
        """Fold one log again that has lost payloads; True if there was one."""
        write = await self._log.fetch(self._read_erased)
        if write is None:
            return False
        await self._log.change(write)
        return True

    def _read_erased(self, connection: Connection) -> Callable[[Connection], None] | None:
        marked = connection.execute(select(stale_projections).where(self._is_own).limit(1)).first()
        if marked is None:
            return None
        cursor = read_position(connection, self._projection.name)
        state, changes, after, is_more = self._projection.read_state(connection, ()), [], 0, True
        log_id = connection.scalar(select(logs.c.id).where(logs.c.session_id == marked.session_id))
        of_log = (events.c.log_id == log_id) & (events.c.position <= cursor)
        while is_more:
            found, is_more = self._read(connection, of_log & (events.c.seq > after), events.c.seq)
            changes.append(self._projection.fold(state, [entry for _, entry in found]))
            after = found[-1][1].seq if found else after

        def write(connection: Connection) -> None:
            same = (
                stale_projections.c.session_id == marked.session_id,
                stale_projections.c.erasures == marked.erasures,
            )
            moved = read_position(connection, self._projection.name) != cursor
            if moved or not connection.execute(delete(stale_projections).where(self._is_own, *same)).rowcount:
                return  # something was folded or erased since the read: read again
            self._projection.clear(connection, marked.session_id)
            self._projection.write(connection, state, changes, ())

        return write

    def _read(
        self, connection: Connection, here: ColumnElement[bool], order: ColumnElement[int]
    ) -> tuple[list[tuple[int, Entry]], bool]:
        """A batch of the relevant events, each with its position; True if there may be more of them."""
        statement = (
            select(*(events.c[name] for name in _READ), logs.c.session_id)
            .join(logs, logs.c.id == events.c.log_id)
            .where(here, events.c.type.in_(self._projection.types))
            .order_by(order)
            .limit(self._batch_events)
        )
        found, read_bytes = [], 0
        rows: Iterable[Any] = connection.execute(statement)  # unpacked, as names would take longer
        for position, seq, at_ms, type_, payload_hash, hash_, salt, payload, session_id in rows:
            if payload is None and salt is not None:
                try:
                    payload = self._blobs.get(payload_hash)
                except BlobMissing:  # lost, or erased since: then the log is folded again
                    logger.warning("projection.blob_missing", session_id=session_id, seq=seq)
            event = ErasedEvent(type_, 0, "") if payload is None else from_json(payload, type_)
            found.append((position, Entry(session_id, seq, at_ms, event, hash_)))
            read_bytes += len(payload or b"")
            if read_bytes > MAX_BATCH_BYTES:
                return found, True
        return found, len(found) == self._batch_events

    def _move(self, connection: Connection, position: int) -> None:
        here = projections.c.name == self._projection.name
        connection.execute(projections.update().where(here).values(position=position))


def read_position(connection: Connection, name: str) -> int:
    """The position of the last event that is in a projection's rows."""
    return int(connection.scalar(select(projections.c.position).where(projections.c.name == name)) or 0)


def read_newest(connection: Connection) -> int:
    """The position of the newest event."""
    return int(connection.scalar(select(func.max(events.c.position))) or 0)
