"""Changes are kept, found by what people call them, and end once."""

import asyncio
from dataclasses import asdict, replace

import pytest
from sqlalchemy import Connection, text

from hutch.domain.errors import BadRequest, Conflict, NotFound
from hutch.domain.proposed_change import Change
from hutch.store.event_log import SqlLog
from hutch.store.proposed_changes import Changes

pytestmark = pytest.mark.anyio
FIRST = Change(
    id="chg_a1",
    session_id="ses_1",
    run_id="run_1",
    repository="/srv/a'; drop table changes; --.git",
    branch="hutch/one",
    base="main",
    base_commit="1" * 40,
    commit="2" * 40,
    title="Größe ändern",
    body="line\nline",
    tests="1 passed",
    created_ms=1_700_000_000_000,
)
SECOND = replace(FIRST, id="chg_a2", run_id="run_2", branch="hutch/two")
THIRD = replace(FIRST, id="chg_b3", run_id="run_3", branch="hutch/one")


@pytest.fixture
async def changes(log: SqlLog) -> Changes:
    kept = Changes(log)
    for change in (FIRST, SECOND, THIRD):
        await kept.add(change)
    return kept


async def test_they_come_back_as_they_were_the_newest_first(changes: Changes, log: SqlLog) -> None:
    assert await Changes(log).list() == [THIRD, SECOND, FIRST]
    assert await changes.list(limit=1) == [THIRD]


async def test_a_new_installation_has_none(log: SqlLog) -> None:
    changes = Changes(log)
    assert await changes.list() == []
    with pytest.raises(NotFound, match="no change 'last'"):
        await changes.find("last")


@pytest.mark.parametrize(
    ("name", "found"),
    [("chg_a1", FIRST), ("chg_b", THIRD), ("hutch/two", SECOND), ("last", THIRD)],
)
async def test_what_people_call_them(changes: Changes, name: str, found: Change) -> None:
    assert await changes.find(name) == found


@pytest.mark.parametrize("name", ["chg_a", "hutch/one", "chg_"])
async def test_a_name_that_fits_several(changes: Changes, name: str) -> None:
    with pytest.raises(BadRequest, match="Give more of the id"):
        await changes.find(name)


@pytest.mark.parametrize("name", ["", "chg_c", "hutch", "%", "' or 1=1 --"])
async def test_a_name_that_fits_none(changes: Changes, name: str) -> None:
    with pytest.raises(NotFound, match="hutch changes list"):
        await changes.find(name)


async def test_an_id_that_begins_another(changes: Changes) -> None:
    await changes.add(replace(FIRST, id="chg_a1b", run_id="run_4"))
    assert (await changes.find("chg_a1")).id == "chg_a1"


async def test_what_a_run_has_proposed(changes: Changes) -> None:
    assert await changes.of_run("run_2") == SECOND
    assert await changes.of_run("run_9") is None


async def test_a_change_ends_once(changes: Changes) -> None:
    await changes.end(FIRST, "merged", merged_commit="3" * 40)
    assert await changes.find("chg_a1") == replace(FIRST, state="merged", merged_commit="3" * 40)
    with pytest.raises(Conflict, match="no longer open"):
        await changes.end(FIRST, "closed")
    assert [each.id for each in await changes.list(state="open")] == ["chg_b3", "chg_a2"]
    assert [each.id for each in await changes.list(state="merged")] == ["chg_a1"]


async def test_of_many_concurrent_ends_one_succeeds(changes: Changes) -> None:
    ends = (changes.end(FIRST, "closed") for _ in range(8))
    said = await asyncio.gather(*ends, return_exceptions=True)
    assert sorted(str(type(each).__name__) for each in said) == ["Conflict"] * 7 + ["NoneType"]


async def test_a_change_that_is_open_grows_and_one_that_is_not_is_left(changes: Changes) -> None:
    mine = replace(FIRST, id="chg_c1", session_id="ses_2", run_id="run_4")
    await changes.add(mine)
    assert await changes.open_of_session("ses_2") == mine
    grown = replace(mine, run_id="run_later", commit="9" * 40, body="More.", number=7, web_url="https://x/7")
    await changes.update(grown)
    assert await changes.open_of_session("ses_2") == grown == await changes.of_run("run_later")
    assert await changes.of_run("run_4") is None
    await changes.end(grown, "closed")
    assert await changes.open_of_session("ses_2") is None
    assert await changes.open_of_session("ses_1") == THIRD


async def test_an_id_is_never_taken_for_what_others_call_a_change(changes: Changes) -> None:
    await changes.add(replace(SECOND, id="chg_c4", run_id="run_4", web_url="chg_a1", number=4))
    await changes.add(replace(SECOND, id="chg_c5", run_id="run_5", branch="chg_a1"))
    await changes.add(replace(SECOND, id="chg_c6", run_id="run_6", branch="last"))
    assert await changes.find("chg_a1") == FIRST
    assert (await changes.find("last")).id == "chg_c6"


async def test_the_oldest_of_many_is_found_by_its_beginning(log: SqlLog, changes: Changes) -> None:
    def add(connection: Connection) -> None:
        names = ", ".join(f'"{name}"' for name in asdict(FIRST) if name not in ("id", "branch"))
        many = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 10001)"
        copied = f"SELECT 'chg_z' || i, 'many', {names} FROM changes, n WHERE id = 'chg_a2'"
        connection.execute(text(f"INSERT INTO changes (id, branch, {names}) {many} {copied}"))

    await log.change(add)
    for name, found in (("chg_a1", FIRST), ("hutch/two", SECOND), ("chg_b", THIRD)):
        assert await changes.find(name) == found


async def test_what_was_closed_is_open_again_and_what_was_merged_is_not(changes: Changes) -> None:
    await changes.end(FIRST, "closed")
    await changes.end(SECOND, "merged")
    assert (await changes.reopen(FIRST)).state == "open"
    assert (await changes.reopen(SECOND)).state == "merged"
