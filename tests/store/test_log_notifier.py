"""A subscriber receives new entries directly, and reads only what it did not receive."""

import asyncio
from contextlib import aclosing
from pathlib import Path

import pytest

from hutch.domain.events import Entry, MessageSent, SessionOpened, UnknownEvent
from hutch.domain.ids import SessionId, new_session_id
from hutch.store.commit_watch import LogGrowth
from hutch.store.data_version_watch import DataVersionWatch
from hutch.store.database import open_database
from hutch.store.database_location import DatabaseLocation
from hutch.store.event_log import SqlLog, open_log
from hutch.store.log_append_batch import INLINE_BYTES
from hutch.store.log_notifier import MAX_BUFFERED_ENTRIES, Notifier, Subscription
from tests.deadline import DEADLINE_S

pytestmark = pytest.mark.anyio

SESSION = SessionId("ses_01jd2m4c9k7w6t0q8n5x3vbaeh")


def entries(*seqs: int) -> list[Entry]:
    return [Entry(SESSION, seq, 0, MessageSent(author="agent", text=str(seq)), "") for seq in seqs]


def test_only_consecutive_entries_are_taken_and_only_once() -> None:
    subscription = Subscription()
    subscription.notify(LogGrowth(5, entries(3, 4, 5)))
    subscription.notify(LogGrowth(8, entries(7, 8)))
    assert [entry.seq for entry in subscription.take(3)] == [4, 5]
    assert subscription.take(5) == []


def test_nothing_is_taken_when_the_next_entry_is_not_buffered() -> None:
    subscription = Subscription()
    subscription.notify(LogGrowth(5, entries(4, 5)))
    assert subscription.take(2) == []


def test_an_unread_subscription_buffers_little() -> None:
    subscription = Subscription()
    for seq in range(1, 1000):
        subscription.notify(LogGrowth(seq, entries(seq)))
    assert subscription.take(0) == []
    for seq in range(1, 1000):
        subscription.notify(LogGrowth(seq, entries(seq)))
    assert len(subscription.take(999 - MAX_BUFFERED_ENTRIES)) == MAX_BUFFERED_ENTRIES


async def test_a_subscription_does_not_wake_for_known_events() -> None:
    subscription = Subscription()
    subscription.notify(LogGrowth(5))
    waiting = asyncio.ensure_future(subscription.wait(5))
    await asyncio.sleep(0)
    subscription.notify(LogGrowth(5))
    await asyncio.sleep(0.01)
    assert not waiting.done()
    subscription.notify(LogGrowth(6))
    await waiting


async def test_a_subscription_without_news_is_notified_once() -> None:
    subscription = Subscription()
    subscription.notify(LogGrowth(5))
    subscription.notify()
    await subscription.wait(5)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(subscription.wait(5), 0.01)


async def test_what_is_followed_is_what_is_read_whoever_wrote_it(
    log: SqlLog, location: DatabaseLocation, tmp_path: Path
) -> None:
    session_id = new_session_id()
    await log.append(session_id, [SessionOpened()])
    unknown = UnknownEvent("other.happened", b'{"type":"other.happened"}')
    known = UnknownEvent("message.sent", b'{"author":"agent","text":"as bytes","type":"message.sent","v":1}')
    texts = ["small", "x" * (INLINE_BYTES + 1), "small again"]
    events = [*(MessageSent(author="agent", text=text) for text in texts), unknown, known]

    async def write(into: SqlLog) -> None:
        for turn in range(40):
            await into.append(session_id, [events[turn % 5]] * (1 + turn % 3))

    async with open_log(location, tmp_path / "blobs", tmp_path / "keys" / "signing.pem") as other:
        writing = [asyncio.ensure_future(write(each)) for each in (log, other, log)]
        followed: list[Entry] = []
        wanted = 1 + 3 * sum(1 + turn % 3 for turn in range(40))
        async with asyncio.timeout(DEADLINE_S), aclosing(log.follow(session_id)) as coming:
            while len(followed) < wanted:
                followed.append(await anext(coming))
        await asyncio.gather(*writing)
    stored: list[Entry] = []
    while page := await log.read(session_id, after=len(stored)):
        stored += page
    assert followed == stored
    assert [entry.payload for entry in followed] == [entry.payload for entry in stored]


async def test_a_follower_who_leaves_during_the_end_does_not_hold_that_up(tmp_path: Path) -> None:
    engine = open_database(tmp_path / "hutch.db")
    subscriptions = Notifier(DataVersionWatch(engine))
    with subscriptions.subscribe(new_session_id()):
        closing = asyncio.create_task(subscriptions.close())
        await asyncio.sleep(0)
    async with asyncio.timeout(DEADLINE_S):
        await closing
    engine.dispose()
