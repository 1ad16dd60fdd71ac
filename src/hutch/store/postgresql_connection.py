"""Connections to a PostgreSQL server, and the errors that it reports."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
from psycopg import errors
from psycopg.conninfo import conninfo_to_dict
from sqlalchemy import Engine, create_engine
from sqlalchemy.exc import DBAPIError

from hutch.domain.errors import BadRequest, HutchError, LimitReached, Unavailable
from hutch.store.database import BUSY_TIMEOUT_S, MAX_CONCURRENT_EXPORTS, READERS_AND_WRITER, translate_errors
from hutch.store.database_location import PostgresqlDatabase
from hutch.store.postgresql_dialect import COMPILED, DRIVER

DEFAULTS: dict[str, Any] = {  # of the connection, unless the URL says otherwise
    "application_name": "hutch",
    "connect_timeout": 10,
    "keepalives_idle": 30,  # seconds, so that a lost network is noticed
    "keepalives_interval": 10,
    "keepalives_count": 3,
}
MIN_VERSION = 140000


def connect(location: PostgresqlDatabase) -> "psycopg.Connection[Any]":
    """A connection on which each statement is a transaction, until a BEGIN."""
    options: dict[str, Any] = DEFAULTS | conninfo_to_dict(location.url) | {"client_encoding": "utf8"}
    if location.password:
        options["password"] = location.password
    return psycopg.connect(**options, autocommit=True)


def create_postgresql_engine(location: PostgresqlDatabase) -> Engine:
    """A pool of connections. None is opened yet."""

    def connect_to_write() -> "psycopg.Connection[Any]":
        session = connect(location)
        session.execute(f"SET lock_timeout = '{BUSY_TIMEOUT_S:.0f}s'")
        return session

    engine = create_engine(
        f"{DRIVER}://",
        creator=connect_to_write,
        pool_size=READERS_AND_WRITER,
        max_overflow=MAX_CONCURRENT_EXPORTS,
        pool_pre_ping=True,  # else each connection would fail once after the server was restarted
        isolation_level="AUTOCOMMIT",  # the writer sends BEGIN itself; a read is one statement
        use_native_hstore=False,
        paramstyle="format",  # for the statements that the writer runs on the driver
    )
    return engine.execution_options(compiled_cache=COMPILED)


@contextmanager
def translate_postgresql_errors(location: PostgresqlDatabase) -> Iterator[None]:
    """Translate errors of the server and of the local disk into `HutchError`s with a remedy."""
    with translate_errors(location.data):
        try:
            yield
        except DBAPIError as error:
            raise _explain(location, error.orig or error) from error
        except psycopg.Error as error:
            raise _explain(location, error) from error


def _explain(location: PostgresqlDatabase, error: BaseException) -> HutchError:
    text = " ".join(str(error).split())
    if isinstance(error, errors.DiskFull):
        return LimitReached(
            f"The disk of the database {location} is full; nothing was written. Free some space there.",
            limit="disk",
        )
    if isinstance(error, errors.LockNotAvailable):
        return Unavailable(
            f"The database {location} was locked by another process for too long. "
            "See who holds it: SELECT * FROM pg_stat_activity"
        )
    if isinstance(error, errors.InsufficientPrivilege | errors.ReadOnlySqlTransaction):
        return Unavailable(
            f"Cannot write to the database {location} ({text}). Make its user the owner of the database."
        )
    if isinstance(error, psycopg.DataError) and "NUL" in text:
        return BadRequest("A text has a NUL character, which PostgreSQL cannot store. Remove it.")
    if isinstance(error, psycopg.OperationalError):
        return Unavailable(
            f"The database {location} cannot be reached ({text}). Check that its server runs, "
            "`database.url`, and the secret database_password."
        )
    return Unavailable(f"The database {location} does not work: {text}. Run: hutch doctor")
