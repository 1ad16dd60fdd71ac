"""Opens a database in PostgreSQL: checks, migrations, and what the event log needs of it."""

from contextlib import AbstractContextManager
from functools import partial

from alembic import command
from alembic.config import Config
from sqlalchemy import Connection, Engine, text

from hutch.domain.errors import Unavailable
from hutch.store.commit_watch import CommitWatch
from hutch.store.database import MIGRATIONS, left_behind
from hutch.store.database_location import PostgresqlDatabase
from hutch.store.log_write_sql import Transaction
from hutch.store.postgresql_connection import (
    MIN_VERSION,
    create_postgresql_engine,
    translate_postgresql_errors,
)
from hutch.store.postgresql_migration_mark import check_not_marked
from hutch.store.postgresql_transaction import PostgresqlTransaction
from hutch.store.postgresql_watch import NotificationWatch
from hutch.system.lazy_dataclass import dataclass

MIGRATION_LOCK = 0x4D49475241  # "MIGRA"


class NoFiles:
    """The server checks its files itself."""

    is_wal_in_doubt = False
    can_save_wal = False

    def check(self) -> None:
        """Nothing: a commit that the server has confirmed is durable."""

    def fail(self, problem: Exception) -> None:
        """Nothing: the server decides if it goes on."""

    def clear_damage_mark(self) -> None:
        """Nothing: there is none."""

    def close(self) -> None:
        """Nothing is open."""


@dataclass(slots=True)
class OpenPostgresql:
    """A database in PostgreSQL."""

    location: PostgresqlDatabase
    engine: Engine
    files: NoFiles
    begin_snapshot: str = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"

    def translate_errors(self) -> AbstractContextManager[None]:
        return translate_postgresql_errors(self.location)

    def open_transaction(self) -> Transaction:
        check = partial(check_not_marked, location=self.location)
        return PostgresqlTransaction(self.engine, check)

    def commit_watch(self) -> CommitWatch:
        return NotificationWatch(self.location)


def open_postgresql(location: PostgresqlDatabase, *, start_empty: bool = False) -> OpenPostgresql:
    """Connect to a database; create its schema or migrate it to the newest.

    If the installation has files of an earlier database, a new one is created only with `start_empty`.
    """
    with translate_postgresql_errors(location):
        engine = create_postgresql_engine(location)
        try:
            with engine.connect() as connection:
                check_not_marked(connection, location)
                prepare_schema(connection, location, start_empty=start_empty)
        except BaseException:
            engine.dispose()
            raise
        return OpenPostgresql(location, engine, NoFiles())


def prepare_schema(connection: Connection, location: PostgresqlDatabase, *, start_empty: bool = True) -> None:
    """Create the schema, or migrate it to the newest."""
    _check_server(connection, location)
    revision = read_postgresql_revision(connection, location)
    if revision is None and not start_empty and (left := left_behind(location.data)):
        raise Unavailable(
            f"The database {location} is empty, and {location.data} holds {' and '.join(left)} of an "
            f"installation. Move its rows: hutch migrate --to '{location}'; put back a backup of the "
            "database, or start empty: hutch up --new"
        )
    if revision != MIGRATIONS.revisions[-1]:
        migrate_postgresql(connection, location)


def _check_server(connection: Connection, location: PostgresqlDatabase) -> None:
    version, encoding = connection.execute(
        text("SELECT current_setting('server_version_num')::int, current_setting('server_encoding')")
    ).one()
    if version < MIN_VERSION:
        raise Unavailable(f"The server of {location} is too old: Hutch needs PostgreSQL 14 or newer.")
    if encoding != "UTF8":
        raise Unavailable(
            f"The database {location} has the encoding {encoding}. Create one with: createdb --encoding UTF8"
        )


def read_postgresql_revision(connection: Connection, location: PostgresqlDatabase) -> str | None:
    """The schema revision; None if there is no schema yet."""
    if connection.scalar(text("SELECT to_regclass('alembic_version')")) is None:
        return None
    revision: str | None = connection.scalar(text("SELECT version_num FROM alembic_version"))
    if revision is not None and revision not in MIGRATIONS.revisions:
        raise Unavailable(
            f"The database {location} was written by a newer Hutch (schema {revision}; this one supports up "
            f"to {MIGRATIONS.revisions[-1]}). Upgrade Hutch, or set database.url to another database."
        )
    return revision


def migrate_postgresql(connection: Connection, location: PostgresqlDatabase) -> None:
    """Bring the schema up to date, in one transaction, one process at a time."""
    connection.exec_driver_sql(f"SELECT pg_advisory_lock({MIGRATION_LOCK})")
    try:
        if read_postgresql_revision(connection, location) == MIGRATIONS.revisions[-1]:
            return
        config = Config()
        config.set_main_option("script_location", str(MIGRATIONS.directory))
        config.attributes["connection"] = connection
        connection.exec_driver_sql("BEGIN")
        try:
            command.upgrade(config, "head")
        except BaseException:
            connection.exec_driver_sql("ROLLBACK")
            raise
        connection.exec_driver_sql("COMMIT")
    finally:
        connection.exec_driver_sql(f"SELECT pg_advisory_unlock({MIGRATION_LOCK})")
