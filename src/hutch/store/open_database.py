"""An open database: all that differs between SQLite and PostgreSQL, for the event log and its rows.

Tables, queries and everything above are the same. In both, one transaction writes at a time, and a
reader sees one state of the database per statement.
"""

from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

from sqlalchemy import Engine

from hutch.store.commit_watch import CommitWatch
from hutch.store.data_version_watch import DataVersionWatch
from hutch.store.database import BUSY_TIMEOUT_S, MAX_IDLE_WAL_BYTES, open_database, translate_errors
from hutch.store.database_location import DatabaseLocation
from hutch.store.log_write_sql import Transaction
from hutch.store.open_database_loss_check import DatabaseFiles
from hutch.system.lazy_dataclass import dataclass


class FileCheck(Protocol):
    """Checks that the files of the database are still there and whole."""

    @property
    def is_wal_in_doubt(self) -> bool: ...

    @property
    def can_save_wal(self) -> bool: ...

    def check(self) -> None: ...

    def fail(self, problem: Exception) -> None: ...

    def clear_damage_mark(self) -> None: ...

    def close(self) -> None: ...


class OpenDatabase(Protocol):
    """A database with the current schema. Its opener disposes of the engine."""

    engine: Engine
    begin_snapshot: str  # the statement that begins a read transaction on one state of the database

    @property
    def files(self) -> FileCheck: ...

    def translate_errors(self) -> AbstractContextManager[None]:
        """Translate errors of the database and the disk into `HutchError`s with a remedy."""
        ...

    def open_transaction(self) -> Transaction: ...

    def commit_watch(self) -> CommitWatch: ...


@dataclass(slots=True)
class SqliteDatabase:
    """A file of SQLite."""

    path: Path
    engine: Engine
    files: DatabaseFiles
    begin_snapshot: str = "BEGIN"

    def translate_errors(self) -> AbstractContextManager[None]:
        return translate_errors(self.path)

    def open_transaction(self) -> Transaction:
        return Transaction(self.engine)

    def commit_watch(self) -> CommitWatch:
        return DataVersionWatch(self.engine)


def replace_lost_database(location: DatabaseLocation) -> None:
    """Create an empty database for an installation that lost its own. Its keys and blobs stay."""
    if isinstance(location, Path):
        open_database(location, start_empty=True).dispose()
        return
    from hutch.store.postgresql_database import open_postgresql

    open_postgresql(location, start_empty=True).engine.dispose()


def open_location(location: DatabaseLocation, *, busy_timeout_s: float = BUSY_TIMEOUT_S) -> OpenDatabase:
    """Connect to a database; create its schema or migrate it to the newest. Blocks the thread."""
    if isinstance(location, Path):
        return open_sqlite(location, busy_timeout_s=busy_timeout_s)
    from hutch.store.postgresql_database import open_postgresql

    return open_postgresql(location)


def open_sqlite(path: Path, *, busy_timeout_s: float = BUSY_TIMEOUT_S) -> SqliteDatabase:
    engine = open_database(path, busy_timeout_s=busy_timeout_s)
    return SqliteDatabase(path, engine, DatabaseFiles(path, MAX_IDLE_WAL_BYTES))
