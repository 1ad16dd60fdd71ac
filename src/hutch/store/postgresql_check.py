"""A quick check of a database in PostgreSQL, for `hutch doctor` and the state of a server."""

from contextlib import suppress

import psycopg

from hutch.store.database_location import PostgresqlDatabase
from hutch.store.postgresql_connection import connect, translate_postgresql_errors
from hutch.store.schema import REVISIONS
from hutch.system.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class PostgresqlState:
    """The state of the database."""

    version: str
    size_bytes: int
    revision: str | None
    is_newer: bool  # of a version after this one
    newest_ms: int | None  # the time of the newest event
    migration: str  # copying, moved, or empty


def inspect_postgresql(location: PostgresqlDatabase) -> PostgresqlState:
    """Raises `Unavailable` if the database cannot be reached. Writes nothing."""
    with translate_postgresql_errors(location), connect(location) as session:
        row = session.execute(
            "SELECT current_setting('server_version'), pg_database_size(current_database())"
        ).fetchone()
        assert row
        revision = newest_ms = None
        migration = ""
        with suppress(psycopg.errors.UndefinedTable):
            revision = _one(session, "SELECT version_num FROM alembic_version")
            newest_ms = _one(session, "SELECT max(at_ms) FROM logs")
        with suppress(psycopg.errors.UndefinedTable):
            migration = str(_one(session, "SELECT state FROM hutch_migration") or "")
        is_newer = revision is not None and revision not in REVISIONS
        return PostgresqlState(str(row[0]).split()[0], int(row[1]), revision, is_newer, newest_ms, migration)


def _one(session: "psycopg.Connection[tuple[object, ...]]", query: str):  # type: ignore[no-untyped-def]
    row = session.execute(query).fetchone()
    return row[0] if row else None
