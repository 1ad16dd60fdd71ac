"""What comes of a session, read once and handed to all who follow it.

One task reads the log; entries go into a short list that all followers share, and
deltas with them as they come. A follower who fell behind what the list still holds
reads the log by itself until it has caught up: it misses deltas, and never an
entry. So nothing is kept for anybody, however slow.
"""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress

import structlog

from hutch.domain.audience import Reader, filter_entry
from hutch.domain.errors import Conflict, EventsMissing, HutchError
from hutch.domain.events import Entry
from hutch.domain.ids import SessionId
from hutch.sessions.interface import Delta, Update
from hutch.store.interface import EventLog
from hutch.store.log_defects import missing_end

KEPT_BYTES = 1 << 19
KEPT_UPDATES = 256
PAGE_ENTRIES = 200
logger = structlog.get_logger()


class Channel:
    """The updates of one session, while somebody follows it."""

    def __init__(self, log: EventLog, session_id: SessionId) -> None:
        self.followers = 0
        self._log = log
        self._session_id = session_id
        self._kept: deque[tuple[Entry | Delta, int]] = deque()  # with what each weighs
        self._first = 0  # the place of the oldest one kept; places only ever rise
        self._weight = 0
        self._read_seq = 0  # of the last entry that was put in
        self._held: list[tuple[int, Delta]] = []  # that belong behind entries which are not here yet
        self._before = 0  # the number of the last entry before those that are kept
        self._news = asyncio.Event()
        self._reading: asyncio.Task[None] | None = None
        self._over: Exception | None = None  # why nothing more will come
        self._ended = False

    def publish(self, delta: Delta, after: int) -> None:
        """Hand on a piece of a reply, behind the entry of that number: what it answers comes first."""
        if after > self._read_seq:
            self._held.append((after, delta))
            del self._held[:-KEPT_UPDATES]
        else:
            self._put(delta, len(delta.text) + 100)

    async def follow(self, reader: Reader, after: int) -> AsyncGenerator[Update]:
        """Everything after a number, as this reader may see it."""
        head = await self._log.head(self._session_id)
        if after > head.seq:
            raise Conflict(
                f"Session {self._session_id} ends at event {head.seq}, before {after}. Follow it from there."
            )
        if head.ended and after == head.seq:
            return
        if self._reading is None:
            self._before = self._read_seq = head.seq
            self._reading = asyncio.ensure_future(self._read(head.seq))
        known = head.seq  # up to here it is read from the log: what the list has of that may be erased since
        place: int | None = None  # in the list; None while this one reads the log
        while True:
            if place is None:
                if head.ended and after >= known:
                    raise missing_end(self._session_id)
                if after >= max(self._before, known):
                    place = self._place_after(after)
                    continue
                entries = await self._log.read(self._session_id, after=after, limit=PAGE_ENTRIES)
                if not entries:  # the head of the log was set back, behind our back
                    raise EventsMissing(self._session_id, after + 1, max(self._before, known))
                for entry in entries:
                    yield filter_entry(entry, reader)
                    after = entry.seq
                    if entry.event.type == "session.ended":
                        return
            elif place < self._first:
                place = None  # too slow for the list
            elif place - self._first < len(self._kept):
                update = self._kept[place - self._first][0]
                place += 1
                if isinstance(update, Delta):
                    if reader.may_see(update.audience):
                        yield update
                    continue
                if update.seq <= after:
                    continue  # it was in the log before it was here
                after = update.seq
                yield filter_entry(update, reader)
                if update.event.type == "session.ended":
                    return
            elif self._over is not None:
                raise self._over
            elif self._ended:
                return
            else:
                await self._news.wait()

    def fail(self, error: Exception) -> None:
        """Raise an error to the followers, after everything that is in the log."""
        self._over = error
        self._wake()

    async def close(self) -> None:
        if self._reading is not None:
            self._reading.cancel()
            with suppress(asyncio.CancelledError):
                await self._reading

    def _place_after(self, seq: int) -> int:
        """The place of the first entry after a number, or the end of the list."""
        for index, (update, _) in enumerate(self._kept):
            if isinstance(update, Entry) and update.seq > seq:
                return self._first + index
        return self._first + len(self._kept)

    async def _read(self, after: int) -> None:
        try:
            async for entry in self._log.follow(self._session_id, after=after):
                self._put(entry, len(entry.payload) + 300)
                self._read_seq = entry.seq
                self._let_go()
            self._ended = True
        except HutchError as error:
            self._over = error
        except Exception as error:
            logger.exception("session.follow_failed", session_id=self._session_id)
            self._over = error
        self._wake()

    def _let_go(self) -> None:
        while self._held and self._held[0][0] <= self._read_seq:
            _, delta = self._held.pop(0)
            self._put(delta, len(delta.text) + 100)

    def _put(self, update: Entry | Delta, weight: int) -> None:
        self._kept.append((update, weight))
        self._weight += weight
        while len(self._kept) > KEPT_UPDATES or (self._weight > KEPT_BYTES and len(self._kept) > 1):
            gone, weighed = self._kept.popleft()
            self._weight -= weighed
            self._first += 1
            if isinstance(gone, Entry):
                self._before = gone.seq
        self._wake()

    def _wake(self) -> None:
        news, self._news = self._news, asyncio.Event()
        news.set()


class Channels:
    """The channels of all sessions that somebody follows."""

    def __init__(self, log: EventLog) -> None:
        self._log = log
        self._channels: dict[SessionId, Channel] = {}
        self._failure: Exception | None = None

    def fail(self, error: Exception) -> None:
        """Raise an error to all followers, now and later: nothing more will be recorded."""
        self._failure = self._failure or error
        for channel in self._channels.values():
            channel.fail(error)

    def publish(self, session_id: SessionId, delta: Delta, *, after: int = 0) -> None:
        if channel := self._channels.get(session_id):
            channel.publish(delta, after)

    async def follow(
        self, session_id: SessionId, reader: Reader, *, after: int = 0
    ) -> AsyncGenerator[Update]:
        channel = self._channels.get(session_id)
        if channel is None:
            channel = self._channels[session_id] = Channel(self._log, session_id)
            if self._failure is not None:
                channel.fail(self._failure)
        channel.followers += 1
        try:
            async with aclosing(channel.follow(reader, after)) as updates:
                async for update in updates:
                    yield update
        finally:
            channel.followers -= 1
            if not channel.followers:
                del self._channels[session_id]
                await channel.close()

    @property
    def followers(self) -> int:
        return sum(channel.followers for channel in self._channels.values())
