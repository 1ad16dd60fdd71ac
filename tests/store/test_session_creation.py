"""A session is opened whole, or not at all."""

import pytest
from sqlalchemy import Connection

from hutch.domain.errors import NotFound
from hutch.domain.events import RunQueued, SessionOpened
from hutch.domain.ids import new_run_id, new_session_id
from hutch.domain.request_from_forge import WebhookDelivery
from hutch.domain.session import QueuedRun, Session
from hutch.store.event_log import SqlLog
from hutch.store.run_queue import Runs
from hutch.store.session_creation import OpenedSession, open_session
from hutch.store.session_inputs import Inputs
from hutch.store.sessions import Sessions
from hutch.store.webhook_inbox import StartedByInput, StartedInSession, WebhookInbox
from hutch.system.clock_without_jumps import wall_ms

pytestmark = pytest.mark.anyio


class Broken(Exception):
    """A failure that is none of the database's."""


def delivery() -> WebhookDelivery:
    return WebhookDelivery(id="one", digest="aa", at_ms=wall_ms(), event="issues", request="{}")


def opening() -> OpenedSession:
    session = Session(id=new_session_id(), owner="ada", created_ms=1, updated_ms=1)
    return OpenedSession(session, QueuedRun(id=new_run_id(), session_id=session.id, owner="ada", queued_ms=1))


class Fails:
    def write(self, connection: Connection, made: OpenedSession) -> None:
        raise Broken


async def test_row_run_log_and_what_else_is_to_be_written_come_together(log: SqlLog) -> None:
    opened = opening()
    await WebhookInbox(log).add(delivery())
    events = [SessionOpened(), RunQueued(run_id=opened.run.id, prompt="Go.", by="ada")]
    await open_session(log, opened, events, StartedInSession("one"))
    assert await Sessions(log).get(opened.session.id) == opened.session
    assert await Runs(log).get(opened.run.id) == opened.run
    assert [entry.event for entry in await log.read(opened.session.id)] == events
    noted = await WebhookInbox(log).get("one")
    assert noted and (noted.state, noted.session_id) == ("working", opened.session.id)


async def test_when_one_part_fails_nothing_is_left(log: SqlLog) -> None:
    opened = opening()
    with pytest.raises(Broken):
        await open_session(log, opened, [SessionOpened()], Fails())
    assert await Runs(log).page() == [] and await log.heads() == []
    with pytest.raises(NotFound):
        await Sessions(log).get(opened.session.id)


async def test_an_input_is_noted_with_the_delivery_that_it_is_for(log: SqlLog) -> None:
    opened = opening()
    await open_session(log, opened, [SessionOpened()])
    await WebhookInbox(log).add(delivery())
    session_id = opened.session.id
    given = await Inputs(log).add(session_id, "ada", "{}", max_unprocessed=9, also=StartedByInput("one"))
    noted = await WebhookInbox(log).get("one")
    assert noted and (noted.state, noted.session_id, noted.input) == ("working", session_id, given.seq)
