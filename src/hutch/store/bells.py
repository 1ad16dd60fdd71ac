"""How followers learn that a log has grown.

In one process the writer rings. What other processes commit is seen by a
thread that asks SQLite whether its file has changed, every few milliseconds
while anybody follows, and rings too.
"""

import asyncio
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from threading import Event, Thread

import structlog
from sqlalchemy import Connection, Engine, func, select

from hutch.domain.ids import SessionId
from hutch.store.schema import events, logs

WATCH_INTERVAL_S = 0.008

logger = structlog.get_logger()


class Bells:
    """One bell for each follower; ringing it means: look again."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._loop = asyncio.get_running_loop()
        self._bells: dict[SessionId, set[asyncio.Event]] = {}
        self._followed = Event()
        self._closed = False
        self._thread: Thread | None = None

    @contextmanager
    def subscribe(self, session_id: SessionId) -> Iterator[asyncio.Event]:
        """A bell for one follower of this session."""
        if self._thread is None:
            self._thread = Thread(target=self._watch, name="store-watch", daemon=True)
            self._thread.start()
        bell = asyncio.Event()
        self._bells.setdefault(session_id, set()).add(bell)
        self._followed.set()
        try:
            yield bell
        finally:
            self._bells[session_id].discard(bell)
            if not self._bells[session_id]:
                del self._bells[session_id]
            if not self._bells:
                self._followed.clear()

    def ring(self, session_ids: Iterable[SessionId]) -> None:
        for session_id in session_ids:
            for bell in self._bells.get(session_id, ()):
                bell.set()

    def ring_all(self) -> None:
        self.ring(list(self._bells))

    async def close(self) -> None:
        """Stop watching; followers are rung once more so that they see the end."""
        self._closed = True
        self._followed.set()
        if self._thread:
            await asyncio.to_thread(self._thread.join)
        self.ring_all()

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
        version = _version(connection)
        position = connection.scalar(select(func.max(events.c.position))) or 0
        self._loop.call_soon_threadsafe(self.ring_all)  # for what came before this thread looked
        while self._followed.is_set() and not self._closed:
            pause.wait(WATCH_INTERVAL_S)
            now = _version(connection)
            if now == version:
                continue
            version = now
            newest = connection.scalar(select(func.max(events.c.position))) or 0
            grown = select(logs.c.session_id).where(
                logs.c.id.in_(select(events.c.log_id).where(events.c.position > position).distinct())
            )
            changed = [SessionId(row[0]) for row in connection.execute(grown)]
            position = newest
            self._loop.call_soon_threadsafe(self.ring, changed)


def _version(connection: Connection) -> int:
    """A number that changes whenever any other connection commits."""
    return int(connection.exec_driver_sql("PRAGMA data_version").scalar_one())
