"""The contract of every event log, whatever its storage."""

import asyncio
from contextlib import aclosing
from itertools import pairwise
from typing import Any

import pytest

from hutch.domain.errors import BadRequest, Conflict, LimitReached, NotFound
from hutch.domain.event_query import EventQuery
from hutch.domain.events import (
    Entry,
    ErasedEvent,
    Event,
    MessageSent,
    SessionEnded,
    SessionOpened,
    UnknownEvent,
)
from hutch.domain.ids import SessionId, new_session_id
from hutch.domain.log_entry_audience import OWNER_SIDE, PUBLIC, WHOLE, Reader
from hutch.store.event_log_interface import EventLog, SearchResult
from hutch.store.hash_chain import GENESIS, Record, hash_payload, link
from hutch.store.signed_log_head_statements import is_signed_by
from tests.deadline import DEADLINE_S

pytestmark = pytest.mark.anyio


def message_event(text: str) -> MessageSent:
    return MessageSent(author="agent", text=text)


async def opened(log: EventLog, *events: Event) -> SessionId:
    session_id = new_session_id()
    await log.append(session_id, [SessionOpened(purpose="a test"), *events])
    return session_id


async def take(log: EventLog, session_id: SessionId, count: int, after: int = 0) -> list[Entry]:
    """The first entries that a follower sees."""
    seen: list[Entry] = []
    async with asyncio.timeout(DEADLINE_S), aclosing(log.follow(session_id, after=after)) as entries:
        async for entry in entries:
            seen.append(entry)
            if len(seen) == count:
                break
    return seen


async def records(log: EventLog, session_id: SessionId) -> list[Record]:
    async with log.evidence(session_id, WHOLE) as evidence:
        return [record async for record in evidence.records]


async def test_what_was_appended_is_read_back_in_order(log: EventLog) -> None:
    session_id = await opened(log)
    head = await log.append(session_id, [message_event("one"), message_event("two")])
    entries = await log.read(session_id)
    assert [entry.event for entry in entries] == [
        SessionOpened(purpose="a test"),
        message_event("one"),
        message_event("two"),
    ]
    assert [entry.seq for entry in entries] == [1, 2, 3]
    assert (head.seq, head.hash, head.ended) == (3, entries[-1].hash, False)


async def test_a_page_starts_after_a_sequence_number_and_keeps_to_its_limit(log: EventLog) -> None:
    session_id = await opened(log, *(message_event(str(number)) for number in range(10)))
    assert [entry.seq for entry in await log.read(session_id, after=4, limit=3)] == [5, 6, 7]
    assert await log.read(session_id, after=11) == []


async def test_a_page_of_heavy_events_ends_early_but_never_empty(log: EventLog) -> None:
    session_id = await opened(log, *(message_event("x" * 300_000) for _ in range(4)))
    first = await log.read(session_id)
    assert 1 < len(first) < 5
    rest = await log.read(session_id, after=first[-1].seq)
    assert [entry.seq for entry in first + rest] == [1, 2, 3, 4, 5]


@pytest.mark.parametrize(("after", "limit"), [(-1, 10), (0, 0), (0, -5), (2**63, 1), (0, 2**63)])
async def test_a_page_without_sense_is_refused(log: EventLog, after: int, limit: int) -> None:
    with pytest.raises(BadRequest, match="A page starts after event 0"):
        await log.read(await opened(log), after=after, limit=limit)


async def test_large_payloads_come_back_whole(log: EventLog) -> None:
    large = message_event("ä" * 100_000)
    session_id = await opened(log, large)
    assert (await log.read(session_id))[1].event == large


async def test_an_event_over_the_limit_is_refused_and_nothing_is_written(log: EventLog) -> None:
    session_id = await opened(log)
    with pytest.raises(LimitReached, match="over the limit of 16,777,216"):
        await log.append(session_id, [message_event("fine"), message_event("x" * 17_000_000)])
    assert (await log.head(session_id)).seq == 1


async def test_an_unknown_event_is_carried_through_byte_for_byte(log: EventLog) -> None:
    payload = b'{"type":"moon.landed","v":7, "nested":{"b":1e300,"a":[12345678901234567890]}}'
    session_id = await opened(log)
    await log.append(session_id, [UnknownEvent("moon.landed", payload)])
    assert (await log.read(session_id))[-1].event == UnknownEvent("moon.landed", payload)


async def test_fields_that_a_newer_version_added_are_kept(log: EventLog) -> None:
    event = MessageSent.model_validate({"author": "user", "text": "hi", "mood": {"calm": True}})
    session_id = await opened(log, event)
    assert (await log.read(session_id))[-1].event == event


@pytest.mark.parametrize("type_", ['a"b.c', "Moon.Landed", "moon", "", "moon.landed\n", "x." * 5000])
async def test_an_event_type_that_could_confuse_the_chain_is_refused(log: EventLog, type_: str) -> None:
    session_id = await opened(log)
    with pytest.raises(BadRequest, match="is not an event type"):
        await log.append(session_id, [UnknownEvent(type_, b"{}")])


@pytest.mark.parametrize(
    "bad",
    [
        MessageSent.model_construct(author="user", text="lone surrogate \ud800"),
        MessageSent.model_construct(author="user", text=object()),
        Event(type='x","v":1}\x1b'),
        UnknownEvent("moon.landed", None),
        UnknownEvent("moon.landed", "text"),
        UnknownEvent("moon.landed", b"\xff\xfe"),
        UnknownEvent("moon.landed", b"not json"),
        UnknownEvent("moon.landed", b'{"type":"sun.set"}'),
        UnknownEvent("moon." + "x" * 200, b'{"type":"moon.x"}'),
        ErasedEvent("message.sent", 0, ""),
        None,
        7,
    ],
    ids=lambda bad: str(bad)[:30],
)
async def test_an_event_that_cannot_be_recorded_fails_alone(log: EventLog, bad: Any) -> None:
    session_id = await opened(log)
    results = await asyncio.gather(
        log.append(session_id, [message_event("before")]),
        log.append(session_id, [bad]),
        log.append(session_id, [message_event("after")]),
        return_exceptions=True,
    )
    assert isinstance(results[1], Exception)
    assert [entry.event for entry in await log.read(session_id, after=1)] == [
        message_event("before"),
        message_event("after"),
    ]


async def test_a_log_begins_with_session_opened_and_only_once(log: EventLog) -> None:
    stranger = new_session_id()
    with pytest.raises(NotFound, match=stranger):
        await log.append(stranger, [message_event("hello?")])
    session_id = await opened(log)
    with pytest.raises(Conflict, match="already open"):
        await log.append(session_id, [SessionOpened()])
    with pytest.raises(BadRequest, match="only be the first"):
        await log.append(session_id, [message_event("x"), SessionOpened()])


async def test_nothing_follows_the_end_of_a_session(log: EventLog) -> None:
    session_id = await opened(log)
    with pytest.raises(BadRequest, match="No event can follow"):
        await log.append(session_id, [SessionEnded(outcome="done"), message_event("and another thing")])
    await log.append(session_id, [SessionEnded(outcome="done")])
    with pytest.raises(Conflict, match="has ended at event 2"):
        await log.append(session_id, [message_event("and another thing")])


async def test_appending_nothing_is_refused(log: EventLog) -> None:
    with pytest.raises(BadRequest, match="no events"):
        await log.append(await opened(log), [])


async def test_a_writer_that_missed_an_event_is_refused(log: EventLog) -> None:
    session_id = await opened(log)
    await log.append(session_id, [message_event("first")], expected_seq=1)
    with pytest.raises(Conflict, match="is at event 2, not 1"):
        await log.append(session_id, [message_event("late")], expected_seq=1)


async def test_racing_writers_get_one_gapless_sequence(log: EventLog) -> None:
    session_id = await opened(log)
    heads = await asyncio.gather(
        *(log.append(session_id, [message_event(str(number))] * 3) for number in range(50))
    )
    assert sorted(head.seq for head in heads) == list(range(4, 152, 3))
    assert [entry.seq for entry in await log.read(session_id)] == list(range(1, 152))


async def test_a_follower_gets_history_then_news_without_gap_or_repetition(log: EventLog) -> None:
    session_id = await opened(log, message_event("history"))
    follower = asyncio.create_task(take(log, session_id, 42))
    for number in range(40):
        await log.append(session_id, [message_event(str(number))])
    assert [entry.seq for entry in await follower] == list(range(1, 43))


async def test_a_follower_can_go_on_from_any_point(log: EventLog) -> None:
    session_id = await opened(log, *(message_event(str(number)) for number in range(1200)))
    for after in (0, 1, 499, 500, 501, 1000):
        assert [entry.seq for entry in await take(log, session_id, 1201 - after, after)] == list(
            range(after + 1, 1202)
        )


async def test_following_ends_with_the_session(log: EventLog) -> None:
    session_id = await opened(log)
    follower = asyncio.create_task(take(log, session_id, 1000))
    await log.append(session_id, [message_event("bye"), SessionEnded(outcome="done")])
    assert (await follower)[-1].event == SessionEnded(outcome="done")
    assert await take(log, session_id, 1, after=3) == []


async def test_following_from_beyond_the_end_is_refused(log: EventLog) -> None:
    session_id = await opened(log)
    with pytest.raises(Conflict, match="ends at event 1, before 9"):
        await take(log, session_id, 1, after=9)


@pytest.mark.parametrize("ask", ["read", "head", "receipt", "erase", "follow", "records"])
async def test_a_session_that_does_not_exist_is_named(log: EventLog, ask: str) -> None:
    stranger = new_session_id()
    with pytest.raises(NotFound, match=stranger):
        match ask:
            case "read":
                await log.read(stranger)
            case "head":
                await log.head(stranger)
            case "receipt":
                await log.receipt(stranger)
            case "erase":
                await log.erase(stranger, None, reason="")
            case "follow":
                await take(log, stranger, 1)
            case "records":
                await records(log, stranger)


async def test_a_slow_follower_neither_slows_the_writer_nor_misses_anything(log: EventLog) -> None:
    session_id = await opened(log)
    async with asyncio.timeout(DEADLINE_S), aclosing(log.follow(session_id)) as slow:
        assert (await anext(slow)).seq == 1
        for number in range(3000):  # all acknowledged while the follower stands still
            await log.append(session_id, [message_event(str(number))])
        assert [(await anext(slow)).seq for _ in range(3000)] == list(range(2, 3002))


async def test_sessions_are_listed_newest_first_in_pages(log: EventLog) -> None:
    ids = [await opened(log) for _ in range(5)]
    first = await log.heads(limit=3)
    rest = await log.heads(limit=3, before=first[-1].session_id)
    assert [head.session_id for head in first + rest] == ids[::-1]


async def test_the_chain_can_be_recomputed_from_the_records(log: EventLog) -> None:
    session_id = await opened(
        log, message_event("one"), message_event("y" * 50_000), SessionEnded(outcome="done")
    )
    prev = GENESIS
    for record in await records(log, session_id):
        assert record.salt is not None and record.payload is not None
        assert record.payload_hash == hash_payload(record.salt, record.payload)
        prev = link(session_id, record.seq, record.at_ms, record.type, record.payload_hash, prev)
        assert record.hash == prev


async def test_checkpoints_are_signed_at_least_every_64_events(log: EventLog) -> None:
    session_id = await opened(log)
    for number in range(200):
        await log.append(session_id, [message_event(str(number))])
    await log.append(session_id, [SessionEnded(outcome="done")])
    hashes = {entry.seq: entry.hash for entry in await log.read(session_id)}
    async with log.evidence(session_id, WHOLE) as evidence:
        statements = evidence.statements
        assert all(is_signed_by(said_, evidence.public_keys[said_.key]) for said_ in statements)
    assert all(said_.hash == hashes[said_.seq] for said_ in statements)
    covered = [0, *(said_.seq for said_ in statements)]
    assert max(b - a for a, b in pairwise(covered)) <= 64
    assert (statements[-1].kind, statements[-1].seq) == ("end", 202)


async def test_evidence_is_signed_up_to_the_head_of_a_live_session(log: EventLog) -> None:
    session_id = await opened(log, message_event("still at work"))
    async with log.evidence(session_id, WHOLE) as evidence:
        assert (evidence.statements[-1].seq, evidence.statements[-1].hash) == (2, evidence.head.hash)


async def test_what_happens_in_the_block_stays_what_it_was(log: EventLog) -> None:
    session_id = await opened(log)
    for error in (TimeoutError("slow"), ConnectionResetError("gone"), ValueError("corrupt")):
        with pytest.raises(type(error)) as raised:
            async with log.evidence(session_id, WHOLE):
                raise error
        assert raised.value is error


async def test_many_exports_at_once_disturb_nobody(log: EventLog) -> None:
    session_id = await opened(log, message_event("one"))

    async def hold() -> int:
        async with log.evidence(session_id, WHOLE) as evidence:
            await asyncio.sleep(0.05)
            return len([record async for record in evidence.records])

    async with asyncio.timeout(DEADLINE_S):
        exports = [asyncio.create_task(hold()) for _ in range(40)]
        for _ in range(20):
            assert len(await log.read(session_id)) == 2
        assert await asyncio.gather(*exports) == [2] * 40


async def test_an_export_that_is_given_up_leaves_no_old_view_behind(log: EventLog) -> None:
    session_id = await opened(log, *(message_event("x" * 100) for _ in range(2000)))

    async def export() -> None:
        async with log.evidence(session_id, WHOLE) as evidence:
            async for _ in evidence.records:
                pass

    for number in range(20):
        task = asyncio.create_task(export())
        await asyncio.sleep(number / 1000)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        head = await log.append(session_id, [message_event("later")])
        async with log.evidence(session_id, WHOLE) as evidence:
            assert evidence.head.seq == head.seq


async def test_evidence_is_one_snapshot_whatever_happens_meanwhile(log: EventLog) -> None:
    session_id = await opened(log, message_event("secret"))
    async with log.evidence(session_id, WHOLE) as evidence:
        await log.append(session_id, [message_event("later")])
        await log.erase(session_id, [2], reason="meanwhile")
        seen = [record async for record in evidence.records]
        assert [record.seq for record in seen] == [1, 2]
        assert seen[1].payload is not None
        assert not [said_ for said_ in evidence.statements if said_.kind == "erasure"]


async def test_a_receipt_vouches_for_the_head(log: EventLog) -> None:
    session_id = await opened(log, message_event("one"))
    receipt = await log.receipt(session_id)
    head = await log.head(session_id)
    assert (receipt.kind, receipt.seq, receipt.hash) == ("receipt", head.seq, head.hash)
    async with log.evidence(session_id, WHOLE) as evidence:
        assert is_signed_by(receipt, evidence.public_keys[receipt.key])


async def test_erasing_takes_the_payload_and_leaves_the_chain(log: EventLog) -> None:
    session_id = await opened(
        log, message_event("secret"), message_event("z" * 50_000), message_event("harmless")
    )
    before = [record.hash for record in await records(log, session_id)]
    assert await log.erase(session_id, [2, 3], reason="asked by the user") == 2
    assert await log.erase(session_id, [2, 3], reason="again") == 0
    entries = await log.read(session_id)
    assert entries[3].event == message_event("harmless")
    for entry in entries[1:3]:
        assert isinstance(entry.event, ErasedEvent)
        assert (entry.event.type, entry.event.reason) == ("message.sent", "asked by the user")
    after = await records(log, session_id)
    assert [record.hash for record in after] == before
    assert [(record.salt, record.payload) for record in after[1:3]] == [(None, None)] * 2
    async with log.evidence(session_id, WHOLE) as evidence:
        erasures = [said_ for said_ in evidence.statements if said_.kind == "erasure"]
    assert [(said_.seq, said_.hash) for said_ in erasures] == [
        (record.seq, record.payload_hash) for record in after[1:3]
    ]


@pytest.mark.parametrize("seq", [0, -1, 2, 2**70])
async def test_erasing_an_event_that_does_not_exist_is_refused(log: EventLog, seq: int) -> None:
    session_id = await opened(log)
    with pytest.raises(BadRequest, match=f"has no event {seq}; it has 1 to 1"):
        await log.erase(session_id, [1, seq], reason="")
    assert not isinstance((await log.read(session_id))[0].event, ErasedEvent)


async def test_an_endless_reason_is_refused(log: EventLog) -> None:
    session_id = await opened(log)
    with pytest.raises(BadRequest, match="at most 1000 characters; this one has 1001"):
        await log.erase(session_id, None, reason="x" * 1001)


async def test_an_ended_session_can_be_erased_whole(log: EventLog) -> None:
    session_id = await opened(log, message_event("secret"), SessionEnded(outcome="done"))
    assert await log.erase(session_id, None, reason="retention") == 3
    assert all(isinstance(entry.event, ErasedEvent) for entry in await log.read(session_id))
    assert [entry.seq for entry in await take(log, session_id, 9)] == [1, 2, 3]


async def test_listeners_get_appended_events_and_no_refused_ones(
    log: EventLog,
) -> None:
    received: list[tuple[str, list[str]]] = []
    log.listeners.append(
        lambda session_id, events: received.append((session_id, [each.type for each in events]))
    )
    session_id = new_session_id()
    await log.append(session_id, [SessionOpened(purpose="x")])
    with pytest.raises(Conflict):
        await log.append(session_id, [SessionOpened(purpose="again")])
    assert received == [(session_id, ["session.opened"])]


async def test_what_is_written_stays_so_whatever_a_listener_does(log: EventLog) -> None:
    def fails(*_: object) -> None:
        raise ValueError("cannot count")

    received: list[str] = []
    log.listeners += [fails, lambda session_id, _: received.append(session_id)]
    session_id = new_session_id()
    assert (await log.append(session_id, [SessionOpened(purpose="x")])).seq == 1
    assert received == [session_id]


async def matches(
    log: EventLog, session_id: SessionId, query: EventQuery, reader: Reader = WHOLE, **how: Any
) -> tuple[list[int], int]:
    """The numbers of all entries that match, and in how many pages they came."""
    found, pages, after = [], 0, None
    while True:
        page = await log.search(session_id, query, reader, after=after, **how)
        found += [entry.seq for entry in page.entries]
        pages, after = pages + 1, page.next
        if after is None:
            return found, pages


async def test_a_search_finds_text_kinds_and_authors_in_both_orders(log: EventLog) -> None:
    session_id = await opened(
        log,
        message_event("Red fox"),
        message_event("blue"),
        message_event("a red door"),
        message_event("x" * 20_000 + "RED"),
    )
    red = EventQuery("red")
    assert await matches(log, session_id, red) == ([2, 4, 5], 1)
    assert await matches(log, session_id, red, newest_first=True) == ([5, 4, 2], 1)
    assert (await matches(log, session_id, red, limit=1))[0] == [2, 4, 5]
    assert (await matches(log, session_id, red, limit=1, newest_first=True))[0] == [5, 4, 2]
    assert (await matches(log, session_id, EventQuery(kinds=("session.",))))[0] == [1]
    assert (await matches(log, session_id, EventQuery("red", authors={"agent"})))[0] == [2, 4, 5]
    assert (await matches(log, session_id, EventQuery("red", authors={"hutch"})))[0] == []


async def test_a_search_by_time_includes_both_moments(log: EventLog) -> None:
    session_id = await opened(log)
    for text in ("one", "two", "three"):
        await log.append(session_id, [message_event(text)])
        await asyncio.sleep(0.003)
    times = [entry.at_ms for entry in await log.read(session_id)]
    found = await matches(log, session_id, EventQuery(since_ms=times[2], until_ms=times[2]))
    assert found[0] == [seq for seq, at_ms in enumerate(times, 1) if at_ms == times[2]]
    assert (await matches(log, session_id, EventQuery(since_ms=times[-1] + 1)))[0] == []
    assert (await matches(log, session_id, EventQuery(until_ms=times[0] - 1)))[0] == []


async def test_a_search_examines_a_long_log_in_parts(log: EventLog) -> None:
    session_id = await opened(log, message_event("first"))
    for _ in range(3):
        await log.append(session_id, [message_event("x")] * 5000)
    assert await matches(log, session_id, EventQuery("first")) == ([2], 2)
    assert await matches(log, session_id, EventQuery("first"), newest_first=True) == ([2], 2)
    heavy = await opened(log, *[message_event("y" * 1_500_000)] * 6, message_event("last"))
    assert await matches(log, heavy, EventQuery("last")) == ([8], 3)


async def test_a_search_does_not_depend_on_events_that_its_reader_may_not_see(log: EventLog) -> None:
    """Not even its pages do: for a word in a private note they are as for a word that is nowhere."""
    notes = [
        MessageSent(author="user", text=f"note {number} " + "n" * 900_000, audience=OWNER_SIDE)
        for number in range(6)
    ]
    session_id = await opened(log, message_event("public"), *notes, message_event("public"))

    async def pages(text: str, **how: Any) -> list[object]:
        found, after = [], None
        while True:
            page = await log.search(session_id, EventQuery(text), PUBLIC, after=after, **how)
            found.append(page)
            if (after := page.next) is None:
                return found

    for how in ({}, {"newest_first": True}, {"limit": 1}):
        assert await pages("note", **how) == await pages("absent", **how) == [SearchResult([], None)]
        assert (await matches(log, session_id, EventQuery("public"), PUBLIC, **how))[1] <= 3
    assert (await matches(log, session_id, EventQuery("note 3"), Reader("usr_x", owner_side=True)))[0] == [6]
    assert (await matches(log, session_id, EventQuery(kinds=("message.",)), PUBLIC))[0] == [2, 9]


async def test_a_search_finds_nothing_erased(log: EventLog) -> None:
    session_id = await opened(
        log, message_event("secret"), message_event("z" * 20_000 + "secret"), message_event("no secret")
    )
    await log.erase(session_id, [2, 3], reason="secret")
    assert (await matches(log, session_id, EventQuery("secret")))[0] == [4]


async def test_a_search_in_an_unknown_session_is_refused(log: EventLog) -> None:
    with pytest.raises(NotFound):
        await log.search(new_session_id(), EventQuery("x"), WHOLE)
