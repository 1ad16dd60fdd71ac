"""The audit as rows: only ever added to, the newest first."""

import pytest

from hutch.store.audit import MAX_TEXT_CHARS, Audit
from hutch.store.event_log import SqlLog

pytestmark = pytest.mark.anyio


async def test_entries_come_back_in_pages(log: SqlLog) -> None:
    audit = Audit(log)
    for number in range(5):
        await audit.add(f"did.{number}", user_id="usr_1", object="x", address="::1", ok=number != 3)
    first = await audit.list(limit=2)
    rest = await audit.list(before=first[-1].id)
    assert [entry.action for entry in first + rest] == ["did.4", "did.3", "did.2", "did.1", "did.0"]
    assert [entry.ok for entry in first] == [True, False]


async def test_a_stranger_does_not_choose_how_long_a_row_is(log: SqlLog) -> None:
    await Audit(log).add("login", object="x" * 10_000, detail="y" * 10_000)
    (entry,) = await Audit(log).list()
    assert (len(entry.object), len(entry.detail)) == (MAX_TEXT_CHARS, MAX_TEXT_CHARS)
