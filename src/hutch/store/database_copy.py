"""Copies the database of an installation, consistent at one moment, while others write to it.

The copy is made within one read transaction: writers continue, their commits stay in the
write-ahead file until the copy is complete, and none of them is in it. Only SQLite opens the
file, as everywhere in `store/`. The schema is not changed, so an older database stays one.
"""

import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import NamedTuple

from hutch.domain.errors import NotFound, Unavailable
from hutch.store.database import BUSY_TIMEOUT_S, check_files, read_revision, translate_errors

STEP_PAGES = 1024  # copied between two calls of `on_progress`, which may raise to stop

OnProgress = Callable[[int, int], None]  # the pages that are copied, and all of them


class LogHead(NamedTuple):
    """The end of a session's log."""

    session_id: str
    events: int
    hash: str
    ended: bool


def copy_database(path: Path, copy: Path, on_progress: OnProgress) -> str:
    """Copy the database to a file that does not exist; returns the schema revision. Blocks the thread."""
    with translate_errors(path):
        if not path.exists():
            raise NotFound(f"There is no database at {path}, so there is nothing to back up.")
        check_files(path)
        os.close(os.open(copy, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        with closing(_connect(path)) as source, closing(_connect(copy)) as target:
            # While this transaction is open, SQLite copies this one state, however often others commit.
            source.execute("BEGIN")
            source.execute("SELECT 1 FROM sqlite_master").fetchone()
            source.backup(
                target,
                pages=STEP_PAGES,
                progress=lambda _, remaining, total: on_progress(total - remaining, total),
            )
            source.execute("ROLLBACK")
        check_copy(copy)
        revision = read_revision(copy)
    if revision is None:
        raise NotFound(f"The database {path} is empty, so there is nothing to back up.")
    return revision


def check_copy(path: Path) -> None:
    """Refuse a file that SQLite finds damaged. Blocks the thread."""
    with translate_errors(path), closing(_connect(path)) as connection:
        connection.execute("PRAGMA journal_mode=DELETE")  # one file, without a write-ahead file beside it
        (found,) = connection.execute("PRAGMA quick_check(1)").fetchone()
    if found != "ok":
        raise Unavailable(f"The database is damaged ({found}). Run: hutch doctor")


@contextmanager
def open_copy(path: Path) -> Iterator["DatabaseCopy"]:
    """Read a copy of any schema revision."""
    with translate_errors(path), closing(_connect(path)) as connection:
        yield DatabaseCopy(connection)


class DatabaseCopy:
    """The rows of a copy that a backup needs. They have had these names since the first revision."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def heads(self) -> Iterator[LogHead]:
        """The end of every log, the oldest session first."""
        rows = self._connection.execute("SELECT session_id, seq, hash, ended FROM logs ORDER BY id")
        for session_id, seq, hash_, ended in rows:
            yield LogHead(session_id, seq, hash_, bool(ended))

    def blobs(self) -> Iterator[str]:
        """The names of the blobs that events have as their payload."""
        query = "SELECT payload_hash FROM events WHERE payload IS NULL AND salt IS NOT NULL ORDER BY 1"
        yield from (name for (name,) in self._connection.execute(query))

    def unfinished_runs(self) -> int:
        """The number of runs that a server would begin or continue."""
        tables = "SELECT 1 FROM sqlite_master WHERE name = 'runs'"
        if not self._connection.execute(tables).fetchone():
            return 0
        query = "SELECT count(*) FROM runs WHERE state != 'ended'"
        (count,) = self._connection.execute(query).fetchone()
        return int(count)


def is_erased(path: Path, blob: str) -> bool:
    """True if no event of the database has this payload any more."""
    query = "SELECT 1 FROM events WHERE payload_hash = ? AND salt IS NOT NULL LIMIT 1"
    with translate_errors(path), closing(_connect(path)) as connection:
        return connection.execute(query, (blob,)).fetchone() is None


def _connect(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(path, timeout=BUSY_TIMEOUT_S, isolation_level=None, check_same_thread=False)
