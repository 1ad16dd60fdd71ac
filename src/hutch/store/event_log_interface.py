"""The interface of the event log, independent of its storage."""

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Collection, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from sqlalchemy import Connection

from hutch.domain.errors import Conflict
from hutch.domain.event_query import EventQuery
from hutch.domain.events import Entry, Event, UnknownEvent
from hutch.domain.ids import SessionId
from hutch.domain.log_entry_audience import Reader, VisibleEntry
from hutch.store.hash_chain import Record
from hutch.store.newest_events_over_sessions import NewestEvents, Place
from hutch.store.signed_log_head_statements import Statement
from hutch.system.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Head:
    """The newest position in a session's log."""

    session_id: SessionId
    seq: int
    hash: str
    at_ms: int
    opened_ms: int
    ended: bool


@dataclass(frozen=True, slots=True)
class SearchResult:
    """Entries that match, in the order of the search; `next`: the last event that was examined, None when
    all were."""

    entries: list[VisibleEntry]
    next: int | None


class ErasedMeanwhile(Conflict):
    """A payload was erased while its log was being exported; a retry will omit it."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """All that a third party needs to check a log up to `head`.

    With `defects`, parts of the log are missing: the record holds the rest and does not verify.
    """

    head: Head
    records: AsyncIterator[Record]
    statements: Sequence[Statement]
    public_keys: dict[str, bytes]
    defects: Sequence[str] = ()


Listener = Callable[[SessionId, Sequence[Event | UnknownEvent]], None]
AlsoWrite = Callable[[Connection], object]
"""Writes rows in the transaction of an append. Only this package makes one; others pass it on."""


class EventLog(Protocol):
    """One append-only, hash-chained, signed log per session."""

    listeners: list[Listener]
    """Called in this process with the events that it appended, once they are durable."""

    async def append(
        self,
        session_id: SessionId,
        events: Sequence[Event | UnknownEvent],
        *,
        expected_seq: int | None = None,
        also: AlsoWrite | None = None,
    ) -> Head:
        """Append events, all or none; they are durable when this returns. `also` writes rows in the
        same transaction.

        The first event of a log is `session.opened`; nothing follows `session.ended`.
        With `expected_seq`, refuse if another writer has appended since.
        """
        ...

    async def flush(self, session_id: SessionId) -> None:
        """Wait until all pending appends are on disk; raise if one failed."""
        ...

    def can_record(self, session_id: SessionId) -> bool:
        """False if `check_can_record` would raise, as far as that is known without waiting."""
        ...

    async def check_can_record(self, session_id: SessionId) -> None:
        """Raise if new work could not be recorded, for example because the disk is full or the log has
        reached its size limit. Call it before an effect that is recorded only afterwards."""
        ...

    async def read(self, session_id: SessionId, *, after: int = 0, limit: int = 500) -> list[Entry]:
        """The next entries after a sequence number, oldest first.

        Raises `EventsMissing` if the next entry was recorded and is missing now.
        """
        ...

    async def page(
        self, session_id: SessionId, *, after: int = 0, limit: int = 500
    ) -> tuple[list[Entry], bool]:
        """The same, and whether there is more: further events, or one that is missing."""
        ...

    async def page_before(self, session_id: SessionId, *, before: int, limit: int) -> list[Entry]:
        """The last entries before a number, the oldest first."""
        ...

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
        """The next entries that match and that this reader may see. Examines a bounded part of the log;
        continue with `next` of the result as `after`, even if no entry was found."""
        ...

    async def newest(
        self,
        place: Place,
        query: EventQuery,
        *,
        before: int | None = None,
        after: int | None = None,
        limit: int = 100,
    ) -> NewestEvents:
        """The newest events over all sessions that a user may see, newest first. Examines a bounded part;
        continue with `next` as `before`. With `after`, those behind that position, oldest first."""
        ...

    async def newest_position(self) -> int:
        """The position of the newest event of all sessions."""
        ...

    def follow(self, session_id: SessionId, *, after: int = 0) -> AsyncGenerator[Entry]:
        """Every entry after a sequence number: first the existing ones, then new ones.

        Without gaps or repetition, whichever process writes; ends with the session. Raises
        `EventsMissing` at an event that was recorded and is missing now.
        """
        ...

    async def head(self, session_id: SessionId) -> Head: ...

    async def heads(self, *, limit: int = 100, before: SessionId | None = None) -> list[Head]:
        """Sessions, newest first."""
        ...

    async def erase(
        self,
        session_id: SessionId,
        seqs: Collection[int] | None,
        *,
        reason: str,
        keep: Collection[int] = (),
    ) -> int:
        """Erase payloads (all with None, except those in `keep`) and keep the chain; returns how many were
        erased now.

        Continues to its end even if the caller is cancelled.
        """
        ...

    async def count_payloads(self, session_id: SessionId) -> int:
        """The number of payloads that are not erased."""
        ...

    async def count_erasures(self, session_id: SessionId) -> int:
        """The number of erasures that the log has had; copies of events are outdated when it rises."""
        ...

    async def collect_garbage(self) -> int:
        """Delete blobs that crashes left and no event refers to; returns how many."""
        ...

    async def defects(self, session_id: SessionId) -> list[str]:
        """The missing parts of a log: events, or signed statements about them."""
        ...

    async def receipt(self, session_id: SessionId) -> Statement:
        """A signed statement of the head, to be stored elsewhere."""
        ...

    def evidence(self, session_id: SessionId, reader: Reader) -> AbstractAsyncContextManager[Evidence]:
        """A consistent view of the whole log with its signatures, signed up to its head.

        Payloads that this reader may not see are omitted like erased ones, and signed as withheld.
        """
        ...
