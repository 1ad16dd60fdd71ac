"""Quick read-only queries that create no files and need no other part of the store.

For `hutch doctor`, which inspects a possibly damaged database, and for shell
completion, which must be fast. A reader in WAL mode would create files beside the
database, or fail without write permission; an immutable one does neither.
"""

import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")


class DatabaseUnreadable(Exception):
    """SQLite could not read the file. The database itself may be intact."""


class DatabaseUnsound(Exception):
    """SQLite reports that the file is damaged or is not a database."""


def newest_logs(file: Path, limit: int, *, within_s: float) -> list[tuple[str, int, bool, int]]:
    """Session id, opening time, whether it has ended, number of events; empty if unreadable."""
    query = "SELECT session_id, opened_ms, ended, seq FROM logs ORDER BY session_id DESC LIMIT ?"
    return _read(file, query, limit, within_s)


def newest_sessions(file: Path, limit: int, *, within_s: float) -> list[tuple[str, int, str, str]]:
    """Id, time of creation, state and purpose; empty if the file cannot be read."""
    query = "SELECT id, created_ms, state, purpose FROM sessions ORDER BY id DESC LIMIT ?"
    return _read(file, query, limit, within_s)


def user_names(file: Path, limit: int, *, within_s: float) -> list[str]:
    """The names of users; empty if the file cannot be read."""
    return [row[0] for row in _read(file, "SELECT name FROM users ORDER BY name LIMIT ?", limit, within_s)]


def newest_event_ms(file: Path, *, within_s: float) -> int | None:
    """When the newest event was written; None if there is none, or the file cannot be read."""
    found = _read(file, "SELECT max(at_ms) FROM logs LIMIT ?", 1, within_s)
    newest = found[0][0] if found else None
    return newest if isinstance(newest, int) else None


def check_integrity(file: Path, *, within_s: float) -> tuple[str | None, bool]:
    """The schema revision of an intact database, and whether the check finished in time."""

    def check(connection: sqlite3.Connection) -> tuple[str | None, bool]:
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
        return query_read_only(file, check, within_s=within_s)
    except sqlite3.OperationalError as error:
        raise DatabaseUnreadable(str(error)) from error
    except sqlite3.Error as error:
        raise DatabaseUnsound(str(error)) from error


def query_read_only(file: Path, query: Callable[[sqlite3.Connection], T], *, within_s: float) -> T:
    """The result of `query`; raises the last error if no way of opening the file works.

    A query that takes longer than `within_s` is interrupted.
    """
    problem: sqlite3.Error | None = None
    for parameters in _open_parameters(file):
        try:
            uri = f"{file.absolute().as_uri()}?{parameters}"
            with closing(sqlite3.connect(uri, uri=True, timeout=within_s)) as connection:
                connection.set_progress_handler(_is_after(time.monotonic() + within_s), 10_000)
                return query(connection)
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


def _is_after(deadline: float) -> Callable[[], bool]:
    return lambda: time.monotonic() > deadline


def _open_parameters(file: Path) -> Iterator[str]:
    """URI parameters for opening the file, best first; each is used only if the previous one failed."""
    if not _companion_files(file):
        yield "mode=ro&immutable=1"
        if not _companion_files(file):
            return  # no writer has started, so the other parameters would give the same result
    # Do not write to the index: after a crash, it shows what was committed last.
    yield "mode=ro&readonly_shm=1" if "-shm" in _companion_files(file) else "mode=ro"
    sizes_bytes = _companion_files(file)
    if "-journal" not in sizes_bytes and sizes_bytes.get("-wal", 0) == 0:
        yield "mode=ro&immutable=1"


def _companion_files(file: Path) -> dict[str, int]:
    """The sizes of the files in which SQLite stores data that is not in the database yet."""
    sizes_bytes = {}
    for suffix in ("-wal", "-shm", "-journal"):
        with suppress(OSError):
            sizes_bytes[suffix] = file.with_name(file.name + suffix).stat().st_size
    return sizes_bytes
