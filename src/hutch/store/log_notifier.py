"""Notifies subscribers when a log has grown.

The writer of the same process passes on the new entries, so a subscriber that keeps up
never queries the database. Commits of other processes are watched by a thread while there
are subscribers.
"""

import asyncio
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from threading import Event, Thread

import structlog

from hutch.domain.events import Entry
from hutch.domain.ids import SessionId
from hutch.store.commit_watch import CommitWatch, LogGrowth

RETRY_DELAY_S = 1.0
MAX_BUFFERED_ENTRIES = 32  # small ones; a subscriber that is further behind reads the log

logger = structlog.get_logger()


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

    def __init__(self, watch: CommitWatch) -> None:
        self._commits = watch
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
                self._commits.interrupt()

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
            self._commits.interrupt()
            await asyncio.to_thread(self._thread.join)
        self.notify_all()

    # --- below here, everything runs in the watcher's thread ---

    def _watch(self) -> None:
        pause = Event()
        while self._followed.wait() and not self._closed:
            try:
                self._commits.run(lambda: self._followed.is_set() and not self._closed, self._report)
            except Exception:  # subscribers depend on it: retry after any error
                logger.warning("store.watch_failed", exc_info=True)
                pause.wait(RETRY_DELAY_S)

    def _report(self, grown: Mapping[SessionId, LogGrowth] | None) -> None:
        if grown is None:
            self._loop.call_soon_threadsafe(self.notify_all)
        else:
            self._loop.call_soon_threadsafe(self.notify, grown)
