"""An installation moves between SQLite and PostgreSQL with every row, and no log is forked or lost."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import create_engine, insert, select, text

from hutch.domain.errors import Conflict, Unavailable
from hutch.domain.events import ErasedEvent, MessageSent, SessionEnded, SessionOpened
from hutch.domain.ids import SessionId, new_session_id
from hutch.store.all_tables import all_tables
from hutch.store.database_location import DatabaseLocation, PostgresqlDatabase
from hutch.store.database_migration import (
    Migrated,
    MigrationProgress,
    migrate_to_postgresql,
    migrate_to_sqlite,
)
from hutch.store.event_log import SqlLog, open_log
from hutch.store.log_append_batch import INLINE_BYTES
from hutch.store.schema import approval_rules, events, users
from hutch.store.users import Users
from tests.postgresql_server import server

pytestmark = [pytest.mark.anyio, pytest.mark.postgresql]
LARGE = "x" * (INLINE_BYTES + 1)


class Interrupted(Exception):
    """As if the user had pressed Ctrl-C."""


@pytest.fixture
def target(tmp_path: Path) -> Iterator[PostgresqlDatabase]:
    """A database without a schema."""
    with server().database(tmp_path, template="template0") as location:
        yield location


def opened(location: DatabaseLocation, place: Path):
    return open_log(location, place / "blobs", place / "keys" / "signing.pem")


def message(text: str) -> MessageSent:
    return MessageSent(author="agent", text=text)


async def installation(place: Path) -> list[SessionId]:
    """Logs with small, large and erased payloads, and rows with unusual texts and NULL."""
    ids = [new_session_id() for _ in range(3)]
    async with opened(place / "hutch.db", place) as log:
        for each in ids:
            await log.append(each, [SessionOpened(purpose="größe"), *[message(f"n {n}") for n in range(700)]])
        await log.append(ids[0], [message(LARGE), SessionEnded(outcome="done")])
        await log.erase(ids[1], [3, 5], reason="a test")
        await Users(log).add("Ada Größe", "owner", password_hash="a % b ☃\\")
        rules = [{"user_id": "usr_1", "tool": "shell", "pattern": f"%_\\ {n}\n\t☃"} for n in range(1200)]
        await log.change(lambda connection: connection.execute(insert(approval_rules), rules))
    return ids


async def rows(log: SqlLog) -> dict[str, list[tuple[object, ...]]]:
    def read(connection: object) -> dict[str, list[tuple[object, ...]]]:
        return {
            table.name: [tuple(row) for row in connection.execute(select(table).order_by(*table.primary_key))]  # type: ignore[attr-defined]
            for table in all_tables()
        }

    return await log.fetch(read)


def to_postgresql(place: Path, target: PostgresqlDatabase, stop_at: str = "") -> Migrated:
    def on_progress(progress: MigrationProgress) -> None:
        if stop_at and progress.step == stop_at and progress.done > 1000:
            raise Interrupted

    return migrate_to_postgresql(place / "hutch.db", target, place / "blobs", on_progress)


def back(place: Path, source: PostgresqlDatabase) -> Migrated:
    return migrate_to_sqlite(source, place / "hutch.db", place / "blobs", lambda _: None)


async def test_all_rows_move_and_come_back(tmp_path: Path, target: PostgresqlDatabase) -> None:
    ids = await installation(tmp_path)
    async with opened(tmp_path / "hutch.db", tmp_path) as log:
        before = await rows(log)
    migrated = await asyncio.to_thread(to_postgresql, tmp_path, target)
    assert (migrated.logs.logs, migrated.logs.events, migrated.logs.problems) == (3, 2105, {})
    with pytest.raises(Unavailable, match=r"moved to PostgreSQL.*hutch migrate --to sqlite"):
        async with opened(tmp_path / "hutch.db", tmp_path):
            pass
    async with opened(target, tmp_path) as log:
        assert await rows(log) == before
        assert isinstance((await log.read(ids[1], after=2, limit=1))[0].event, ErasedEvent)
        assert (await log.append(ids[2], [message("more")])).seq == 702
        rule = {"user_id": "usr_1", "tool": "edit", "pattern": "a"}
        await log.change(lambda connection: connection.execute(insert(approval_rules).values(rule)))
        before = await rows(log)
    await asyncio.to_thread(back, tmp_path, target)
    with pytest.raises(Unavailable, match="moved to SQLite"):
        async with opened(target, tmp_path):
            pass
    async with opened(tmp_path / "hutch.db", tmp_path) as log:
        after = await rows(log)
        assert after["statements"][: len(before["statements"])] == before["statements"]
        assert {**after, "statements": None, "logs": None} == {**before, "statements": None, "logs": None}
        assert (await log.append(ids[2], [message("and more")])).seq == 703
    await asyncio.to_thread(to_postgresql, tmp_path, target)  # the rows there are older, and are replaced
    async with opened(target, tmp_path) as log:
        assert (await log.head(ids[2])).seq == 703


@pytest.mark.parametrize("step", ["Copying rows", "Comparing rows"])
async def test_an_interrupted_migration_is_refused_as_a_database_and_continues(
    tmp_path: Path, target: PostgresqlDatabase, step: str
) -> None:
    ids = await installation(tmp_path)
    with pytest.raises(Interrupted):
        await asyncio.to_thread(to_postgresql, tmp_path, target, step)
    with pytest.raises(Unavailable, match=r"has not ended.*hutch migrate --to"):
        async with opened(target, tmp_path):
            pass
    async with opened(tmp_path / "hutch.db", tmp_path) as log:  # work goes on meanwhile
        await log.append(ids[2], [message("meanwhile")])
        await log.erase(ids[0], [2, 3], reason="meanwhile")
        gone = text("DELETE FROM approval_rules WHERE position < 600")
        await log.change(lambda connection: connection.execute(gone))
        before = await rows(log)
    await asyncio.to_thread(to_postgresql, tmp_path, target)
    async with opened(target, tmp_path) as log:
        after = await rows(log)
        assert len(after["approval_rules"]) == 601
        assert {**after, "statements": None, "logs": None} == {**before, "statements": None, "logs": None}


async def test_a_database_with_another_installation_stays_as_it_is(
    tmp_path: Path, target: PostgresqlDatabase
) -> None:
    other = tmp_path / "other"
    async with opened(target, other) as log:
        await Users(log).add("Grace", "owner")
    await installation(tmp_path)
    with pytest.raises(Conflict, match="has an installation already"):
        await asyncio.to_thread(to_postgresql, tmp_path, target)
    async with opened(target, other) as log:
        names = await log.fetch(lambda connection: connection.scalars(select(users.c.name)).all())
    assert names == ["Grace"]


async def test_rows_that_differ_in_the_end_are_not_accepted(
    tmp_path: Path, target: PostgresqlDatabase
) -> None:
    await installation(tmp_path)

    def on_progress(progress: MigrationProgress) -> None:
        if progress.step == "Comparing rows" and progress.done == 0:
            engine = create_engine(target.url.replace("postgresql:", "postgresql+psycopg:"))
            with engine.begin() as connection:
                connection.execute(text("UPDATE events SET payload = 'x' WHERE position = 7"))
            engine.dispose()

    with pytest.raises(Conflict, match=r"differ at events \(7,\)"):
        await asyncio.to_thread(
            migrate_to_postgresql, tmp_path / "hutch.db", target, tmp_path / "blobs", on_progress
        )
    assert (tmp_path / "hutch.db").exists()
    async with opened(tmp_path / "hutch.db", tmp_path) as log:
        count = await log.fetch(lambda connection: len(connection.execute(select(events.c.seq)).all()))
    assert count == 2105


async def test_files_of_an_installation_beside_an_empty_database_are_noticed(
    tmp_path: Path, target: PostgresqlDatabase
) -> None:
    await installation(tmp_path)
    with pytest.raises(Unavailable, match=r"is empty, and .* holds keys/signing.pem.*hutch migrate"):
        async with opened(target, tmp_path):
            pass
