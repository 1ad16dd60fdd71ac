"""The mark of a database in PostgreSQL that must not be used: it is incomplete, or its rows moved away."""

from sqlalchemy import Connection, text

from hutch.domain.errors import Unavailable
from hutch.store.database_location import PostgresqlDatabase
from hutch.system.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class MigrationMark:
    """The state of the rows, and the data directory of their installation."""

    state: str  # copying, moved
    place: str


def read_mark(connection: Connection) -> MigrationMark | None:
    if connection.scalar(text("SELECT to_regclass('hutch_migration')")) is None:
        return None
    row = connection.execute(text("SELECT state, place FROM hutch_migration")).one()
    return MigrationMark(*row)


def write_mark(connection: Connection, mark: MigrationMark) -> None:
    remove_mark(connection)
    connection.execute(
        text("CREATE TABLE hutch_migration AS SELECT CAST(:state AS text) state, CAST(:place AS text) place"),
        {"state": mark.state, "place": mark.place},
    )


def remove_mark(connection: Connection) -> None:
    connection.exec_driver_sql("DROP TABLE IF EXISTS hutch_migration")


def end_other_sessions(connection: Connection) -> None:
    """Disconnect the processes that have the database open. Their next write finds the mark."""
    connection.execute(
        text(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() "
            "AND usename = current_user AND pid <> pg_backend_pid()"
        )
    )


def check_not_marked(connection: Connection, location: PostgresqlDatabase) -> None:
    """Refuse a database that must not be used."""
    mark = read_mark(connection)
    if mark is not None and mark.state == "copying":
        raise Unavailable(
            f"A migration to {location} has not ended. Continue it with: hutch migrate --to '{location}'"
        )
    if mark is not None:
        raise Unavailable(
            f"The rows of {location} moved to SQLite in {mark.place}. Unset database.url, or move them back: "
            f"hutch migrate --to '{location}'"
        )
