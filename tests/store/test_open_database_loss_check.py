"""The files of a database that is in use: what happens to them is noticed before anything is acknowledged."""

import asyncio
import os
import sqlite3
import threading
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from hutch.domain.errors import DataGone, Unavailable
from hutch.domain.events import MessageSent, SessionOpened
from hutch.domain.ids import new_session_id
from hutch.store.event_log import SqlLog, open_log
from hutch.store.open_database_loss_check import DatabaseFiles

from .direct_sql import sql

pytestmark = pytest.mark.anyio
OPENED = SessionOpened(purpose="test")


@pytest.fixture
async def log(tmp_path: Path) -> AsyncIterator[SqlLog]:
    async with open_log(tmp_path / "hutch.db", tmp_path / "blobs", tmp_path / "keys" / "signing.pem") as log:
        yield log


async def fill(log: SqlLog) -> None:
    """More than SQLite holds in its caches."""
    session_id = new_session_id()
    said = [MessageSent(author="agent", text=str(number) * 500) for number in range(1000)]
    await log.append(session_id, [OPENED])
    for _ in range(6):
        await log.append(session_id, said)


async def test_damage_that_sqlite_finds_while_reading_ends_all_writing(log: SqlLog, tmp_path: Path) -> None:
    await fill(log)
    assert await log._writer.scrub()
    database = tmp_path / "hutch.db"
    with database.open("r+b") as file:
        file.seek(8192)
        file.write(b"\xff" * (database.stat().st_size - 8192))
    with pytest.raises(Unavailable, match=r"is damaged|DataGone"):
        for head in await log.heads():
            await log.defects(head.session_id)
    with pytest.raises(DataGone):
        await log.append(new_session_id(), [OPENED])
    with pytest.raises(DataGone):
        log.database_files.check()


async def test_what_sqlite_and_other_processes_do_to_the_files_is_no_damage(
    log: SqlLog, tmp_path: Path
) -> None:
    """Checkpoints of all kinds, and a write-ahead file that grows, is begun again, cut and emptied."""
    database, looks = tmp_path / "hutch.db", 0

    async def poll() -> None:
        nonlocal looks
        while True:
            await asyncio.to_thread(log.database_files.check)
            looks += 1

    looking = asyncio.ensure_future(poll())
    while looks <= 100:  # as often as it takes on a busy machine
        for kind in ("PASSIVE", "FULL", "RESTART", "TRUNCATE", "TRUNCATE"):
            await fill(log)
            await asyncio.to_thread(sql, database, f"PRAGMA wal_checkpoint({kind})")
            await log.append(new_session_id(), [OPENED])
            await log._writer.scrub()
        assert not looking.done(), looking.exception()
    looking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await looking
    await log.append(new_session_id(), [OPENED])


def test_a_write_ahead_file_that_is_emptied_during_the_look_is_no_damage(tmp_path: Path) -> None:
    database = sqlite3.connect(tmp_path / "hutch.db", isolation_level=None)
    database.execute("PRAGMA journal_mode = wal")
    database.execute("CREATE TABLE pages (page)")
    database_files, over = DatabaseFiles(tmp_path / "hutch.db", max_idle_wal_bytes=1 << 22), threading.Event()

    def poll() -> None:
        while not over.is_set():
            database_files.check()

    with ThreadPoolExecutor(2) as lookers, closing(database):
        looking = [lookers.submit(poll) for _ in range(2)]
        for _ in range(400):
            database.execute("INSERT INTO pages VALUES (zeroblob(20000))")
            database.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        over.set()
        for each in looking:
            each.result()
    database_files.close()


@pytest.mark.parametrize("left", [0, 32, 4096, 9000])
async def test_a_write_after_the_write_ahead_file_was_cut_is_refused(
    log: SqlLog, tmp_path: Path, left: int
) -> None:
    for _ in range(5):
        await log.append(new_session_id(), [OPENED])
    os.truncate(tmp_path / "hutch.db-wal", left)
    with pytest.raises(Unavailable):
        await log.append(new_session_id(), [OPENED])
    with pytest.raises(DataGone):
        await log.append(new_session_id(), [OPENED])
