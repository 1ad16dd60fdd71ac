"""Opens the database: pragmas, migrations after a backup, and readable errors.

Many processes may open one file. WAL lets them read while one writes;
`synchronous=FULL` makes a commit survive a power cut.
"""

import logging
import os
import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from sqlalchemy import URL, Engine, create_engine, event
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import ConnectionPoolEntry

from hutch.domain.errors import Conflict, HutchError, LimitReached, Unavailable
from hutch.store.compiled_statement_cache import COMPILED, DRIVER
from hutch.store.open_database_loss_check import damage_mark
from hutch.store.schema import REVISIONS
from hutch.store.wal_and_index_comparison import find_missing_frames
from hutch.system.file_lock import locked
from hutch.system.lazy_dataclass import dataclass

logging.getLogger("alembic").setLevel(logging.WARNING)  # its progress is noise to a user

BUSY_TIMEOUT_S = 15.0
MAX_BACKUPS = 3
MAX_IDLE_WAL_BYTES = 16 * 1024 * 1024
READERS_AND_WRITER = 8
MAX_CONCURRENT_EXPORTS = 8
WAL_INDEX_STEP_BYTES = 32 * 1024  # by which SQLite makes the index of its write-ahead file longer


REMAINING_FILES = {  # display names, and files that exist only after the database was created
    "keys/signing.pem": "keys/signing.pem",
    "keys/local.token": "keys/local.token",
    "blobs": "blobs/*",
    "backups": "backups/hutch-*.db",
    "workspaces of sessions": "workspaces/session-*",
}
# Of these, files that exist only after the first user or log: if they exist, an empty database lost its rows.
MADE_BY_USERS = ("keys/local.token", "blobs", "workspaces of sessions")
STARTED_EMPTY = 1  # as the database's user_version
DAMAGED_CODES = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
PRIMARY_CODE = 0xFF  # the part of an SQLite error code that gives its kind


class DatabaseDamaged(Unavailable):
    """SQLite reports that the file is damaged or is not a database."""


@dataclass(frozen=True, slots=True)
class Migrations:
    """The directory of the migrations, and their revisions, oldest first."""

    directory: Path
    revisions: Sequence[str]


MIGRATIONS = Migrations(Path(__file__).with_name("migrations"), REVISIONS)


def open_database(
    path: Path,
    *,
    busy_timeout_s: float = BUSY_TIMEOUT_S,
    migrations: Migrations = MIGRATIONS,
    start_empty: bool = False,
) -> Engine:
    """Connect to the database at `path`; create it or migrate it to the newest schema.

    If an installation has lost its database, a new one is created only with `start_empty`.
    """
    with translate_errors(path):
        _make_directory(path.parent)
        _check_moved(path)
        check_files(path)
        left = left_behind(path.parent)  # first: another process may be making both
        if start_empty and has_records(path):
            raise Conflict(f"There is a database at {path}. Start without --new, or move it away.")
        if left and not start_empty:
            _check_records(path, left, read_revision(path, migrations))
        _make_file(path)
        if read_revision(path, migrations) != migrations.revisions[-1]:
            _migrate(path, migrations)
        if start_empty:
            _mark_as_new(path)
        return _connect(path, busy_timeout_s)


def create_database(path: Path) -> Engine:
    """Connect to a file beside the database of an installation; create it or complete its schema."""
    _make_file(path)
    if read_revision(path) != MIGRATIONS.revisions[-1]:
        _migrate(path, MIGRATIONS)
    return _connect(path)


def moved_file(path: Path) -> Path:
    """The name of a database after its rows have moved to PostgreSQL."""
    return Path(f"{path}.moved")


def mark_as_moved(path: Path) -> None:
    """Give a database that nobody may use any more another name; processes that have it open notice."""
    for ending in ("", "-wal", "-shm"):
        with suppress(FileNotFoundError):
            Path(f"{path}{ending}").rename(f"{moved_file(path)}{ending}")


def _check_moved(path: Path) -> None:
    moved = moved_file(path)
    if moved.exists() and not path.exists():
        raise Unavailable(
            f"The rows of this installation moved to PostgreSQL; {moved} has those from before. Set "
            "database.url to that database, or move them back: hutch migrate --to sqlite"
        )


def check_files(path: Path) -> None:
    """Refuse a database that was found damaged, or whose newest commits were removed."""
    _check_mark(path)
    _check_write_ahead_file(path)


def _check_mark(path: Path) -> None:
    mark = damage_mark(path)
    if mark.exists():
        raise Unavailable(
            f"The last server on {path} stopped: {mark.read_text(errors='replace').strip()} Acknowledged "
            f"data may be missing. Restore the newest copy from {path.parent / 'backups'}, or continue with "
            f"the remaining data; in both cases, delete {mark} and {path}-shm first."
        )


@contextmanager
def translate_errors(path: Path) -> Iterator[None]:
    """Translate errors of the database and the disk into `HutchError`s with a remedy."""
    try:
        yield
    except DBAPIError as error:
        raise _explain(path, error.orig or error) from error
    except (sqlite3.Error, OSError) as error:
        raise _explain(path, error) from error


def _explain(path: Path, error: BaseException) -> HutchError:
    text = str(error)
    is_full = "disk is full" in text or "No space left" in text or "quota exceeded" in text.lower()
    code = getattr(error, "sqlite_errorcode", 0) & PRIMARY_CODE
    if is_full or (code == sqlite3.SQLITE_IOERR and not _has_room(path.parent)):
        return LimitReached(
            f"The disk that holds {path.parent} is full; nothing was written. Free some space there.",
            limit="disk",
        )
    if code in DAMAGED_CODES:
        return DatabaseDamaged(
            f"The database {path} is damaged ({text}). Stop Hutch, keep a copy of the file, then restore "
            f"the newest one from {path.parent / 'backups'} or try: sqlite3 {path} .recover"
        )
    if "locked" in text or "busy" in text:
        return Unavailable(
            f"The database {path} was locked by another process for too long. "
            f"See who holds it: fuser -v {path}"
        )
    if (
        isinstance(error, PermissionError)
        or "readonly" in text
        or "unable to open" in text
        or "Read-only" in text
    ):
        return Unavailable(
            f"Cannot write to {path.parent} ({text}). Make it writable for uid {os.getuid()}, "
            "or set HUTCH_HOME to a directory that is."
        )
    return Unavailable(f"The database {path} does not work: {text}. Run: hutch doctor")


def _has_room(directory: Path) -> bool:
    """False when the index of the write-ahead file does not fit: SQLite calls that an I/O error."""
    try:
        found = os.statvfs(directory)
    except OSError:  # another error describes the cause
        return True
    return found.f_bavail * found.f_frsize >= WAL_INDEX_STEP_BYTES


def left_behind(data: Path) -> list[str]:
    """The display names of files that exist only after the database was created."""
    return [name for name, pattern in REMAINING_FILES.items() if any(data.glob(pattern))]


def _check_records(path: Path, left: Sequence[str], revision: str | None) -> None:
    """Refuse a database that has lost its rows."""
    if revision is None:
        raise _lost(path, left, "is missing or empty")
    if any(name in MADE_BY_USERS for name in left) and not has_records(path):
        raise _lost(path, left, f"has no users and no logs; {path}-wal may have held some")


def has_records(path: Path) -> bool:
    """True if the database holds a user or a log, or was started empty on purpose: `hutch up --new`."""
    if not path.exists():
        return False
    with closing(sqlite3.connect(path, timeout=BUSY_TIMEOUT_S)) as connection:
        tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master")}
        existing = [table for table in ("users", "logs") if table in tables]
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        return version == STARTED_EMPTY or any(
            connection.execute(f"SELECT 1 FROM {table} LIMIT 1").fetchone() for table in existing
        )


def _mark_as_new(path: Path) -> None:
    with closing(sqlite3.connect(path, timeout=BUSY_TIMEOUT_S)) as connection:
        connection.execute(f"PRAGMA user_version={STARTED_EMPTY}")


def _lost(path: Path, left: Sequence[str], problem: str) -> Unavailable:
    backups = sorted((path.parent / "backups").glob("hutch-*.db"), key=lambda file: file.stat().st_mtime)
    restore = f"put back a backup of it (cp {backups[-1]} {path})" if backups else "put back a backup of it"
    return Unavailable(
        f"The database {path} {problem}, and {path.parent} holds {' and '.join(left)} of an "
        f"installation that had some. Stop what uses it and {restore}, or start empty: hutch up --new"
    )


def _make_directory(directory: Path) -> None:
    """Create the data directory and its missing parents, readable by the owner only."""
    for missing in reversed([path for path in (directory, *directory.parents) if not path.exists()]):
        missing.mkdir(mode=0o700, exist_ok=True)
    found = directory.stat()
    if found.st_mode & 0o077 and found.st_uid == os.getuid():
        directory.chmod(0o700)
    if not os.access(directory, os.W_OK | os.X_OK):
        raise PermissionError(f"no write permission on {directory}")


def _check_write_ahead_file(path: Path) -> None:
    """Refuse a database whose newest commits were removed.

    SQLite creates the write-ahead file before its index, and on a clean shutdown removes the index first.
    So an index alone means that the write-ahead file was removed after a crash.
    """
    wal, index = Path(f"{path}-wal"), Path(f"{path}-shm")
    if not path.exists() or not index.exists():
        return
    problem = find_missing_frames(path)
    if not problem and not wal.exists() and index.exists():
        problem = f"The file {wal} is missing"
    if problem:
        raise Unavailable(
            f"{problem}. It held the last writes before Hutch was stopped, perhaps all users and "
            f"sessions. Restore it, or restore a copy of {path} and its -wal that were made together. "
            f"To continue with the remaining data, make a copy of {path.parent} first; then move "
            f"{index} away."
        )


def _make_file(path: Path) -> None:
    """Create the database file, readable by the owner only.

    Only SQLite opens an existing file: closing any descriptor of a file releases every lock that this
    process holds on it, and another process could then write at the same time.
    """
    with suppress(FileExistsError):
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))


def _connect(path: Path, busy_timeout_s: float = BUSY_TIMEOUT_S) -> Engine:
    engine = create_engine(
        URL.create(DRIVER, database=str(path)),  # a path may contain ? and #
        pool_size=READERS_AND_WRITER,
        max_overflow=MAX_CONCURRENT_EXPORTS,
        isolation_level="AUTOCOMMIT",  # the writer sends BEGIN IMMEDIATE itself; a read is one statement
        connect_args={"check_same_thread": False, "timeout": busy_timeout_s},
    )

    @event.listens_for(engine, "connect")
    def _set_pragmas(connection: sqlite3.Connection, _: ConnectionPoolEntry) -> None:
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=FULL")
        connection.execute("PRAGMA foreign_keys=ON")
        connection.execute(f"PRAGMA journal_size_limit={MAX_IDLE_WAL_BYTES}")
        connection.execute("PRAGMA secure_delete=ON")  # an erased payload leaves no bytes behind

    return engine.execution_options(compiled_cache=COMPILED)


def read_revision(path: Path, migrations: Migrations = MIGRATIONS) -> str | None:
    """The schema revision of the file; None if it has no schema yet."""
    if not path.exists():
        return None
    connection = sqlite3.connect(path, timeout=BUSY_TIMEOUT_S)
    try:
        if not connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'alembic_version'").fetchone():
            return None
        row = connection.execute("SELECT version_num FROM alembic_version").fetchone()
    finally:
        connection.close()
    if row is None:
        return None
    revision = str(row[0])
    if revision not in migrations.revisions:
        raise Unavailable(
            f"The database {path} was written by a newer Hutch (schema {revision}; this one supports up to "
            f"{migrations.revisions[-1]}). Upgrade Hutch, or set HUTCH_HOME to another directory."
        )
    return revision


def _migrate(path: Path, migrations: Migrations) -> None:
    """Bring the schema up to date, one process at a time, after a backup."""
    from alembic import command
    from alembic.config import Config

    with locked(path.parent / "migration.lock"):
        revision = read_revision(path, migrations)
        if revision == migrations.revisions[-1]:
            return
        if revision is not None:
            _back_up(path, revision)
        config = Config()
        config.set_main_option("script_location", str(migrations.directory))
        engine = _connect(path)
        try:
            with engine.connect() as connection:
                config.attributes["connection"] = connection
                connection.exec_driver_sql("BEGIN IMMEDIATE")
                command.upgrade(config, "head")
                connection.exec_driver_sql("COMMIT")
        finally:
            engine.dispose()


def _back_up(path: Path, revision: str) -> None:
    directory = path.parent / "backups"
    directory.mkdir(mode=0o700, exist_ok=True)
    target = directory / f"hutch-{revision}-{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}.db"
    draft = target.with_suffix(".draft")
    draft.unlink(missing_ok=True)
    source, copy = sqlite3.connect(path, timeout=BUSY_TIMEOUT_S), sqlite3.connect(draft)
    try:
        source.backup(copy)
    finally:
        copy.close()
        source.close()
    with draft.open("rb") as file:
        os.fsync(file.fileno())
    draft.rename(target)
    for old in sorted(directory.glob("hutch-*.db"), key=lambda file: file.stat().st_mtime)[:-MAX_BACKUPS]:
        old.unlink()
