"""What the rest of Hutch may ask of the event log, wherever it rests."""

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Collection, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Protocol

from sqlalchemy import Connection

from hutch.domain.audience import Reader
from hutch.domain.errors import Conflict
from hutch.domain.events import Entry, Event, UnknownEvent
from hutch.domain.ids import SessionId
from hutch.store.hash_chain import Record
from hutch.store.signing import Statement


@dataclass(frozen=True, slots=True)
class Head:
    """The newest place in a session's log."""

    session_id: SessionId
    seq: int
    hash: str
    at_ms: int
    opened_ms: int
    ended: bool


class ErasedMeanwhile(Conflict):
    """A payload was erased while its log was being exported; the next try will not see it."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """All that a third party needs to check a log up to `head`.

    With `defects`, parts of the log are missing: the record holds what is left, and does not verify.
    """

    head: Head
    records: AsyncIterator[Record]
    statements: Sequence[Statement]
    public_keys: dict[str, bytes]
    defects: Sequence[str] = ()


Listener = Callable[[SessionId, Sequence[Event | UnknownEvent]], None]


class EventLog(Protocol):
    """One append-only, hash-chained, signed log per session."""

    listeners: list[Listener]
    """Told in this process of what it has appended, once that is durable; for those who count."""

    async def append(
        self,
        session_id: SessionId,
        events: Sequence[Event | UnknownEvent],
        *,
        expected_seq: int | None = None,
        also: Callable[[Connection], object] | None = None,
    ) -> Head:
        """Add events, all or none; they are durable when this returns. Rows that `also` writes are
        there with them, or neither.

        The first event of a log is `session.opened`; nothing follows `session.ended`.
        With `expected_seq`, refuse when somebody else has written since.
        """
        ...

    async def flush(self, session_id: SessionId) -> None:
        """Wait until all that was to be appended so far is on disk; raise when something could not be."""
        ...

    def can_record(self, session_id: SessionId) -> bool:
        """What `admit` says, as far as that is known without waiting."""
        ...

    async def check_can_record(self, session_id: SessionId) -> None:
        """Raise when something that is about to begin could not be recorded: the disk is full, say, or the
        log is as large as it may be. Ask before an effect that is recorded only after it."""
        ...

    async def read(self, session_id: SessionId, *, after: int = 0, limit: int = 500) -> list[Entry]:
        """The next entries after a sequence number, oldest first.

        Raises `EventsMissing` when the next one was recorded and is no longer there.
        """
        ...

    async def page(
        self, session_id: SessionId, *, after: int = 0, limit: int = 500
    ) -> tuple[list[Entry], bool]:
        """The same, and whether there is more: further events, or one that is missing."""
        ...

    def follow(self, session_id: SessionId, *, after: int = 0) -> AsyncGenerator[Entry]:
        """Every entry after a sequence number, first what is there, then what comes.

        Without gap or repetition, whichever process writes; ends with the session. Raises
        `EventsMissing` at an event that was recorded and is no longer there.
        """
        ...

    async def head(self, session_id: SessionId) -> Head: ...

    async def heads(self, *, limit: int = 100, before: SessionId | None = None) -> list[Head]:
        """Sessions, newest first."""
        ...

    async def erase(self, session_id: SessionId, seqs: Collection[int] | None, *, reason: str) -> int:
        """Erase payloads (all of them with None), keep the chain; how many were erased now.

        Goes on to its end even if the caller does not wait for it.
        """
        ...

    async def count_payloads(self, session_id: SessionId) -> int:
        """How many payloads are not erased."""
        ...

    async def collect_garbage(self) -> int:
        """Delete what crashes left lying about and no event names; how many things."""
        ...

    async def defects(self, session_id: SessionId) -> list[str]:
        """What is missing from a log: events, or signed statements about them."""
        ...

    async def receipt(self, session_id: SessionId) -> Statement:
        """A signed statement of the head, for somebody to keep elsewhere."""
        ...

    def evidence(self, session_id: SessionId, reader: Reader) -> AbstractAsyncContextManager[Evidence]:
        """A consistent view of the whole log with its signatures, signed up to its head.

        A payload that this reader may not see is left out as an erased one is, and signed as withheld.
        """
        ...
