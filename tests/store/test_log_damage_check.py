"""Logs with rows deleted behind Hutch's back: every reader notices, and the rest can be exported."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path

import pytest

from hutch.domain.errors import EventsMissing, RecordDamaged, Unavailable
from hutch.domain.events import Entry, MessageSent, SessionEnded, SessionOpened
from hutch.domain.ids import SessionId, new_session_id
from hutch.domain.log_entry_audience import WHOLE
from hutch.sessions.session_update_fan_out import PAGE_ENTRIES, Channels
from hutch.store.event_log import SqlLog, open_log
from hutch.store.exported_record_verifier import verify_record
from hutch.store.record_export import export_record
from tests.deadline import DEADLINE_S
from tests.new_database import place_database

from .direct_sql import sql

pytestmark = pytest.mark.anyio

DAMAGE = {  # what was done, the first bad event of the record, what is found
    "the last events": ("DELETE FROM events WHERE seq > 4", 5, ["Events 5 to 7 are missing."]),
    "one in the middle": ("DELETE FROM events WHERE seq = 3", 3, ["Event 3 is missing."]),
    "the first": ("DELETE FROM events WHERE seq = 1", 1, ["Event 1 is missing."]),
    "all events": ("DELETE FROM events", 1, ["Events 1 to 7 are missing."]),
    "the statements": ("DELETE FROM statements", 1, ["The signed statement about event 7 is missing."]),
}


@pytest.fixture
async def log(tmp_path: Path) -> AsyncIterator[SqlLog]:
    place_database(tmp_path)
    async with open_log(tmp_path / "hutch.db", tmp_path / "blobs", tmp_path / "keys" / "signing.pem") as log:
        yield log


async def recorded(log: SqlLog, *, ended: bool) -> SessionId:
    """A session of 7 events whose head is signed."""
    session_id = new_session_id()
    said = [MessageSent(author="agent", text=str(number)) for number in range(5)]
    last = SessionEnded(outcome="done") if ended else MessageSent(author="agent", text="last")
    await log.append(session_id, [SessionOpened(purpose="test"), *said, last])
    async with log.evidence(session_id, WHOLE):
        return session_id


@pytest.mark.parametrize("ended", [True, False])
@pytest.mark.parametrize("what", DAMAGE)
async def test_what_is_left_of_a_damaged_log_is_exported_and_does_not_verify(
    log: SqlLog, tmp_path: Path, what: str, ended: bool
) -> None:
    deleting, first_bad, found = DAMAGE[what]
    session_id = await recorded(log, ended=ended)
    assert await log.defects(session_id) == []
    sql(tmp_path / "hutch.db", deleting)
    assert await log.defects(session_id) == found
    with pytest.raises(RecordDamaged, match=found[0]):
        await log.receipt(session_id)
    record = tmp_path / "left.zip"
    with pytest.raises(Unavailable, match="damaged"):
        await export_record(log, session_id, record, WHOLE, overwrite=False)
    assert not record.exists()
    evidence = await export_record(log, session_id, record, WHOLE, overwrite=False, damaged=True)
    assert list(evidence.defects) == found
    report = verify_record(record)
    expected = 7 if what == "the statements" and ended else first_bad  # an end is looked for where it is
    assert (report.ok, report.first_bad) == (False, expected), report.problem


@pytest.mark.parametrize("what", ["the last events", "one in the middle", "the first", "all events"])
async def test_readers_and_followers_stop_at_a_missing_event(log: SqlLog, tmp_path: Path, what: str) -> None:
    deleting, first_bad, _ = DAMAGE[what]
    session_id = await recorded(log, ended=False)
    sql(tmp_path / "hutch.db", deleting)
    followers = (log.follow(session_id), Channels(log).follow(session_id, WHOLE))
    for follower in followers:
        seen = []
        async with asyncio.timeout(DEADLINE_S), aclosing(follower) as updates:
            with pytest.raises(EventsMissing):
                async for update in updates:
                    seen.append(update)
        assert len(seen) == first_bad - 1
    with pytest.raises(EventsMissing):
        await log.read(session_id, after=first_bad - 1)


def test_missing_events_are_named_in_plain_words() -> None:
    session_id = new_session_id()
    for first, last, words in ((18, 22, "Events 18 to 22 of"), (3, 3, "Event 3 of")):
        verb = "is" if first == last else "are"
        result = str(EventsMissing(session_id, first, last))
        assert result.startswith(f"{words} session {session_id} {verb} missing from the database. ")


async def test_a_follower_whose_log_is_set_back_meanwhile_gets_an_error(log: SqlLog, tmp_path: Path) -> None:
    session_id = await recorded(log, ended=False)
    await log.append(session_id, [MessageSent(author="agent", text="more") for _ in range(2 * PAGE_ENTRIES)])
    async with asyncio.timeout(DEADLINE_S), aclosing(Channels(log).follow(session_id, WHOLE)) as updates:
        first = await anext(updates)  # with the rest of its page
        assert isinstance(first, Entry) and first.seq == 1
        back = "UPDATE logs SET seq = 1, signed_seq = 1"
        sql(tmp_path / "hutch.db", "DELETE FROM events WHERE seq > 1", "DELETE FROM statements", back)
        with pytest.raises(EventsMissing, match=f"Events {PAGE_ENTRIES + 1} to {2 * PAGE_ENTRIES + 7} of"):
            while True:
                await anext(updates)


async def test_a_head_that_was_set_back_is_noticed(log: SqlLog, tmp_path: Path) -> None:
    session_id = await recorded(log, ended=False)
    cut = "UPDATE logs SET seq = 4, signed_seq = 4, hash = (SELECT hash FROM events WHERE seq = 4)"
    sql(tmp_path / "hutch.db", "DELETE FROM events WHERE seq > 4", cut)
    assert await log.defects(session_id) == ["Events 5 to 7 are missing."]


async def test_a_payload_that_is_gone_without_a_statement_is_noticed(log: SqlLog, tmp_path: Path) -> None:
    session_id = await recorded(log, ended=False)
    await log.erase(session_id, {3}, reason="")
    assert await log.defects(session_id) == []
    sql(tmp_path / "hutch.db", "DELETE FROM statements WHERE kind = 'erasure'")
    (found,) = await log.defects(session_id)
    assert "event 3" in found
