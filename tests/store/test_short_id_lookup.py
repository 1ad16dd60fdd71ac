"""An id may be shortened as long as it means one thing."""

from dataclasses import replace

import pytest
from sqlalchemy import Connection, text

from hutch.domain.errors import BadRequest
from hutch.domain.events import SessionOpened
from hutch.domain.ids import SessionId, new_session_id
from hutch.domain.session import QueuedRun, Session
from hutch.store.event_log import SqlLog
from hutch.store.proposed_changes import Changes
from hutch.store.run_queue import add_run
from hutch.store.schema import runs
from hutch.store.sessions import add_session
from hutch.store.short_id_lookup import find_session_id, find_work_id
from tests.store.test_proposed_changes import FIRST

pytestmark = pytest.mark.anyio
RUN = "run_01jd2m4c9k7w6t0q8n5x3vbaeh"
CHANGE = replace(FIRST, id="chg_01jd2m4c9k7w6t0q8n5x3vkkkk", run_id="run_01jd2m4c9k7w6t0q8n5x3vzzzz")


@pytest.fixture
async def session(log: SqlLog) -> SessionId:
    """A session with a run, beside a change of a run on the command line, which has no row."""
    made = Session(id=new_session_id(), owner="ada", created_ms=1, updated_ms=1)
    await log.append(made.id, [SessionOpened()])
    await log.change(lambda connection: add_session(connection, made))
    run = QueuedRun(id=RUN, session_id=made.id, owner="ada", queued_ms=1)
    await log.change(lambda connection: add_run(connection, run))
    await Changes(log).add(CHANGE)
    return made.id


async def test_a_run_a_session_or_a_change_is_found_by_a_part_of_its_id(
    log: SqlLog, session: SessionId
) -> None:
    parts = (RUN, "vbaeh", "vkkkk", "chg_01jd", "zzzz", session, session[-6:])
    found = [await find_work_id(log, part) for part in parts]
    assert found == [RUN, RUN, CHANGE.id, CHANGE.id, CHANGE.run_id, session, session]


async def test_a_part_that_fits_many_is_refused_and_one_that_fits_none_is_none(
    log: SqlLog, session: SessionId
) -> None:
    with pytest.raises(BadRequest, match="matches 2 runs, sessions and changes"):
        await find_work_id(log, "run_01jd2m")
    with pytest.raises(BadRequest, match="Give more of the id"):
        await find_work_id(log, "01jd2m4c9k7w6t0q8n5x3v")
    for name in ("", "x3", "m4c9", "%", "_", "ses_none", "' or 1=1 --"):
        assert await find_work_id(log, name) is None


async def test_a_session_is_found_among_sessions_alone(log: SqlLog, session: SessionId) -> None:
    assert await find_session_id(log, session[-6:]) == session
    assert await find_session_id(log, "vbaeh") is None


async def test_the_oldest_of_many_runs_is_found(log: SqlLog, session: SessionId) -> None:
    def add(connection: Connection) -> None:
        names = ", ".join(f'"{column.name}"' for column in runs.columns if column.name != "id")
        many = "WITH RECURSIVE n(i) AS (SELECT 10000 UNION ALL SELECT i + 1 FROM n WHERE i < 20000)"
        copied = f"SELECT 'run_z' || i || 'aaaaaaaaaaaaaaaaaaaa', {names} FROM runs, n WHERE id = '{RUN}'"
        connection.execute(text(f"INSERT INTO runs (id, {names}) {many} {copied}"))

    await log.change(add)
    assert await find_work_id(log, "run_01jd2m4c9k7w6t0q8n5x3vb") == RUN
