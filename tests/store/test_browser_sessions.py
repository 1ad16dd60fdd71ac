"""Browser sessions as rows."""

import pytest

from hutch.store.browser_sessions import ABSOLUTE_MS, MAX_AGENT_CHARS, BrowserSessions
from hutch.store.event_log import SqlLog
from hutch.store.users import Users

pytestmark = pytest.mark.anyio


async def test_one_is_begun_recognised_and_ended(log: SqlLog) -> None:
    ada, browsers = await Users(log).add("ada", "owner"), BrowserSessions(log)
    one, secret = await browsers.begin(ada.id, began_by="password", address="10.0.0.1", agent="x" * 9999)
    assert len(one.agent) == MAX_AGENT_CHARS
    assert await browsers.recognise(secret) == (one, ada)
    assert await browsers.recognise(secret[:-1]) is None
    assert (
        await browsers.has_address(ada.id, "10.0.0.1"),
        await browsers.has_address(ada.id, "10.0.0.2"),
    ) == (
        True,
        False,
    )
    other, new = await browsers.begin(
        ada.id, began_by="link", address="10.0.0.1", agent="", instead_of=secret
    )
    assert await browsers.list(ada.id) == [other]
    await browsers.end(other.id)
    assert await browsers.recognise(new) is None


async def test_all_of_a_user_are_ended_and_no_others(log: SqlLog) -> None:
    users, browsers = Users(log), BrowserSessions(log)
    ada, bob = await users.add("ada", "owner"), await users.add("bob", "member")
    for user in (ada, ada, bob):
        await browsers.begin(user.id, began_by="link", address="", agent="")
    await browsers.end_all(ada.id)
    assert [len(await browsers.list(user.id)) for user in (ada, bob)] == [0, 1]


async def test_old_ones_are_swept_out(log: SqlLog) -> None:
    ada, browsers = await Users(log).add("ada", "owner"), BrowserSessions(log)
    for _ in range(3):
        await browsers.begin(ada.id, began_by="link", address="", agent="")
    age = f"UPDATE browser_sessions SET created_ms = created_ms - {ABSOLUTE_MS + 1}"
    await log.change(lambda db: db.exec_driver_sql(age).rowcount)
    assert await browsers.list(ada.id) == []
    await browsers.begin(ada.id, began_by="link", address="", agent="")
    count = await log.fetch(
        lambda db: db.exec_driver_sql("SELECT count(*) FROM browser_sessions").scalar_one()
    )
    assert count == 1
