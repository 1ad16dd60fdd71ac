"""Moves all rows of an installation to another database: from SQLite to PostgreSQL, or back.

The source is locked, so it does not change meanwhile. The target is marked as incomplete until every
table was compared and every log was verified in it; then the source is marked as moved. An interrupted
migration is continued by the same command.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import field
from pathlib import Path

from sqlalchemy import Connection, Engine, Table, func, inspect, select, text

from hutch.domain.errors import Conflict, NotFound, RecordDamaged
from hutch.store.all_tables import all_tables
from hutch.store.database import create_database, mark_as_moved, moved_file, translate_errors
from hutch.store.database_location import DatabaseLocation, PostgresqlDatabase
from hutch.store.large_payload_files import Blobs
from hutch.store.open_database import open_sqlite
from hutch.store.postgresql_connection import create_postgresql_engine, translate_postgresql_errors
from hutch.store.postgresql_database import prepare_schema
from hutch.store.postgresql_migration_mark import (
    MigrationMark,
    end_other_sessions,
    read_mark,
    remove_mark,
    write_mark,
)
from hutch.store.postgresql_transaction import WRITE_LOCK
from hutch.store.schema import logs, users
from hutch.store.stored_logs_check import LogsReport, check_logs
from hutch.store.table_synchronisation import copy_rows, delete_others, find_difference
from hutch.system.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class MigrationProgress:
    """The step that is under way, and how far it is."""

    step: str
    done: int = 0
    total: int = 0


OnProgress = Callable[[MigrationProgress], None]  # may raise to stop


@dataclass(slots=True)
class Migrated:
    """A migration that has ended."""

    tables: int
    rows: int
    logs: LogsReport
    damaged_before: list[str] = field(default_factory=list)  # sessions whose logs did not verify before


def migrate_to_postgresql(
    path: Path, location: PostgresqlDatabase, blobs: Path, on_progress: OnProgress
) -> Migrated:
    """Move the rows of a file of SQLite to a database in PostgreSQL. Blocks the thread.

    No server may run on the installation. The file gets another name at the end.
    """
    if not path.exists():
        raise NotFound(f"There is no database at {path}, so there is nothing to move.")
    mark = MigrationMark("copying", str(location.data))
    with _sqlite_source(path) as source, _postgresql(location) as engine, engine.connect() as target:
        with translate_postgresql_errors(location):
            known = read_mark(target)
            prepare_schema(target, location)
            if known is None and _has_rows(target):
                raise Conflict(f"{location} has an installation already. Name an empty database.")
            if known is not None and known.place != mark.place:
                raise Conflict(
                    f"{location} has the rows of the installation in {known.place}. Name an empty database."
                )
            write_mark(target, mark)
            migrated = _move(source, target, blobs, on_progress)
            _set_sequences(target)
            remove_mark(target)
        mark_as_moved(path)
    return migrated


def migrate_to_sqlite(
    location: PostgresqlDatabase, path: Path, blobs: Path, on_progress: OnProgress
) -> Migrated:
    """Move the rows of a database in PostgreSQL to a new file of SQLite. Blocks the thread."""
    if path.exists():
        raise Conflict(f"There is a database at {path}. Move it away first.")
    draft = Path(f"{path}.migrating")
    with _postgresql(location) as engine, engine.connect() as source, translate_postgresql_errors(location):
        if not inspect(source).has_table(logs.name):
            raise NotFound(f"{location} has no installation, so there is nothing to move.")
        prepare_schema(source, location)
        source.exec_driver_sql(f"SELECT pg_advisory_lock({WRITE_LOCK})")  # released at disconnection
        with translate_errors(path):
            into = create_database(draft)
            try:
                with into.connect() as target:
                    migrated = _move(source, target, blobs, on_progress)
                    target.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)")
            finally:
                into.dispose()
            moved_file(path).unlink(missing_ok=True)  # its rows are older
            draft.rename(path)
        write_mark(source, MigrationMark("moved", str(location.data)))
        end_other_sessions(source)
    return migrated


def _move(source: Connection, target: Connection, blobs: Path, on_progress: OnProgress) -> Migrated:
    tables = all_tables()
    total = sum(source.scalar(select(func.count()).select_from(table)) or 0 for table in tables)
    for table in reversed(tables):
        delete_others(source, target, table)
    _each(tables, "Copying rows", total, on_progress, lambda *given: copy_rows(source, target, *given))

    def compare(table: Table, on_rows: Callable[[int], None]) -> None:
        if difference := find_difference(source, target, table, on_rows):
            raise Conflict(f"The databases differ at {difference}. Run the command again.")

    _each(tables, "Comparing rows", total, on_progress, compare)
    count = source.scalar(select(func.count()).select_from(logs)) or 0

    def on_log(done: int) -> None:
        on_progress(MigrationProgress("Verifying logs", done, count))

    report = check_logs(target, Blobs(blobs), on_log)
    before = check_logs(source, Blobs(blobs), lambda _: None, only=set(report.problems))
    if report.problems != before.problems:
        session, problem = next(iter(report.problems.items()))
        raise RecordDamaged(f"The log of {session} does not verify in the new database: {problem}")
    return Migrated(len(tables), total, report, sorted(before.problems))


def _each(
    tables: list[Table],
    step: str,
    total: int,
    on_progress: OnProgress,
    do: Callable[[Table, Callable[[int], None]], None],
) -> None:
    done = 0

    def on_rows(count: int) -> None:
        nonlocal done
        done += count
        on_progress(MigrationProgress(step, done, total))

    on_progress(MigrationProgress(step, 0, total))
    for table in tables:
        do(table, on_rows)


@contextmanager
def _sqlite_source(path: Path) -> Iterator[Connection]:
    """A connection that nobody can write beside."""
    database = open_sqlite(path)
    try:
        with database.translate_errors(), database.engine.connect() as connection:
            connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)")
            connection.exec_driver_sql("BEGIN IMMEDIATE")
            yield connection
            connection.exec_driver_sql("ROLLBACK")
    finally:
        database.files.close()
        database.engine.dispose()


@contextmanager
def _postgresql(location: DatabaseLocation) -> Iterator[Engine]:
    assert isinstance(location, PostgresqlDatabase)
    engine = create_postgresql_engine(location)
    try:
        with translate_postgresql_errors(location):
            yield engine
    finally:
        engine.dispose()


def _has_rows(connection: Connection) -> bool:
    return any(connection.execute(select(table).limit(1)).first() for table in (logs, users))


def _set_sequences(connection: Connection) -> None:
    """Let numeric keys continue after the copied ones."""
    for table in all_tables():
        column = table.autoincrement_column
        if column is not None:
            next_key = f"SELECT coalesce(max({column.name}), 0) + 1 FROM {table.name}"
            sequence = f"pg_get_serial_sequence('{table.name}', '{column.name}')"
            connection.execute(text(f"SELECT setval({sequence}, ({next_key}), false)"))
