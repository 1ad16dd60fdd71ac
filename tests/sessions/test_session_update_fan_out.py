"""A follower of a session gets every entry once, and deltas while it keeps up."""

import asyncio
from contextlib import aclosing
from pathlib import Path

import pytest

from hutch.domain.errors import Conflict, NotFound
from hutch.domain.events import Entry, ErasedEvent, MessageSent, SessionEnded, SessionOpened
from hutch.domain.ids import SessionId, new_session_id
from hutch.domain.log_entry_audience import WHOLE
from hutch.sessions import session_update_fan_out as channel_module
from hutch.sessions.interface import Delta
from hutch.sessions.session_update_fan_out import Channels
from hutch.store.event_log import SqlLog, open_log

pytestmark = pytest.mark.anyio


def message_event(number: int, chars: int = 10) -> MessageSent:
    return MessageSent(author="user", text=f"{number} ".ljust(chars, "x"))


async def begun(log: SqlLog, count: int = 0) -> SessionId:
    session_id = new_session_id()
    await log.append(session_id, [SessionOpened(), *(message_event(number) for number in range(count))])
    return session_id


async def numbers(
    channels: Channels, session_id: SessionId, *, after: int = 0, pause_s: float = 0
) -> list[int]:
    """All numbers until the end of the session."""
    found = []
    async for update in channels.follow(session_id, WHOLE, after=after):
        if isinstance(update, Entry):
            found.append(update.seq)
        if pause_s:
            await asyncio.sleep(pause_s)
    return found


async def test_many_followers_each_get_everything_once(log: SqlLog) -> None:
    session_id = await begun(log, 50)
    channels = Channels(log)
    following = [asyncio.ensure_future(numbers(channels, session_id, after=after)) for after in (0, 7, 51)]
    for number in range(300):
        await log.append(session_id, [message_event(number)])
    following.append(asyncio.ensure_future(numbers(channels, session_id, after=100)))
    await log.append(session_id, [SessionEnded(outcome="done")])
    assert [await each for each in following] == [list(range(after + 1, 353)) for after in (0, 7, 51, 100)]
    assert channels.followers == 0


async def test_a_slow_follower_loses_no_entry_and_keeps_nothing_for_itself(log: SqlLog) -> None:
    session_id = await begun(log)
    channels = Channels(log)
    slow = asyncio.ensure_future(numbers(channels, session_id, pause_s=0.002))
    quick = asyncio.ensure_future(numbers(channels, session_id))
    heavy = channel_module.MAX_BUFFERED_BYTES // 8
    for number in range(40):
        await log.append(session_id, [message_event(number, heavy)])
        channels.publish(session_id, Delta("run_1", 1, "text", "x"))
    kept = channels._channels[session_id]._weight
    assert kept <= channel_module.MAX_BUFFERED_BYTES
    await log.append(session_id, [SessionEnded(outcome="done")])
    assert await slow == await quick == list(range(1, 43))


async def test_deltas_come_between_entries(log: SqlLog) -> None:
    session_id = await begun(log)
    channels = Channels(log)
    async with aclosing(channels.follow(session_id, WHOLE)) as updates:
        first = await anext(updates)
        assert isinstance(first, Entry) and first.seq == 1
        waiting = asyncio.ensure_future(anext(updates))
        await asyncio.sleep(0.05)
        delta = Delta("run_1", 1, "text", "Hel")
        channels.publish(session_id, delta)
        assert await waiting == delta
        await log.append(session_id, [message_event(1)])
        second = await anext(updates)
        assert isinstance(second, Entry) and second.seq == 2
    assert channels.followers == 0


async def test_a_follower_who_comes_in_the_middle_of_a_reply_gets_all_of_it(log: SqlLog) -> None:
    session_id = await begun(log)
    channels = Channels(log)
    for kind, text, call in (
        ("text", "Hel", ""),
        ("text", "lo", ""),
        ("call", "", "c1"),
        ("arguments", "{", "c1"),
    ):
        channels.publish(session_id, Delta("run_1", 1, kind, text, call), after=1)  # type: ignore[arg-type]
    async with aclosing(channels.follow(session_id, WHOLE)) as updates:
        got = [await anext(updates) for _ in range(5)]
        assert [(each.kind, each.text) for each in got if isinstance(each, Delta)] == [
            ("resumed", ""),
            ("text", "Hello"),
            ("call", ""),
            ("arguments", "{"),
        ]
        channels.publish(session_id, Delta("run_1", 1, "arguments", "}", "c1"), after=1)
        assert await anext(updates) == Delta("run_1", 1, "arguments", "}", "c1")
    channels.end_reply(session_id)
    async with aclosing(channels.follow(session_id, WHOLE)) as updates:
        await anext(updates)
        waiting = asyncio.ensure_future(anext(updates))
        await asyncio.sleep(0.05)
        channels.publish(session_id, Delta("run_1", 2, "text", "Next"), after=1)
        assert await waiting == Delta("run_1", 2, "text", "Next")


async def test_what_another_process_writes_comes_too(log: SqlLog, tmp_path: Path) -> None:
    session_id = await begun(log)
    channels = Channels(log)
    following = asyncio.ensure_future(numbers(channels, session_id))
    async with open_log(
        tmp_path / "hutch.db", tmp_path / "blobs", tmp_path / "keys" / "signing.pem"
    ) as other:
        await other.append(session_id, [message_event(1), SessionEnded(outcome="done")])
        assert await following == [1, 2, 3]


async def test_erased_content_is_not_sent_to_later_followers(log: SqlLog) -> None:
    session_id = await begun(log)
    channels = Channels(log)
    async with aclosing(channels.follow(session_id, WHOLE, after=1)) as first:
        waiting = asyncio.ensure_future(anext(first))
        await asyncio.sleep(0.05)  # it follows before anything is there
        for number in range(3):
            await log.append(session_id, [message_event(number)])
        followed = [await waiting, await anext(first), await anext(first)]
        assert [each.seq for each in followed if isinstance(each, Entry)] == [2, 3, 4]
        await log.erase(session_id, {3}, reason="a leak")
        async with aclosing(channels.follow(session_id, WHOLE, after=1)) as second:
            seen = [await anext(second) for _ in range(3)]
    assert [(each.seq, isinstance(each.event, ErasedEvent)) for each in seen if isinstance(each, Entry)] == [
        (2, False),
        (3, True),
        (4, False),
    ]


async def test_a_place_that_does_not_exist_is_refused(log: SqlLog) -> None:
    session_id = await begun(log)
    channels = Channels(log)
    with pytest.raises(Conflict, match="ends at event 1"):
        await anext(channels.follow(session_id, WHOLE, after=2))
    with pytest.raises(NotFound):
        await anext(channels.follow(new_session_id(), WHOLE))
    assert channels.followers == 0


async def test_a_session_that_is_over_is_streamed_to_its_end_and_no_further(log: SqlLog) -> None:
    session_id = await begun(log)
    await log.append(session_id, [SessionEnded(outcome="done")])
    channels = Channels(log)
    assert await numbers(channels, session_id) == [1, 2]
    assert await numbers(channels, session_id, after=2) == []


async def test_a_piece_comes_behind_the_entry_that_it_answers(log: SqlLog) -> None:
    session_id = await begun(log)
    channels = Channels(log)
    async with aclosing(channels.follow(session_id, WHOLE)) as updates:
        await anext(updates)
        waiting = asyncio.ensure_future(anext(updates))
        await asyncio.sleep(0.05)
        channels.publish(session_id, Delta("run_1", 2, "text", "Then"), after=2)
        await log.append(session_id, [message_event(1)])
        first = await waiting
        assert isinstance(first, Entry) and first.seq == 2
        assert await anext(updates) == Delta("run_1", 2, "text", "Then")
