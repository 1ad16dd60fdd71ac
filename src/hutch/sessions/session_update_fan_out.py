"""Reads the updates of a session once and passes them to all followers.

One task reads the log. Entries, and deltas as they arrive, go into a short list that all
followers share. A follower that is too slow for the list reads the log itself until it has
caught up, and never misses an entry. So nothing is buffered per follower. One that comes in the
middle of a reply, or was too slow, gets what was written of it so far.
"""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress

import structlog

from hutch.domain.errors import Conflict, EventsMissing, HutchError
from hutch.domain.events import Entry
from hutch.domain.ids import SessionId
from hutch.domain.log_entry_audience import Reader, filter_entry
from hutch.sessions.interface import Delta, Update
from hutch.sessions.partial_replies import REPLY_KINDS, PartialReplies
from hutch.store.event_log_interface import EventLog, Head
from hutch.store.log_damage_check import missing_end

MAX_BUFFERED_BYTES = 1 << 19
MAX_BUFFERED_UPDATES = 256
PAGE_ENTRIES = 200
logger = structlog.get_logger()


class Channel:
    """The updates of one session, while it has followers."""

    def __init__(self, log: EventLog, session_id: SessionId, partial: PartialReplies) -> None:
        self.followers = 0
        self._log = log
        self._session_id = session_id
        self._partial = partial
        self._recent: deque[tuple[Entry | Delta, int, int]] = deque()  # each with its size, and its number
        self._first = 0  # the position of the oldest one in the list; positions never decrease
        self._weight = 0
        self._read_seq = 0  # of the last entry that was added
        self._held: list[tuple[int, Delta, int]] = []  # that follow entries which have not arrived yet
        self._before = 0  # the number of the last entry before those in the list
        self._news = asyncio.Event()
        self._reading: asyncio.Task[None] | None = None
        self._over: Exception | None = None  # why nothing more will come
        self._ended = False

    def publish(self, delta: Delta, after: int, number: int) -> None:
        """Pass on a part of a reply after entry number `after`, so that it follows the prompt it answers."""
        if after > self._read_seq:
            self._held.append((after, delta, number))
            del self._held[:-MAX_BUFFERED_UPDATES]
        else:
            self._put(delta, len(delta.text) + 100, number)

    async def follow(self, reader: Reader, after: int) -> AsyncGenerator[Update]:
        """Yield everything after an entry number, as this reader may see it."""
        head = await self._start_reading(after)
        if head.ended and after == head.seq:
            return
        known = head.seq  # up to here the log is read: entries in the list may have been erased since
        position: int | None = None  # in the list; None while this follower reads the log
        is_behind = True  # deltas were missed
        have = 0  # the number of the newest delta that this follower has
        while True:
            if position is None:
                if head.ended and after >= known:
                    raise missing_end(self._session_id)
                if after >= max(self._before, known):
                    position = self._position_after(after)
                    continue
                entries = await self._log.read(self._session_id, after=after, limit=PAGE_ENTRIES)
                if not entries:  # another process has set back the head of the log
                    raise EventsMissing(self._session_id, after + 1, max(self._before, known))
                for entry in entries:
                    yield filter_entry(entry, reader)
                    after = entry.seq
                    if entry.event.type == "session.ended":
                        return
            elif position < self._first:
                position, is_behind = None, True  # too slow for the list
            elif position - self._first < len(self._recent):
                update, _, number = self._recent[position - self._first]
                position += 1
                if isinstance(update, Delta):
                    is_old = update.kind in REPLY_KINDS and (is_behind or number <= have)
                    if not is_old and reader.may_see(update.audience):
                        yield update
                    continue
                if update.seq <= after:
                    continue  # this follower has read it from the log already
                after = update.seq
                yield filter_entry(update, reader)
                if update.event.type == "session.ended":
                    return
            elif self._over is not None:
                raise self._over
            elif self._ended:
                return
            elif is_behind and (
                (reply := self._partial.get(self._session_id)) is None or after >= reply.after
            ):
                is_behind = False
                have = reply.last if reply else 0
                for delta in reply.deltas(reader) if reply else ():
                    yield delta
            else:
                await self._news.wait()

    async def _start_reading(self, after: int) -> Head:
        """Start the only reader of the log, unless it runs. Returns the head that it starts from."""
        head = await self._log.head(self._session_id)
        if after > head.seq:
            raise Conflict(
                f"Session {self._session_id} ends at event {head.seq}, before {after}. Follow it from there."
            )
        if self._reading is None and not (head.ended and after == head.seq):
            self._before = self._read_seq = head.seq
            self._reading = asyncio.ensure_future(self._read(head.seq))
        return head

    def fail(self, error: Exception) -> None:
        """Raise an error to the followers, after everything that is in the log."""
        self._over = error
        self._wake()

    async def close(self) -> None:
        if self._reading is not None:
            self._reading.cancel()
            with suppress(asyncio.CancelledError):
                await self._reading

    def _position_after(self, seq: int) -> int:
        """The position of the first entry after a number, or the end of the list."""
        for index, (update, _, _) in enumerate(self._recent):
            if isinstance(update, Entry) and update.seq > seq:
                return self._first + index
        return self._first + len(self._recent)

    async def _read(self, after: int) -> None:
        try:
            async for entry in self._log.follow(self._session_id, after=after):
                self._put(entry, len(entry.payload) + 300)
                self._read_seq = entry.seq
                self._release_held()
            self._ended = True
        except HutchError as error:
            self._over = error
        except Exception as error:
            logger.exception("session.follow_failed", session_id=self._session_id)
            self._over = error
        self._wake()

    def _release_held(self) -> None:
        while self._held and self._held[0][0] <= self._read_seq:
            _, delta, number = self._held.pop(0)
            self._put(delta, len(delta.text) + 100, number)

    def _put(self, update: Entry | Delta, weight: int, number: int = 0) -> None:
        self._recent.append((update, weight, number))
        self._weight += weight
        while len(self._recent) > MAX_BUFFERED_UPDATES or (
            self._weight > MAX_BUFFERED_BYTES and len(self._recent) > 1
        ):
            gone, weighed, _ = self._recent.popleft()
            self._weight -= weighed
            self._first += 1
            if isinstance(gone, Entry):
                self._before = gone.seq
        self._wake()

    def _wake(self) -> None:
        news, self._news = self._news, asyncio.Event()
        news.set()


class Channels:
    """The channels of all sessions that have followers."""

    def __init__(self, log: EventLog) -> None:
        self._log = log
        self._channels: dict[SessionId, Channel] = {}
        self._partial = PartialReplies()
        self._failure: Exception | None = None

    def fail(self, error: Exception) -> None:
        """Raise an error to all followers, now and later: nothing more will be recorded."""
        self._failure = self._failure or error
        for channel in self._channels.values():
            channel.fail(error)

    def publish(self, session_id: SessionId, delta: Delta, *, after: int = 0) -> None:
        number = self._partial.add(session_id, delta, after)
        if channel := self._channels.get(session_id):
            channel.publish(delta, after, number)

    def end_reply(self, session_id: SessionId) -> None:
        """Forget the parts of a reply: the log has it whole, or it will not be continued."""
        self._partial.remove(session_id)

    async def follow(
        self, session_id: SessionId, reader: Reader, *, after: int = 0
    ) -> AsyncGenerator[Update]:
        channel = self._channels.get(session_id)
        if channel is None:
            channel = self._channels[session_id] = Channel(self._log, session_id, self._partial)
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
