"""A log is read backwards from any event, in pages that fit together."""

import pytest
from sqlalchemy import delete

from hutch.domain.errors import EventsMissing
from hutch.domain.events import MessageSent, SessionOpened
from hutch.domain.ids import SessionId, new_session_id
from hutch.store.event_log import SqlLog
from hutch.store.log_reader import PAGE_BYTES
from hutch.store.schema import events

pytestmark = pytest.mark.anyio


async def recorded(log: SqlLog, count: int, text: str = "x") -> SessionId:
    session_id = new_session_id()
    await log.append(session_id, [SessionOpened()])
    await log.append(session_id, [MessageSent(author="agent", text=text) for _ in range(count - 1)])
    return session_id


async def numbers(log: SqlLog, session_id: SessionId, before: int, limit: int = 100) -> list[int]:
    return [entry.seq for entry in await log.page_before(session_id, before=before, limit=limit)]


async def test_pages_lead_from_the_end_to_the_first_event(log: SqlLog) -> None:
    session_id = await recorded(log, 10)
    assert await numbers(log, session_id, 99, 4) == [7, 8, 9, 10]
    assert await numbers(log, session_id, 7, 4) == [3, 4, 5, 6]
    assert await numbers(log, session_id, 3, 4) == [1, 2]
    assert await numbers(log, session_id, 1, 4) == []
    backwards = await log.page_before(session_id, before=8, limit=3)
    assert backwards == await log.read(session_id, after=4, limit=3)


async def test_a_page_of_large_events_is_bounded(log: SqlLog) -> None:
    session_id = await recorded(log, 6, "x" * (PAGE_BYTES // 2))
    assert await numbers(log, session_id, 7) == [5, 6]
    assert await numbers(log, session_id, 5) == [3, 4]


async def test_a_page_begins_after_a_missing_event(log: SqlLog) -> None:
    session_id = await recorded(log, 6)
    lost = delete(events).where(events.c.seq.in_((3, 6)))
    await log.change(lambda connection: connection.execute(lost))
    with pytest.raises(EventsMissing, match="6"):
        await numbers(log, session_id, 7)
    assert await numbers(log, session_id, 6) == [4, 5]
    with pytest.raises(EventsMissing, match="3"):
        await numbers(log, session_id, 4)
    assert await numbers(log, session_id, 3) == [1, 2]
