"""How followers learn that a log has grown.

In one process the writer rings, and hands over what it wrote: a follower who keeps up
never asks the database. What other processes commit is seen by a thread that asks
SQLite whether its file has changed, every few milliseconds while anybody follows, and
rings too.
"""

import asyncio
import sqlite3
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Event, Thread
from typing import cast

import structlog
from sqlalchemy import Connection, Engine

from hutch.domain.events import Entry
from hutch.domain.ids import SessionId

WATCH_INTERVAL_S = 0.008
NEWEST = "SELECT max(position) FROM events"
GROWN = "SELECT session_id, seq FROM logs WHERE id IN (SELECT DISTINCT log_id FROM events WHERE position > ?)"
MAX_BUFFERED_ENTRIES = (
    32  # entries that a bell holds; they are small ones, and who is further behind reads the log
)

logger = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class LogGrowth:
    """How far a log has grown, and the entries it grew by, as far as they are at hand."""

    seq: int
    entries: Sequence[Entry] = ()


class Subscription:
    """One follower's."""

    def __init__(self) -> None:
        self._seq = 0
        self._must_look = False
        self._fresh: deque[Entry] = deque(maxlen=MAX_BUFFERED_ENTRIES)
        self._rung = asyncio.Event()

    def notify(self, news: LogGrowth | None = None) -> None:
        """The log has grown; without news: look whether it has."""
        if news is None:
            self._must_look = True
        else:
            self._seq = max(self._seq, news.seq)
            self._fresh.extend(news.entries)
        self._rung.set()

    async def wait(self, seq: int) -> None:
        """Until the log has grown beyond this number, or may have."""
        while self._seq <= seq and not self._must_look:
            self._rung.clear()
            await self._rung.wait()
        self._must_look = False

    def take(self, after: int) -> list[Entry]:
        """The next entries after a number, if they are at hand."""
        found: list[Entry] = []
        for entry in self._fresh:
            if entry.seq == after + len(found) + 1:
                found.append(entry)
        self._fresh.clear()
        return found


class Notifier:
    """The bells of all followers."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._loop = asyncio.get_running_loop()
        self._bells: dict[SessionId, set[Subscription]] = {}
        self._followed = Event()
        self._closed = False
        self._thread: Thread | None = None

    @contextmanager
    def subscribe(self, session_id: SessionId) -> Iterator[Subscription]:
        """A bell for one follower of this session."""
        if self._thread is None:
            self._thread = Thread(target=self._watch, name="store-watch", daemon=True)
            self._thread.start()
        bell = Subscription()
        self._bells.setdefault(session_id, set()).add(bell)
        self._followed.set()
        try:
            yield bell
        finally:
            self._bells[session_id].discard(bell)
            if not self._bells[session_id]:
                del self._bells[session_id]
            if not self._bells and not self._closed:  # else the thread would never see that it is over
                self._followed.clear()

    def notify(self, grown: Mapping[SessionId, LogGrowth]) -> None:
        for session_id, news in grown.items():
            for bell in self._bells.get(session_id, ()):
                bell.notify(news)

    def notify_all(self) -> None:
        for bells in self._bells.values():
            for bell in bells:
                bell.notify()

    async def close(self) -> None:
        """Stop watching; followers are rung once more so that they see the end."""
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
            except Exception:  # followers depend on it: whatever it was, look again
                logger.warning("store.watch_failed", exc_info=True)
                pause.wait(1.0)

    def _watch_while_followed(self, connection: Connection, pause: Event) -> None:
        # Without SQLAlchemy: it is asked 125 times a second.
        database = cast(sqlite3.Connection, connection.connection.driver_connection)
        version = _version(database)
        position = _newest(database)
        self._loop.call_soon_threadsafe(self.notify_all)  # for what came before this thread looked
        while self._followed.is_set() and not self._closed:
            pause.wait(WATCH_INTERVAL_S)
            now = _version(database)
            if now == version:
                continue
            version = now
            newest = _newest(database)
            if newest == position:
                continue
            if newest < position:  # somebody has deleted rows: let followers find out
                self._loop.call_soon_threadsafe(self.notify_all)
            news = {SessionId(id): LogGrowth(seq) for id, seq in database.execute(GROWN, (position,))}
            position = newest
            self._loop.call_soon_threadsafe(self.notify, news)


def _version(database: sqlite3.Connection) -> int:
    """A number that changes whenever any other connection commits."""
    return int(database.execute("PRAGMA data_version").fetchone()[0])


def _newest(database: sqlite3.Connection) -> int:
    return int(database.execute(NEWEST).fetchone()[0] or 0)
