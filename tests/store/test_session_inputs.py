"""Inputs are numbered per session and kept until they are taken."""

import pytest

from hutch.domain.ids import SessionId, new_session_id
from hutch.domain.session import Session
from hutch.store.event_log import SqlLog
from hutch.store.session_inputs import Inputs, add_input
from hutch.store.sessions import add_session

pytestmark = pytest.mark.anyio


async def session(log: SqlLog) -> SessionId:
    made = Session(id=new_session_id(), owner="ada", created_ms=1, updated_ms=1)
    await log.change(lambda connection: add_session(connection, made))
    return made.id


async def test_inputs_are_numbered_and_taken_one_by_one(log: SqlLog) -> None:
    one, other = await session(log), await session(log)
    for id in (one, one, other):
        await log.change(lambda connection, id=id: add_input(connection, id, "ada", '{"type":"cancel"}'))  # type: ignore[misc]
    inputs = Inputs(log)
    assert [(each.seq, each.by) for each in await inputs.page(one)] == [(1, "ada"), (2, "ada")]
    assert sorted(await inputs.sessions_with_unprocessed()) == sorted([one, other])
    await inputs.mark_processed(one, 1)
    assert [each.seq for each in await inputs.page(one, unprocessed=True)] == [2]
    assert [each.processed for each in await inputs.page(one)] == [True, False]
    await inputs.mark_processed(one, 2)
    assert await inputs.sessions_with_unprocessed() == [other]
    assert [each.seq for each in await inputs.page(one, after=1)] == [2]


async def test_all_inputs_of_a_session_are_taken_at_once(log: SqlLog) -> None:
    one, other = await session(log), await session(log)
    for id in (one, one, other):
        await log.change(lambda connection, id=id: add_input(connection, id, "ada", '{"type":"cancel"}'))  # type: ignore[misc]
    await Inputs(log).mark_all_processed(one)
    assert await Inputs(log).sessions_with_unprocessed() == [other]
