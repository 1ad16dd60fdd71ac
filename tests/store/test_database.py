"""Opening the database: made, migrated after a backup, or refused."""

import hashlib
import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection

from hutch.domain.errors import Conflict, Unavailable
from hutch.store import (
    analytics_tables,
    interview_tables,
    outgoing_webhook_tables,
    schema,
    task_tables,
    test_run_tables,
)
from hutch.store.database import MIGRATIONS, Migrations, open_database
from hutch.store.doctor_and_completion_queries import query_read_only
from hutch.store.process_lock import hold_process_lock
from tests.deadline import DEADLINE_S
from tests.forked_command import PLAIN, Forked, run

from .direct_sql import sql

TABLES = (analytics_tables, interview_tables, outgoing_webhook_tables, task_tables, test_run_tables)


@contextmanager
def connected(path: Path) -> Iterator[Connection]:
    engine = open_database(path)
    with engine.connect() as connection:
        yield connection
    engine.dispose()


def test_the_migrations_make_the_schema_that_the_code_uses(tmp_path: Path) -> None:
    assert all(each.metadata is schema.metadata for each in TABLES)  # each adds its tables when it is loaded
    with connected(tmp_path / "hutch.db") as connection:
        assert compare_metadata(MigrationContext.configure(connection), schema.metadata) == []


def test_the_code_knows_every_migration_there_is() -> None:
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS.directory))
    scripts = [script.revision for script in ScriptDirectory.from_config(config).walk_revisions()]
    assert tuple(reversed(scripts)) == schema.REVISIONS


WRITE_AND_DIE = """
import os, signal, sys
from pathlib import Path
from hutch.store.database import open_database

connection = open_database(Path(sys.argv[1])).connect()
connection.exec_driver_sql("INSERT INTO public_keys VALUES ('newest', 'x')")
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("lost", ["", "-shm", "-wal"])
def test_what_a_killed_process_wrote_is_there_or_missed(tmp_path: Path, lost: str) -> None:
    path = tmp_path / "hutch.db"
    run([sys.executable, "-c", WRITE_AND_DIE, str(path)], env=PLAIN)
    if lost:
        Path(f"{path}{lost}").unlink()
    if lost == "-wal":
        with pytest.raises(Unavailable, match=r"hutch\.db-wal is missing.*Restore it"):
            open_database(path)
        Path(f"{path}-shm").unlink()  # as it says, to go on without
    with connected(path) as connection:
        found = connection.exec_driver_sql("SELECT fingerprint FROM public_keys").scalars().all()
    assert found == ([] if lost == "-wal" else ["newest"])


WRITE_MUCH_AND_DIE = """
import os, shutil, signal, sys
from pathlib import Path
from hutch.store.database import open_database

path = sys.argv[1]
engine = open_database(Path(path))
connection = engine.connect()
connection.exec_driver_sql("INSERT INTO public_keys VALUES ('first', 'x')")
shutil.copy(path + "-wal", path + ".last-week")
connection.close()
engine.dispose()
connection = open_database(Path(path)).connect()
connection.exec_driver_sql("INSERT INTO public_keys VALUES ('second', 'x')")
shutil.copy(path + "-wal", path + ".earlier")
for number in range(20):
    connection.exec_driver_sql("INSERT INTO public_keys VALUES (?, 'x')", (f"key {number}",))
if sys.argv[2] == "copied":
    connection.exec_driver_sql("PRAGMA wal_checkpoint(PASSIVE)")
os.kill(os.getpid(), signal.SIGKILL)
"""


def overwrite(file: Path, at: int, content: bytes) -> None:
    with file.open("r+b") as opened:
        opened.seek(at)
        opened.write(content)


WAL_DAMAGES: dict[str, Callable[[Path], object]] = {
    "emptied": lambda wal: os.truncate(wal, 0),
    "cut to its header": lambda wal: os.truncate(wal, 32),
    "cut in the middle": lambda wal: os.truncate(wal, wal.stat().st_size // 2),
    "cut by a byte": lambda wal: os.truncate(wal, wal.stat().st_size - 1),
    "no header": lambda wal: overwrite(wal, 0, bytes(32)),
    "a page overwritten": lambda wal: overwrite(wal, wal.stat().st_size // 2, b"x" * 64),
    "an earlier one": lambda wal: shutil.copy(wal.with_name("hutch.db.earlier"), wal),
    "one of another run": lambda wal: shutil.copy(wal.with_name("hutch.db.last-week"), wal),
}


@pytest.mark.parametrize("damage", WAL_DAMAGES)
def test_a_write_ahead_file_that_lost_commits_after_a_crash_is_refused(tmp_path: Path, damage: str) -> None:
    path, wal = tmp_path / "hutch.db", tmp_path / "hutch.db-wal"
    run([sys.executable, "-c", WRITE_MUCH_AND_DIE, str(path), ""], env=PLAIN)
    kept = shutil.copy(wal, tmp_path / "kept")
    WAL_DAMAGES[damage](wal)
    for _ in range(2):  # a refusal leaves what it is about as it was
        with pytest.raises(Unavailable, match=r"hutch\.db-wal .*Restore it"):
            open_database(path)
    with suppress(sqlite3.Error):  # a reader that comes first does not destroy the evidence
        query_read_only(
            path, lambda db: db.execute("SELECT count(*) FROM public_keys").fetchone(), within_s=5
        )
    with pytest.raises(Unavailable, match=r"hutch\.db-wal .*Restore it"):
        open_database(path)
    shutil.copy(kept, wal)  # as it says
    with connected(path) as connection:
        assert connection.exec_driver_sql("SELECT count(*) FROM public_keys").scalar_one() == 22


@pytest.mark.parametrize("damage", ["emptied", "none"])
def test_a_write_ahead_file_whose_commits_are_all_in_the_database_is_not_missed(
    tmp_path: Path, damage: str
) -> None:
    path = tmp_path / "hutch.db"
    run([sys.executable, "-c", WRITE_MUCH_AND_DIE, str(path), "copied"], env=PLAIN)
    if damage == "emptied":
        os.truncate(tmp_path / "hutch.db-wal", 0)
    with connected(path) as connection:
        assert connection.exec_driver_sql("SELECT count(*) FROM public_keys").scalar_one() == 22


def test_an_index_from_before_a_power_cut_is_no_witness_against_a_newer_file(tmp_path: Path) -> None:
    """The index is never synced: after a power cut an old one can lie beside a new write-ahead file."""
    path, index = tmp_path / "hutch.db", tmp_path / "hutch.db-shm"
    run([sys.executable, "-c", WRITE_MUCH_AND_DIE, str(path), ""], env=PLAIN)
    old = index.read_bytes()
    with connected(path):
        pass
    subprocess.run(
        [
            sys.executable,
            "-c",
            WRITE_MUCH_AND_DIE.replace("('", "('more ").replace("key {", "more {"),
            str(path),
            "",
        ],
        check=False,
    )
    index.write_bytes(old)
    with pytest.raises(Unavailable, match="was replaced by another one"):
        open_database(path)
    os.utime(index, (1, 1))
    with connected(path) as connection:
        assert connection.exec_driver_sql("SELECT count(*) FROM public_keys").scalar_one() > 22


def test_a_commit_is_synced_to_disk(tmp_path: Path) -> None:
    with connected(tmp_path / "hutch.db") as connection:
        pragmas = {
            name: connection.exec_driver_sql(f"PRAGMA {name}").scalar_one()
            for name in ("journal_mode", "synchronous", "secure_delete", "foreign_keys")
        }
    assert pragmas == {"journal_mode": "wal", "synchronous": 2, "secure_delete": 1, "foreign_keys": 1}


def test_the_data_directory_is_for_its_owner_only(tmp_path: Path) -> None:
    open_database(tmp_path / "data" / "hutch.db").dispose()
    assert (tmp_path / "data").stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("name", ["plain", "what?x=1", "50% #1", "ünï cödé", "'quoted'"])
def test_any_directory_name_will_do(tmp_path: Path, name: str) -> None:
    open_database(tmp_path / name / "hutch.db").dispose()
    assert [path.name for path in tmp_path.iterdir()] == [name]
    assert (tmp_path / name / "hutch.db").stat().st_mode & 0o777 == 0o600


def test_data_that_others_could_read_is_closed_to_them(tmp_path: Path) -> None:
    (tmp_path / "open").mkdir(mode=0o755)
    umask = os.umask(0)
    try:
        open_database(tmp_path / "open" / "hutch.db").dispose()
        open_database(tmp_path / "new" / "data" / "hutch.db").dispose()
    finally:
        os.umask(umask)
    for directory in ("open", "new", "new/data"):
        assert (tmp_path / directory).stat().st_mode & 0o777 == 0o700


def revision_of(path: Path) -> str:
    return str(sql(path, "SELECT version_num FROM alembic_version")[0][0])


def test_a_database_from_a_newer_version_is_refused_and_untouched(tmp_path: Path) -> None:
    path = tmp_path / "hutch.db"
    open_database(path).dispose()
    sql(path, "UPDATE alembic_version SET version_num = '9999'")
    before = path.read_bytes()
    with pytest.raises(Unavailable, match=r"written by a newer Hutch \(schema 9999; this one supports up to"):
        open_database(path)
    assert path.read_bytes() == before


def with_next_migration(directory: Path, body: str) -> Migrations:
    """The real migrations and one more, as a later version would bring it."""
    shutil.copytree(MIGRATIONS.directory, directory)
    script = f"from alembic import op\nrevision = 'next'\ndown_revision = {MIGRATIONS.revisions[-1]!r}\n"
    (directory / "versions" / "next.py").write_text(f"{script}def upgrade():\n    {body}\n")
    return Migrations(directory, (*MIGRATIONS.revisions, "next"))


def remember(path: Path) -> None:
    open_database(path).dispose()
    sql(path, "INSERT INTO public_keys VALUES ('kept', x'00')")


def test_an_older_database_is_backed_up_then_migrated(tmp_path: Path) -> None:
    path = tmp_path / "hutch.db"
    remember(path)
    later = with_next_migration(tmp_path / "later", "op.execute('DELETE FROM public_keys')")
    open_database(path, migrations=later).dispose()
    assert revision_of(path) == "next"
    (backup,) = (tmp_path / "backups").glob("*.db")
    assert revision_of(backup) == MIGRATIONS.revisions[-1]
    assert sql(backup, "SELECT fingerprint FROM public_keys") == [("kept",)]


def test_keys_of_an_older_database_become_hashes(tmp_path: Path) -> None:
    path, older = tmp_path / "hutch.db", tmp_path / "older"
    shutil.copytree(MIGRATIONS.directory, older)
    first = MIGRATIONS.revisions.index("0011")
    revisions = MIGRATIONS.revisions[:first]
    for later in MIGRATIONS.revisions[first:]:
        next((older / "versions").glob(f"{later}_*.py")).unlink()
    open_database(path, migrations=Migrations(older, revisions)).dispose()
    sql(path, "INSERT INTO answered_requests VALUES ('usr_1', 'my key', 'x', 200, '{}', x'00', 1)")
    open_database(path).dispose()
    hashed = hashlib.sha256(b"my key").hexdigest()
    assert sql(path, "SELECT user_id, key FROM answered_requests") == [("usr_1", hashed)]


def test_a_migration_that_fails_halfway_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "hutch.db"
    remember(path)
    body = "op.execute('CREATE TABLE half (x)'); op.execute('DELETE FROM public_keys'); op.execute('oops')"
    with pytest.raises(Unavailable, match=r"does not work: .*syntax error"):
        open_database(path, migrations=with_next_migration(tmp_path / "later", body))
    assert revision_of(path) == MIGRATIONS.revisions[-1]
    assert sql(path, "SELECT fingerprint FROM public_keys") == [("kept",)]
    assert not sql(path, "SELECT 1 FROM sqlite_master WHERE name = 'half'")


def test_only_the_newest_backups_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "hutch.db"
    remember(path)
    (tmp_path / "backups").mkdir()
    for number in range(5):
        old = tmp_path / "backups" / f"hutch-old{number}.db"
        old.touch()
        os.utime(old, (number, number))
    open_database(path, migrations=with_next_migration(tmp_path / "later", "pass")).dispose()
    names = sorted(backup.name[:10] for backup in (tmp_path / "backups").glob("*.db"))
    assert names == [f"hutch-{MIGRATIONS.revisions[-1]}", "hutch-old3", "hutch-old4"]


def test_many_processes_starting_at_once_make_one_schema(tmp_path: Path) -> None:
    script = (
        "import sys; from pathlib import Path; from hutch.store.database import open_database;"
        "open_database(Path(sys.argv[1]))"
    )
    path = tmp_path / "data" / "hutch.db"
    started = [
        Forked([sys.executable, "-c", script, str(path)], env=PLAIN, stderr=subprocess.PIPE, text=True)
        for _ in range(4)
    ]
    errors = [process.communicate(timeout=DEADLINE_S)[1] for process in started]
    assert [(process.returncode, error) for process, error in zip(started, errors, strict=True)] == [
        (0, "")
    ] * 4
    assert revision_of(path) == schema.REVISIONS[-1]


HOLD_AND_TRY = """
import sys
from pathlib import Path
from hutch.store.process_lock import hold_process_lock

with hold_process_lock(Path(sys.argv[1]), holder="Hutch server"):
    pass
"""


def test_a_second_server_on_one_data_directory_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "data" / "server.lock"
    command = [sys.executable, "-c", HOLD_AND_TRY, str(path)]
    with hold_process_lock(path, holder="Hutch server"):
        again = hold_process_lock(path, holder="Hutch server")
        with pytest.raises(Conflict, match=r"Another Hutch server \(process \d+\) is using .*data"), again:
            pass
        refused = run(command, env=PLAIN, capture_output=True, text=True)
        assert "Conflict: Another Hutch server" in refused.stderr
    assert run(command, env=PLAIN).returncode == 0


def test_opening_it_again_leaves_the_locks_of_this_process_alone(tmp_path: Path) -> None:
    """Closing a descriptor of the file drops them all: others would believe that they alone have it open."""
    path, wal = tmp_path / "hutch.db", tmp_path / "hutch.db-wal"
    engine = open_database(path)
    held = engine.raw_connection()
    held.cursor().execute("CREATE TABLE here (x)")
    before = wal.stat().st_ino
    open_database(path).dispose()
    other = (
        "import sqlite3, sys; db = sqlite3.connect(sys.argv[1]); db.execute('SELECT * FROM here'); db.close()"
    )
    subprocess.run([sys.executable, "-c", other, str(path)], check=True)
    assert wal.exists() and wal.stat().st_ino == before  # the last to close deletes it; that was not the last
    held.close()
    engine.dispose()
