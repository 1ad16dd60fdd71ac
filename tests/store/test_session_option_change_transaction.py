"""A change of a session's options: the row and the event together, or neither."""

from dataclasses import replace

import pytest

from hutch.domain.errors import Conflict
from hutch.domain.events import OptionChange, SessionChanged, SessionEnded, SessionOpened
from hutch.domain.generation_options import Generation
from hutch.domain.ids import new_run_id, new_session_id
from hutch.domain.session import QueuedRun, Session
from hutch.domain.session_jail_resource_limits import Resources
from hutch.store.event_log import SqlLog
from hutch.store.session_creation import OpenedSession, open_session
from hutch.store.session_option_change_transaction import store_change
from hutch.store.sessions import Sessions

pytestmark = pytest.mark.anyio
EVENT = SessionChanged(by="ada", changes=(OptionChange(name="persona", before="", after="pair"),))


async def opened(log: SqlLog) -> Session:
    session = Session(
        id=new_session_id(),
        owner="ada",
        company="Acme",
        resources=Resources(memory_bytes=1 << 30, cpus=0.5),
        generation=Generation(0.5, 100, "high"),
        created_ms=1,
        updated_ms=1,
    )
    run = QueuedRun(id=new_run_id(), session_id=session.id, owner="ada", queued_ms=1)
    await open_session(log, OpenedSession(session, run), [SessionOpened(owner="ada")])
    return session


async def types(log: SqlLog, session: Session) -> list[str]:
    return [entry.event.type for entry in await log.read(session.id)]


async def test_row_and_event_are_written_together(log: SqlLog) -> None:
    session = await opened(log)
    assert await Sessions(log).get(session.id) == session
    after = replace(session, persona="pair", resources=Resources())
    assert await store_change(log, session, after, EVENT)
    stored = await Sessions(log).get(session.id)
    assert replace(stored, updated_ms=1) == after
    assert await types(log, session) == ["session.opened", "session.changed"]


async def test_a_change_of_an_outdated_row_writes_nothing(log: SqlLog) -> None:
    session = await opened(log)
    assert await store_change(log, session, replace(session, persona="pair"), EVENT)
    assert not await store_change(log, session, replace(session, model="ollama:x"), EVENT)
    assert (await Sessions(log).get(session.id)).model == ""
    assert await types(log, session) == ["session.opened", "session.changed"]


async def test_an_ended_session_is_not_changed(log: SqlLog) -> None:
    session = await opened(log)
    await log.append(session.id, [SessionEnded(outcome="done")])
    with pytest.raises(Conflict):
        await store_change(log, session, replace(session, persona="pair"), EVENT)
    assert (await Sessions(log).get(session.id)).persona == ""
