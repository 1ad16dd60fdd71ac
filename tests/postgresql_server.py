"""A PostgreSQL server of the tests' own, on a socket in a temporary directory.

All workers of a run share it. The first that needs it starts it, beside a process that stops it when the
last worker has ended in whatever way: workers hold a lock, which the kernel releases.
"""

import fcntl
import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from uuid import uuid4

import psycopg

from hutch.store.database_location import PostgresqlDatabase
from hutch.store.open_database import open_location

ROOT = Path(__file__).resolve().parents[1]
TEMPLATE = "hutch_template"
START_TIMEOUT_S = 120
INITDB_OPTIONS = ("-U", "hutch", "-A", "trust", "-E", "UTF8", "--no-locale", "-N")
DURABLE = "-durable"
NOT_DURABLE = {"fsync": "off", "full_page_writes": "off"}
SETTINGS = {
    "wal_level": "minimal",
    "max_wal_senders": "0",
    "autovacuum": "off",
    "max_connections": "300",
    "shared_buffers": "16MB",
    "dynamic_shared_memory_type": "mmap",
    "listen_addresses": "",
}

EMPTY = """
DO $$
DECLARE used text;
BEGIN
    PERFORM pg_terminate_backend(pid) FROM pg_stat_activity
    WHERE datname = current_database() AND pid <> pg_backend_pid();
    SELECT string_agg(quote_ident(relname), ', ') INTO used FROM pg_class
    WHERE relnamespace = 'public'::regnamespace AND relkind = 'r' AND relname <> 'alembic_version'
    AND pg_relation_size(oid) > 0;
    IF used IS NOT NULL THEN
        EXECUTE 'TRUNCATE ' || used || ' RESTART IDENTITY CASCADE';
    END IF;
END $$
"""


class Server:
    """A running server. `url` is a database of it."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def url(self, database: str) -> str:
        return f"postgresql://hutch@/{database}?host={self.directory}"

    def sql(self, statement: str, database: str = "postgres") -> None:
        with psycopg.connect(self.url(database), autocommit=True) as session:
            session.execute(statement)

    @contextmanager
    def database(self, data: Path, *, template: str = TEMPLATE) -> Iterator[PostgresqlDatabase]:
        """A database that goes away, with the current schema unless another template is named."""
        name = f"test_{uuid4().hex}"
        self.sql(f"CREATE DATABASE {name} TEMPLATE {template}")
        try:
            yield PostgresqlDatabase(self.url(name), data)
        finally:
            self.sql(f"DROP DATABASE {name} WITH (FORCE)")

    def empty_database(self, data: Path) -> PostgresqlDatabase:
        """The database of this worker, without rows: that takes a tenth of the time of a new one."""
        name = self._of_worker()
        self.sql(EMPTY, name)
        return PostgresqlDatabase(self.url(name), data)

    @cache  # noqa: B019  there is one server
    def _of_worker(self) -> str:
        name = f"worker_{uuid4().hex}"
        self.sql(f"CREATE DATABASE {name} TEMPLATE {TEMPLATE}")
        return name


@cache
def server(*, durable: bool = False) -> Server:
    """The server of this run; starts it when there is none. It waits for the disk if it is durable."""
    run = os.environ.get("PYTEST_XDIST_TESTRUNUID", uuid4().hex)
    directory = Path(tempfile.gettempdir()) / f"hutch-postgresql-{run[:12]}{DURABLE if durable else ''}"
    directory.mkdir(mode=0o700, exist_ok=True)
    with _locked(directory / "start.lock"):
        users = (directory / "users.lock").open("a+")
        fcntl.lockf(users, fcntl.LOCK_SH)
        _open_files.append(users)
        if not (directory / "ready").exists():
            _start(directory)
            open_location(PostgresqlDatabase(Server(directory).url(TEMPLATE), directory)).engine.dispose()
            (directory / "ready").touch()
    return Server(directory)


_open_files: list[object] = []  # whose locks say that this process uses the server


def _start(directory: Path) -> None:
    identity = _identity()
    if identity:
        os.chown(directory, identity["user"], identity["group"])
    subprocess.run(
        [_program("initdb"), "-D", directory / "data", *INITDB_OPTIONS],
        check=True,
        capture_output=True,
        cwd=directory,
        **identity,
    )
    with (directory / "server.log").open("w") as output:
        subprocess.run(
            [sys.executable, "-m", "tests.postgresql_server", str(directory)],
            check=True,
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    until = time.monotonic() + START_TIMEOUT_S
    while True:
        try:
            Server(directory).sql(f"CREATE DATABASE {TEMPLATE}")
        except psycopg.OperationalError:
            if time.monotonic() > until:
                raise AssertionError((directory / "server.log").read_text()) from None
            time.sleep(0.02)
        else:
            return


def _supervise(directory: Path) -> None:
    """Run the server in the background until nobody holds the lock of its users any more."""
    if os.fork():
        return
    os.setsid()
    settings = SETTINGS | ({} if directory.name.endswith(DURABLE) else NOT_DURABLE)
    options = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
    started = subprocess.Popen(
        [_program("postgres"), "-D", directory / "data", "-k", directory, *options],
        cwd=directory,
        **_identity(),
    )
    while True:
        with (directory / "users.lock").open("a+") as users:
            fcntl.lockf(users, fcntl.LOCK_EX)  # waits for all
        with _locked(directory / "start.lock"), (directory / "users.lock").open("a+") as users:
            try:
                fcntl.lockf(users, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:  # somebody came meanwhile
                continue
            started.send_signal(signal.SIGQUIT)
            started.wait()
            shutil.rmtree(directory)
            return


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _identity() -> dict[str, int]:
    """The user of the server: it refuses to run as root."""
    if os.geteuid() != 0:
        return {}
    nobody = pwd.getpwnam("nobody")
    return {"user": nobody.pw_uid, "group": nobody.pw_gid}


def _program(name: str) -> Path:
    """A program of the newest installed version. Debian has them outside of PATH."""
    places = [Path(found) for found in [shutil.which(name)] if found]
    places += sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"), key=lambda path: int(path.parts[4]))
    assert places, "PostgreSQL is missing: scripts/system-packages --tests system-packages.txt"
    return places[-1]


if __name__ == "__main__":
    _supervise(Path(sys.argv[1]))
