"""A glance into the database: quick, without the rest of the store, and without a trace.

For the doctor, who looks at what may be broken, and for completion, which cannot
wait. A reader in WAL mode would leave files of its own beside the database, or
fail where it may not; one that is told that nobody writes does neither.
"""

import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")


class DatabaseUnreadable(Exception):
    """SQLite could not look: that says nothing about the database itself."""


class DatabaseUnsound(Exception):
    """SQLite has looked, and the database is damaged, or none at all."""


def newest_logs(file: Path, limit: int, *, within_s: float) -> list[tuple[str, int, bool, int]]:
    """Session id, time of opening, whether it has ended, number of events; none when that cannot be read."""
    query = "SELECT session_id, opened_ms, ended, seq FROM logs ORDER BY session_id DESC LIMIT ?"
    return _read(file, query, limit, within_s)


def newest_sessions(file: Path, limit: int, *, within_s: float) -> list[tuple[str, int, str, str]]:
    """Id, time of creation, state and purpose; none when that cannot be read."""
    query = "SELECT id, created_ms, state, purpose FROM sessions ORDER BY id DESC LIMIT ?"
    return _read(file, query, limit, within_s)


def newest_event_ms(file: Path, *, within_s: float) -> int | None:
    """When the newest event was written; None when there is none, or when that cannot be read."""
    found = _read(file, "SELECT max(at_ms) FROM logs LIMIT ?", 1, within_s)
    newest = found[0][0] if found else None
    return newest if isinstance(newest, int) else None


def check_integrity(file: Path, *, within_s: float) -> tuple[str | None, bool]:
    """The schema of a sound database, and whether there was the time to look at all of it."""

    def look(connection: sqlite3.Connection) -> tuple[str | None, bool]:
        schema = None
        if _one(connection, "SELECT 1 FROM sqlite_master WHERE name = 'alembic_version'"):
            schema = _one(connection, "SELECT version_num FROM alembic_version")
        try:
            verdict = _one(connection, "PRAGMA quick_check(1)")
        except sqlite3.OperationalError as error:
            if "interrupted" not in str(error):
                raise
            return schema, False
        if verdict != "ok":
            raise sqlite3.DatabaseError(verdict)
        return schema, True

    try:
        return query_read_only(file, look, within_s=within_s)
    except sqlite3.OperationalError as error:
        raise DatabaseUnreadable(str(error)) from error
    except sqlite3.Error as error:
        raise DatabaseUnsound(str(error)) from error


def query_read_only(file: Path, ask: Callable[[sqlite3.Connection], T], *, within_s: float) -> T:
    """What `ask` finds in the database; the last error when it cannot be read in any way.

    A query that takes longer than `within_s` is interrupted.
    """
    problem: sqlite3.Error | None = None
    for way in _open_modes(file):
        try:
            uri = f"{file.absolute().as_uri()}?{way}"
            with closing(sqlite3.connect(uri, uri=True, timeout=within_s)) as connection:
                connection.set_progress_handler(_past(time.monotonic() + within_s), 10_000)
                return ask(connection)
        except sqlite3.Error as error:
            problem = error
    assert problem
    raise problem


def _read(file: Path, query: str, limit: int, within_s: float) -> list[Any]:
    try:
        return query_read_only(
            file, lambda connection: connection.execute(query, (limit,)).fetchall(), within_s=within_s
        )
    except (sqlite3.Error, OSError):
        return []


def _one(connection: sqlite3.Connection, query: str) -> Any:
    row = connection.execute(query).fetchone()
    return row[0] if row else None


def _past(deadline: float) -> Callable[[], bool]:
    return lambda: time.monotonic() > deadline


def _open_modes(file: Path) -> Iterator[str]:
    """The parameters to open it with, best first; the next is asked for only when one has failed."""
    if not _beside(file):
        yield "mode=ro&immutable=1"
        if not _beside(file):
            return  # nobody began to write meanwhile, so the other way would find the same
    # An index is not written to: after a crash, it is the witness of what was committed last.
    yield "mode=ro&readonly_shm=1" if "-shm" in _beside(file) else "mode=ro"
    sizes_bytes = _beside(file)
    if "-journal" not in sizes_bytes and sizes_bytes.get("-wal", 0) == 0:
        yield "mode=ro&immutable=1"


def _beside(file: Path) -> dict[str, int]:
    """The files in which SQLite keeps what is not in the database yet, with their sizes."""
    sizes_bytes = {}
    for ending in ("-wal", "-shm", "-journal"):
        with suppress(OSError):
            sizes_bytes[ending] = file.with_name(file.name + ending).stat().st_size
    return sizes_bytes
