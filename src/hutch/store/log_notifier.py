"""Notifies subscribers when a log has grown.

The writer of the same process passes on the new entries, so a subscriber that keeps up
never queries the database. For commits of other processes, a thread polls SQLite every
few milliseconds while there are subscribers.
"""

import asyncio
import sqlite3
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from threading import Event, Thread
from typing import cast

import structlog
from sqlalchemy import Connection, Engine

from hutch.domain.events import Entry
from hutch.domain.ids import SessionId
from hutch.system.lazy_dataclass import dataclass

WATCH_INTERVAL_S = 0.008
NEWEST = "SELECT max(position) FROM events"
GROWN = "SELECT session_id, seq FROM logs WHERE id IN (SELECT DISTINCT log_id FROM events WHERE position > ?)"
MAX_BUFFERED_ENTRIES = 32  # small ones; a subscriber that is further behind reads the log

logger = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class LogGrowth:
    """The new length of a log, and its new entries if they are in memory."""

    seq: int
    entries: Sequence[Entry] = ()


class Subscription:
    """The buffer of one subscriber."""

    def __init__(self) -> None:
        self._seq = 0
        self._must_check = False
        self._buffered: deque[Entry] = deque(maxlen=MAX_BUFFERED_ENTRIES)
        self._notified = asyncio.Event()

    def notify(self, growth: LogGrowth | None = None) -> None:
        """Report growth; without `growth`, the subscriber checks the log itself."""
        if growth is None:
            self._must_check = True
        else:
            self._seq = max(self._seq, growth.seq)
            self._buffered.extend(growth.entries)
        self._notified.set()

    async def wait(self, seq: int) -> None:
        """Wait until the log has, or may have, grown beyond this number."""
        while self._seq <= seq and not self._must_check:
            self._notified.clear()
            await self._notified.wait()
        self._must_check = False

    def take(self, after: int) -> list[Entry]:
        """The next entries after a number, if they are buffered."""
        found: list[Entry] = []
        for entry in self._buffered:
            if entry.seq == after + len(found) + 1:
                found.append(entry)
        self._buffered.clear()
        return found


class Notifier:
    """The subscriptions to all logs."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._loop = asyncio.get_running_loop()
        self._subscriptions: dict[SessionId, set[Subscription]] = {}
        self._followed = Event()
        self._closed = False
        self._thread: Thread | None = None

    @contextmanager
    def subscribe(self, session_id: SessionId) -> Iterator[Subscription]:
        """Subscribe to the log of this session."""
        if self._thread is None:
            self._thread = Thread(target=self._watch, name="store-watch", daemon=True)
            self._thread.start()
        subscription = Subscription()
        self._subscriptions.setdefault(session_id, set()).add(subscription)
        self._followed.set()
        try:
            yield subscription
        finally:
            self._subscriptions[session_id].discard(subscription)
            if not self._subscriptions[session_id]:
                del self._subscriptions[session_id]
            if not self._subscriptions and not self._closed:  # otherwise the thread would never see the end
                self._followed.clear()

    def notify(self, grown: Mapping[SessionId, LogGrowth]) -> None:
        for session_id, growth in grown.items():
            for subscription in self._subscriptions.get(session_id, ()):
                subscription.notify(growth)

    def notify_all(self) -> None:
        for subscriptions in self._subscriptions.values():
            for subscription in subscriptions:
                subscription.notify()

    async def close(self) -> None:
        """Stop watching; notify all subscribers once more so that they see the end."""
        self._closed = True
        self._followed.set()
        if self._thread:
            await asyncio.to_thread(self._thread.join)
        self.notify_all()

    # --- below here, everything runs in the watcher's thread ---

    def _watch(self) -> None:
        pause = Event()
        while self._followed.wait() and not self._closed:
            try:
                with self._engine.connect() as connection:
                    self._watch_while_followed(connection, pause)
            except Exception:  # subscribers depend on it: retry after any error
                logger.warning("store.watch_failed", exc_info=True)
                pause.wait(1.0)

    def _watch_while_followed(self, connection: Connection, pause: Event) -> None:
        # Without SQLAlchemy: this runs 125 times a second.
        database = cast(sqlite3.Connection, connection.connection.driver_connection)
        version = _version(database)
        position = _newest(database)
        self._loop.call_soon_threadsafe(self.notify_all)  # for commits before this thread started
        while self._followed.is_set() and not self._closed:
            pause.wait(WATCH_INTERVAL_S)
            now = _version(database)
            if now == version:
                continue
            version = now
            newest = _newest(database)
            if newest == position:
                continue
            if newest < position:  # rows were deleted: subscribers must check
                self._loop.call_soon_threadsafe(self.notify_all)
            grown = {SessionId(id): LogGrowth(seq) for id, seq in database.execute(GROWN, (position,))}
            position = newest
            self._loop.call_soon_threadsafe(self.notify, grown)


def _version(database: sqlite3.Connection) -> int:
    """A number that changes whenever any other connection commits."""
    return int(database.execute("PRAGMA data_version").fetchone()[0])


def _newest(database: sqlite3.Connection) -> int:
    return int(database.execute(NEWEST).fetchone()[0] or 0)
