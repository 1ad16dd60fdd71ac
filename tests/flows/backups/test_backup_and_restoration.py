"""A backup of an installation, restored elsewhere: everything is there, or nothing."""

import os
import socket
import sqlite3
import stat
import subprocess
import threading
from contextlib import closing
from pathlib import Path

import pytest

from hutch.domain.errors import Conflict, NotFound, Unavailable
from hutch.flows.backups.backup_format import About
from hutch.flows.backups.backup_writer import Progress, write_backup
from hutch.flows.backups.restoration import restore_backup, verify_backup
from hutch.flows.backups.tar_entries import BadBackup, Entry
from hutch.store.database import MIGRATIONS, open_database
from hutch.system.file_lock import try_lock
from tests.store.direct_sql import sql
from tests.store.test_earlier_versions import write_dump

from .installations import TREE, backed_up, entries_of, forged, home, installation, restored, silent

Snapshot = dict[str, tuple[str, int, bytes]]


def files_below(place: Path) -> Snapshot:
    """Every entry with its type and mode, modification time, and content or target."""
    found: Snapshot = {}
    for top, directories, names in os.walk(os.fsencode(place)):
        for name in (*directories, *names):
            path = Path(os.fsdecode(top), os.fsdecode(name))
            state, content = path.lstat(), b""
            if stat.S_ISREG(state.st_mode):
                content = path.read_bytes()
            elif stat.S_ISLNK(state.st_mode):
                content = os.fsencode(path.readlink())
            shown = os.fsencode(path.relative_to(place)).decode("utf-8", "backslashreplace")
            time_ns = 0 if stat.S_ISLNK(state.st_mode) else state.st_mtime_ns
            found[shown] = (stat.filemode(state.st_mode), time_ns, content)
    return found


@pytest.mark.parametrize("gzip", [False, True])
def test_an_installation_is_restored_and_its_logs_verify(tmp_path: Path, gzip: bool) -> None:
    source, ids = installation(tmp_path / "from")
    written = backed_up(source, tmp_path / "backup", gzip=gzip)
    assert (written.manifest.logs, written.manifest.events, written.manifest.omitted) == (2, 5, 0)
    assert written.size == (tmp_path / "backup").stat().st_size
    checked = verify_backup(tmp_path / "backup", silent)
    back = restored(tmp_path / "backup", tmp_path / "to" / "deeper")
    for logs in (checked.logs, back.backup.logs):
        assert (logs.logs, logs.events, logs.unsigned, logs.problems) == (2, 5, 0, {})
        assert len(logs.keys) == 1
    there = tmp_path / "to" / "deeper"
    for name in ("config.toml", "data/vault.json", "data/keys/vault.keys", "data/keys/signing.pem"):
        assert (there / name).read_bytes() == (tmp_path / "from" / name).read_bytes()
    query = "SELECT session_id FROM logs ORDER BY id"
    assert sql(there / "data/hutch.db", query) == [(each,) for each in ids]
    assert stat.S_IMODE((there / "data").stat().st_mode) == 0o700
    assert sorted(path.name for path in there.iterdir()) == ["config.toml", "data"]
    assert list((tmp_path / "from/data/backups").iterdir()) == []


def test_odd_files_of_a_workspace_survive(tmp_path: Path) -> None:
    source, _ = installation(tmp_path / "from", 1)
    tree = source.data / TREE
    (tree / "new\nline").write_text("1")
    Path(os.fsdecode(os.fsencode(tree) + b"/\xff\xfe=%3D")).write_text("2")
    (tree / ("long" * 60)).mkdir()
    (tree / ("long" * 60) / ("name" * 60)).write_text("3")
    (tree / "to outside").symlink_to("/etc/passwd")
    (tree / "dangling").symlink_to(b"\xff/nowhere".decode("utf-8", "surrogateescape"))
    (tree / "one").write_text("shared")
    (tree / "two").hardlink_to(tree / "one")
    os.mkfifo(tree / "pipe")
    os.mknod(tree / "deleted", stat.S_IFCHR, os.makedev(0, 0))
    (tree / "program").write_text("#!/bin/sh\n")
    (tree / "program").chmod(0o755)
    (tree / "hidden").write_text("no mode")
    (tree / "hidden").chmod(0)
    (tree / "closed").mkdir()
    (tree / "closed" / "inside").write_text("4")
    (tree / "closed").chmod(0o100)
    with (tree / "sparse").open("wb") as file:
        file.truncate(1 << 40)
        file.seek(1 << 30)
        file.write(b"data in the middle")
    os.utime(tree / "one", ns=(1, 1_234_567_890_123_456_789))
    os.utime(tree / "pipe", ns=(1, -1_500_000_000))
    written = backed_up(source, tmp_path / "backup")
    assert written.manifest.omitted == 0, written.manifest.named
    restored(tmp_path / "backup", tmp_path / "to")
    there = tmp_path / "to/data" / TREE
    for each in (tree, there):
        with (each / "sparse").open("rb") as file:
            file.seek(1 << 30)
            assert file.read(18) == b"data in the middle"
        size = (each / "sparse").stat()
        assert (size.st_size, size.st_blocks < 1 << 12) == (1 << 40, True)
        (each / "sparse").unlink()
        assert (each / "one").stat().st_ino == (each / "two").stat().st_ino
        for name, mode in (("hidden", 0), ("closed", 0o100)):
            assert stat.S_IMODE((each / name).stat().st_mode) == mode
            (each / name).chmod(0o700)  # so that the test can read it
    before, after = files_below(tree), files_below(there)
    before["pipe"] = (before["pipe"][0], -2_000_000_000, b"")  # before 1970 only whole seconds are stored
    assert after == before
    assert len(after) == 14


def test_gnu_tar_can_unpack_a_backup(tmp_path: Path) -> None:
    source, _ = installation(tmp_path / "from", 1)
    tree = source.data / TREE
    Path(os.fsdecode(os.fsencode(tree) + b"/\xff" + b"n" * 200)).write_text("1")
    with (tree / "sparse").open("wb") as file:
        file.seek(1 << 22)
        file.write(b"data")
    backed_up(source, tmp_path / "backup.tar")
    (tmp_path / "to").mkdir()
    subprocess.run(["tar", "-xf", "../backup.tar"], cwd=tmp_path / "to", check=True)
    assert files_below(tmp_path / "to/data" / TREE) == files_below(tree)


def test_overlay_marks_are_kept(tmp_path: Path) -> None:
    source, _ = installation(tmp_path / "from", 1)
    upper = source.data / "workspaces/session-1/upper"
    (upper / "replaced").mkdir(parents=True)
    (upper / "file").write_text("x")
    mark = "trusted.overlay.opaque" if os.geteuid() == 0 else "user.overlay.opaque"
    os.setxattr(upper / "replaced", mark, b"y\0=\n\xff")
    os.setxattr(upper / "file", "user.a=b%3D", b"1")
    backed_up(source, tmp_path / "backup")
    restored(tmp_path / "backup", tmp_path / "to")
    there = tmp_path / "to/data/workspaces/session-1/upper"
    assert os.getxattr(there / "replaced", mark) == b"y\0=\n\xff"
    assert os.getxattr(there / "file", "user.a=b%3D") == b"1"


def test_files_that_have_no_meaning_elsewhere_are_omitted_and_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, _ = installation(tmp_path / "from", 1)
    with socket.socket(socket.AF_UNIX) as server:
        monkeypatch.chdir(source.data / TREE)  # the path of a socket is short
        server.bind("socket")
        (source.data / "elsewhere").symlink_to("/etc")
        (source.data / "server.json").write_text("{}")
        (source.data / "keys/local.token").write_text("token")
        (source.data / "workspaces/.new-1.2-3-x").mkdir()
        (source.data / "workspaces/session-1/work").mkdir()
        written = backed_up(source, tmp_path / "backup")
    assert written.manifest.named == {
        f"data/{TREE}/socket": "a socket, which has no meaning without its process",
        "data/elsewhere": "a link or pipe outside a workspace",
    }
    paths = {entry.path for entry, _ in entries_of(tmp_path / "backup")}
    assert not paths & {
        *(b"data/elsewhere", b"data/server.json", b"data/keys/local.token", b"data/workspaces/.new-1.2-3-x"),
        *(b"data/workspaces/session-1/work", b"data/backups"),
    }


def test_keys_are_left_out_on_request(tmp_path: Path) -> None:
    source, _ = installation(tmp_path / "from", 1)
    (tmp_path / "from/login.json").write_text("{}")
    backed_up(source, tmp_path / "backup", keys=False)
    paths = {entry.path for entry, _ in entries_of(tmp_path / "backup")}
    assert not {path for path in paths if b"keys" in path or path.endswith(b"login.json")}
    assert b"data/vault.json" in paths
    back = restored(tmp_path / "backup", tmp_path / "to")
    assert (back.backup.about.keys, back.backup.logs.problems) == (False, {})


def test_events_that_are_written_meanwhile_are_not_in_the_backup(tmp_path: Path) -> None:
    source, _ = installation(tmp_path / "from")
    # More than one step of the copy.
    sql(source.database, "CREATE TABLE large (x BLOB)", "INSERT INTO large VALUES (zeroblob(10000000))")
    steps: list[str] = []

    def on_progress(progress: Progress) -> None:
        if progress.step.startswith("Copying the database") and progress.step not in steps:
            steps.append(progress.step)
            sql(source.database, "UPDATE logs SET seq = seq + 1")

    with (tmp_path / "backup").open("xb") as output:
        write_backup(source, output, gzip=False, keys=True, on_progress=on_progress)
    assert verify_backup(tmp_path / "backup", silent).logs.problems == {}
    assert len(steps) > 2
    assert sql(source.database, "SELECT seq FROM logs ORDER BY id") == [(3 + len(steps),), (2 + len(steps),)]


def test_an_erasure_meanwhile_takes_no_blob_from_a_backup(tmp_path: Path) -> None:
    source, _ = installation(tmp_path / "from")
    blobs = [path for path in (source.data / "blobs").rglob("*") if path.is_file()]
    assert len(blobs) == 2

    def on_progress(progress: Progress) -> None:
        if progress.step == "Copying files":
            for blob in blobs:
                blob.unlink(missing_ok=True)

    with (tmp_path / "backup").open("xb") as output:
        write_backup(source, output, gzip=False, keys=True, on_progress=on_progress)
    assert verify_backup(tmp_path / "backup", silent).logs.problems == {}


def test_a_blob_that_was_lost_before_is_a_problem_of_its_log(tmp_path: Path) -> None:
    source, ids = installation(tmp_path / "from")
    for blob in [path for path in (source.data / "blobs").rglob("*") if path.is_file()][:1]:
        blob.unlink()
    backed_up(source, tmp_path / "backup")
    problems = verify_backup(tmp_path / "backup", silent).logs.problems
    assert len(problems) == 1 and set(problems) < set(ids)
    assert "is missing" in next(iter(problems.values()))


def test_a_changed_event_is_found_by_its_log(tmp_path: Path) -> None:
    source, ids = installation(tmp_path / "from")
    sql(source.database, "UPDATE events SET payload = X'7b7d' WHERE log_id = 2 AND seq = 1")
    backed_up(source, tmp_path / "backup")
    logs = restored(tmp_path / "backup", tmp_path / "to").backup.logs
    assert list(logs.problems) == [ids[1]]


def test_packs_that_are_replaced_meanwhile_are_found_again(tmp_path: Path) -> None:
    """A pack is gone when its turn comes; the one with its objects was not listed yet."""
    source, _ = installation(tmp_path / "from", 1)
    git = source.data / "workspaces/session-1/snapshots.git"
    (git / "objects/pack").mkdir(parents=True)
    (git / "refs/snapshots").mkdir(parents=True)
    (git / "refs/snapshots/1").write_text("commit\n")
    for name in ("pack-a.pack", "pack-a.idx", "pack-b.pack", "pack-b.idx", "tmp_1"):
        (git / "objects/pack" / name).write_text(name)
    (git / "objects/pack/pack-a.pack").write_bytes(os.urandom(5 << 20))  # its copy reports progress
    done = threading.Event()

    def on_progress(progress: Progress) -> None:
        if progress.bytes > 4 << 20 and not done.is_set():
            done.set()
            for name in ("pack", "idx"):
                (git / f"objects/pack/pack-b.{name}").rename(git / f"objects/pack/pack-c.{name}")

    with (tmp_path / "backup").open("xb") as output:
        write_backup(source, output, gzip=False, keys=True, on_progress=on_progress)
    prefix = b"data/workspaces/session-1/snapshots.git/"
    paths = [entry.path.removeprefix(prefix) for entry, _ in entries_of(tmp_path / "backup")]
    names = [path.removeprefix(b"objects/pack/") for path in paths if path.startswith(b"objects/pack/")]
    assert sorted(names) == [b"pack-a.idx", b"pack-a.pack", b"pack-c.idx", b"pack-c.pack"]
    assert paths.index(b"refs/snapshots/1") < paths.index(b"objects/pack/pack-a.pack")


def test_a_file_that_shrinks_meanwhile_does_not_break_the_backup(tmp_path: Path) -> None:
    source, _ = installation(tmp_path / "from", 1)
    large = source.data / TREE / "large"
    large.write_bytes(b"x" * (6 << 20))

    def on_progress(progress: Progress) -> None:
        if progress.bytes > 2 << 20:
            os.truncate(large, 1)

    with (tmp_path / "backup").open("xb") as output:
        written = write_backup(source, output, gzip=False, keys=True, on_progress=on_progress)
    assert written.manifest.named == {f"data/{TREE}/large": "it changed while it was read"}
    restored(tmp_path / "backup", tmp_path / "to")
    assert (tmp_path / "to/data" / TREE / "large").stat().st_size == 6 << 20


def test_a_stopped_backup_leaves_nothing(tmp_path: Path) -> None:
    source, _ = installation(tmp_path / "from")

    def on_progress(progress: Progress) -> None:
        if progress.files:
            raise KeyboardInterrupt

    with (tmp_path / "backup").open("xb") as output, pytest.raises(KeyboardInterrupt):
        write_backup(source, output, gzip=False, keys=True, on_progress=on_progress)
    assert list((source.data / "backups").iterdir()) == []


def test_what_a_killed_backup_left_is_removed_by_the_next(tmp_path: Path) -> None:
    source, _ = installation(tmp_path / "from")
    (source.data / "backups/backup-999999999.1-x").mkdir(parents=True)
    (source.data / "backups/backup-999999999.1-x/hutch.db").write_text("a copy")
    backed_up(source, tmp_path / "backup")
    assert list((source.data / "backups").iterdir()) == []


def test_there_must_be_something_to_back_up(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="nothing to back up"):
        backed_up(home(tmp_path / "nothing"), tmp_path / "backup")


def test_a_stopped_restoration_leaves_nothing(tmp_path: Path) -> None:
    source, _ = installation(tmp_path / "from")
    backed_up(source, tmp_path / "backup")
    for step in ("Reading the backup", "Verifying", "Writing to disk"):

        def on_progress(progress: Progress, step: str = step) -> None:
            if progress.step.startswith(step):
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            restore_backup(
                tmp_path / "backup", home(tmp_path / "to/deeper"), move_aside=False, on_progress=on_progress
            )
        assert not (tmp_path / "to").exists()


def test_what_a_killed_restoration_left_is_removed_by_the_next(tmp_path: Path) -> None:
    source, _ = installation(tmp_path / "from", 1)
    backed_up(source, tmp_path / "backup")
    (tmp_path / "to/.hutch-restore-999999999.1-x/data/keys").mkdir(parents=True)
    restored(tmp_path / "backup", tmp_path / "to")
    assert sorted(path.name for path in (tmp_path / "to").iterdir()) == ["config.toml", "data"]


def test_an_installation_is_never_replaced_but_may_be_moved_aside(tmp_path: Path) -> None:
    source, _ = installation(tmp_path / "from")
    backed_up(source, tmp_path / "backup")
    installation(tmp_path / "to", 1)
    (tmp_path / "to/config.toml").write_text("# other settings\n")
    before = files_below(tmp_path / "to")
    with pytest.raises(Conflict, match="There is an installation in"):
        restored(tmp_path / "backup", tmp_path / "to")
    assert files_below(tmp_path / "to") == before
    back = restored(tmp_path / "backup", tmp_path / "to", move_aside=True)
    moved = {path.name.partition(".before-restore-")[0]: path for path in back.moved}
    assert set(moved) == {"config.toml", "data"}
    assert moved["config.toml"].read_text() == "# other settings\n"
    assert len(sql(moved["data"] / "hutch.db", "SELECT 1 FROM logs")) == 1
    assert len(sql(tmp_path / "to/data/hutch.db", "SELECT 1 FROM logs")) == 2


def test_other_settings_are_not_replaced(tmp_path: Path) -> None:
    source, _ = installation(tmp_path / "from", 1)
    backed_up(source, tmp_path / "backup")
    (tmp_path / "to").mkdir()
    (tmp_path / "to/config.toml").write_text("# other settings\n")
    with pytest.raises(Conflict, match="There are other settings in"):
        restored(tmp_path / "backup", tmp_path / "to")
    assert [path.name for path in (tmp_path / "to").iterdir()] == ["config.toml"]
    (tmp_path / "to/config.toml").write_text("# settings\n")  # the same: nothing is lost
    restored(tmp_path / "backup", tmp_path / "to")


def test_nothing_is_moved_aside_under_a_running_server(tmp_path: Path) -> None:
    source, _ = installation(tmp_path / "from", 1)
    backed_up(source, tmp_path / "backup")
    held = try_lock(source.data / "server.lock")
    assert held is not None
    with closing(os.fdopen(held)), pytest.raises(Conflict, match="A server is running"):
        restored(tmp_path / "backup", tmp_path / "from", move_aside=True)
    assert [path.name for path in tmp_path.glob("from/*before*")] == []


def test_a_database_of_an_earlier_schema_is_migrated(tmp_path: Path) -> None:
    (tmp_path / "from/data").mkdir(parents=True)
    write_dump(tmp_path / "from/data/hutch.db")
    written = backed_up(home(tmp_path / "from"), tmp_path / "backup")
    assert written.about.schema == "0015"
    assert sql(tmp_path / "from/data/hutch.db", "SELECT version_num FROM alembic_version") == [("0015",)]
    logs = restored(tmp_path / "backup", tmp_path / "to").backup.logs
    assert (logs.logs, logs.events, logs.erased, logs.problems) == (1, 14, 1, {})
    there = tmp_path / "to/data"
    newest = MIGRATIONS.revisions[-1]
    assert sql(there / "hutch.db", "SELECT version_num FROM alembic_version") == [(newest,)]
    names = {path.name for path in there.iterdir()}
    assert names <= {"hutch.db", "blobs", "migration.lock"}  # no write-ahead file, no second copy
    open_database(there / "hutch.db").dispose()


def test_a_backup_of_a_newer_schema_is_refused_before_it_is_unpacked(tmp_path: Path) -> None:
    source, _ = installation(tmp_path / "from", 1)
    backed_up(source, tmp_path / "backup")
    newer = forged(
        tmp_path / "backup", [], about=About(hutch="9.9", schema="0999", created_ms=1, uid=0, keys=True)
    )
    with pytest.raises(Unavailable, match=r"made by Hutch '9\.9', with schema '0999'"):
        restored(newer, tmp_path / "to")
    assert not (tmp_path / "to").exists()


def test_a_damaged_database_is_not_backed_up(tmp_path: Path) -> None:
    source, _ = installation(tmp_path / "from", 1)
    (source.data / "hutch.db.damaged").write_text("It became shorter.")
    with pytest.raises(Unavailable, match="It became shorter"):
        backed_up(source, tmp_path / "backup")


def test_every_cut_and_every_changed_byte_is_found(tmp_path: Path) -> None:
    source, _ = installation(tmp_path / "from", 1)
    (source.data / TREE / "file").write_bytes(b"content " * 8)
    os.utime(source.data / TREE / "file", ns=(0, 1_234_567_890_123_456_789))
    backed_up(source, tmp_path / "backup")
    whole = (tmp_path / "backup").read_bytes()
    places = [
        whole.index(b"1234567890.123") + 2,
        0,
        600,
        whole.index(b"content "),
        whole.index(b"vault.keys"),
        whole.rindex(b"files_sha256"),
    ]
    for number, place in enumerate((*places, whole.index(b"SQLite format") + 60)):
        changed = tmp_path / f"changed-{number}"
        changed.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        with pytest.raises(BadBackup):
            verify_backup(changed, silent)
    for number, place in enumerate((0, 10, 512, 5000, len(whole) // 2, len(whole) - 1024)):
        cut = tmp_path / f"cut-{number}"
        cut.write_bytes(whole[:place])
        with pytest.raises(BadBackup):
            verify_backup(cut, silent)


def test_a_cut_compressed_backup_is_found(tmp_path: Path) -> None:
    source, _ = installation(tmp_path / "from", 1)
    backed_up(source, tmp_path / "backup", gzip=True)
    whole = (tmp_path / "backup").read_bytes()
    for number, place in enumerate((5, len(whole) // 2, len(whole) - 1)):
        cut = tmp_path / f"cut-{number}"
        cut.write_bytes(whole[:place])
        with pytest.raises(BadBackup, match="cut short"):
            verify_backup(cut, silent)
    wrong_sum = tmp_path / "sum"
    wrong_sum.write_bytes(whole[:-8] + bytes([whole[-8] ^ 1]) + whole[-7:])
    with pytest.raises(BadBackup, match="damaged"):
        verify_backup(wrong_sum, silent)


def test_an_added_file_that_the_list_does_not_name_is_found(tmp_path: Path) -> None:
    source, _ = installation(tmp_path / "from", 1)
    backed_up(source, tmp_path / "backup")
    listed = forged(tmp_path / "backup", [(Entry(path=b"data/extra", kind="file", size=1), b"x")])
    assert verify_backup(listed, silent).logs.problems == {}
    text = listed.read_bytes().replace(b'{"path":"data/extra"', b'{"path":"data/exTra"')
    listed.write_bytes(text)
    with pytest.raises(BadBackup, match="data/extra"):
        verify_backup(listed, silent)


def test_a_log_that_was_cut_out_of_the_database_is_found(tmp_path: Path) -> None:
    source, _ = installation(tmp_path / "from")
    with closing(sqlite3.connect(source.database)) as connection:
        connection.execute("DELETE FROM events WHERE log_id = 2 AND seq = 2")
        connection.commit()
    backed_up(source, tmp_path / "backup")
    assert len(verify_backup(tmp_path / "backup", silent).logs.problems) == 1
