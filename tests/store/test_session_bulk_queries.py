"""One query reads the rows of many sessions, and assigns each row to its session."""

from typing import Any

import pytest
from sqlalchemy import Text, insert

from hutch.domain.events import SessionOpened
from hutch.domain.ids import new_run_id, new_session_id
from hutch.domain.session import QueuedRun, Session
from hutch.domain.user import User
from hutch.store.event_log import SqlLog
from hutch.store.run_queue import add_run
from hutch.store.schema import changes, shares, users
from hutch.store.session_bulk_queries import BulkQueries
from hutch.store.sessions import add_session
from hutch.store.shares import Share

pytestmark = pytest.mark.anyio


async def make(log: SqlLog, owner: str, updated_ms: int = 1) -> Session:
    made = Session(id=new_session_id(), owner=owner, created_ms=1, updated_ms=updated_ms)
    await log.change(lambda connection: add_session(connection, made))
    return made


async def share(log: SqlLog, session_id: str, name: str) -> None:
    def add(connection: Any) -> None:
        values = {"role": "member", "password_hash": "", "created_ms": 1, "disabled": False}
        connection.execute(insert(users).values(id=name, name=name.title(), name_key=name, **values))
        connection.execute(
            insert(shares).values(
                session_id=session_id, user_id=name, role="observer", created_by="x", created_ms=2
            )
        )

    await log.change(add)


async def test_the_newest_few_of_each_session(log: SqlLog) -> None:
    one, two, none = [await make(log, "ada") for _ in range(3)]
    made: dict[str, list[str]] = {}

    def add(connection: Any) -> None:
        for session in (one, two):
            for kind in ("prepare", "prompt", "prompt", "prompt"):
                run = QueuedRun(id=new_run_id(), session_id=session.id, owner="ada", kind=kind, queued_ms=1)
                add_run(connection, run)
                made.setdefault(session.id, []).append(run.id)
                texts = [column.name for column in changes.columns if isinstance(column.type, Text)]
                values = dict.fromkeys(texts, "x") | {"id": f"chg_{run.id}", "session_id": session.id}
                connection.execute(insert(changes).values(**values, created_ms=1, number=1))

    await log.change(add)
    ids = [one.id, two.id, none.id]
    runs = await BulkQueries(log).newest_runs(ids, 2)
    assert {key: [run.id for run in found] for key, found in runs.items()} == {
        key: [each[3], each[2]] for key, each in made.items()
    }
    proposed = await BulkQueries(log).newest_changes(ids, 1)
    assert {key: [change.id for change in found] for key, found in proposed.items()} == {
        key: [f"chg_{each[3]}"] for key, each in made.items()
    }


async def test_shares_users_and_visibility(log: SqlLog) -> None:
    shared, hidden, own = await make(log, "bob"), await make(log, "bob"), await make(log, "ada")
    await share(log, shared.id, "ada")
    ids = [shared.id, hidden.id, own.id]
    assert await BulkQueries(log).shares(ids) == {shared.id: [Share(shared.id, "ada", "observer", "x", 2)]}
    assert await BulkQueries(log).visible_to("ada", ids) == {shared.id, own.id}
    assert await BulkQueries(log).visible_to(None, [*ids, new_session_id()]) == set(ids)
    found = await BulkQueries(log).users(["ada", "nobody"])
    assert found == {"ada": User("ada", "Ada", "member", 1)}


async def test_sessions_that_changed_since_then_come_in_order(log: SqlLog) -> None:
    late, _, early = [await make(log, "ada", updated_ms) for updated_ms in (30, 10, 20)]
    assert await BulkQueries(log).changed_sessions(20, 10) == [early, late]
    assert await BulkQueries(log).changed_sessions(20, 1) == [early]


async def test_the_heads_of_those_that_have_a_log(log: SqlLog) -> None:
    one, without = await make(log, "ada"), await make(log, "ada")
    head = await log.append(one.id, [SessionOpened()])
    assert await BulkQueries(log).heads([one.id, without.id]) == {one.id: head}
