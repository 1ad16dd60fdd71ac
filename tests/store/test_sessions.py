"""Sessions as rows: owners, searches, and the end of a session."""

import pytest
from sqlalchemy import insert

from hutch.domain.errors import NotFound
from hutch.domain.ids import new_session_id
from hutch.domain.run_limits import RunLimits
from hutch.domain.session import Session
from hutch.store.event_log import SqlLog
from hutch.store.schema import shares, users
from hutch.store.sessions import Sessions, add_session

pytestmark = pytest.mark.anyio


async def add(log: SqlLog, owner: str, **values: object) -> Session:
    made = Session(id=new_session_id(), owner=owner, created_ms=1, updated_ms=1, **values)  # type: ignore[arg-type]
    await log.change(lambda connection: add_session(connection, made))
    return made


async def test_a_session_comes_back_as_it_was(log: SqlLog) -> None:
    made = await add(
        log, "ada", network=("pypi.example",), limits=RunLimits(turns=3, cost_usd=0.5), deliver=True
    )
    assert await Sessions(log).get(made.id) == made
    with pytest.raises(NotFound):
        await Sessions(log).get("ses_none")


async def test_a_user_sees_own_sessions_and_shared_ones(log: SqlLog) -> None:
    mine, other, hidden = await add(log, "ada"), await add(log, "bob"), await add(log, "bob")

    def share(connection) -> None:  # type: ignore[no-untyped-def]
        values = {"role": "member", "password_hash": "", "created_ms": 1, "disabled": False}
        connection.execute(insert(users).values(id="ada", name="Ada", name_key="ada", **values))
        connection.execute(
            insert(shares).values(
                session_id=other.id, user_id="ada", role="observer", created_by="bob", created_ms=1
            )
        )

    await log.change(share)
    sessions = Sessions(log)
    assert [each.id for each in await sessions.page(user_id="ada")] == [other.id, mine.id]
    assert [each.id for each in await sessions.page(user_id=None)] == [hidden.id, other.id, mine.id]
    assert [each.id for each in await sessions.page(user_id=None, before=other.id)] == [mine.id]
    assert set(await sessions.get_many([mine.id, hidden.id])) == {mine.id, hidden.id}


async def test_sessions_are_found_by_words_taken_literally(log: SqlLog) -> None:
    one = await add(log, "ada", purpose="Mend the LOGIN test", repository="/srv/shop")
    await add(log, "ada", purpose="100% done")
    sessions = Sessions(log)
    assert [each.id for each in await sessions.page(user_id="ada", text="login shop")] == [one.id]
    assert len(await sessions.page(user_id="ada", text="%")) == 1
    assert await sessions.page(user_id="ada", text="_") == []


async def test_what_has_ended_stays_ended(log: SqlLog) -> None:
    made, sessions = await add(log, "ada", state="running"), Sessions(log)
    assert await sessions.correct_states(["running"], "parked") == [made.id]
    await sessions.set(made.id, state="ended", reason="done")
    await sessions.set(made.id, state="idle")
    found = await sessions.get(made.id)
    assert (found.state, found.reason) == ("ended", "done")
    assert [each.id for each in await sessions.page(user_id="ada", states=["ended"])] == [made.id]


async def test_a_change_that_fails_leaves_nothing(log: SqlLog) -> None:
    made = Session(id=new_session_id(), owner="ada", created_ms=1, updated_ms=1)

    def twice(connection) -> None:  # type: ignore[no-untyped-def]
        add_session(connection, made)
        raise RuntimeError("half way")

    with pytest.raises(RuntimeError, match="half way"):
        await log.change(twice)
    assert await Sessions(log).page(user_id=None) == []


async def test_sessions_are_counted_by_their_state(log: SqlLog) -> None:
    assert await Sessions(log).counts() == {}
    for state in ("idle", "running", "idle"):
        await add(log, "ada", state=state)
    assert await Sessions(log).counts() == {"idle": 2, "running": 1}
