"""Walking a tree that another process changes."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from hutch.snapshots.confined_directory import Directory
from hutch.snapshots.disk_walk import TICK_NS, Clock, Descent, EntryVanished, open_file, read_all
from tests.ordinary_user import place


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    here = tmp_path / "tree"
    (here / "a/b/c").mkdir(parents=True)
    (here / "a/x/y").mkdir(parents=True)
    return here


def names(fd: int) -> list[str]:
    return sorted(os.listdir(fd))


def test_down_and_across(tree: Path) -> None:
    with Directory.at(tree) as directory, Descent(directory) as descent:
        assert names(descent.at("a/b")) == ["c"]
        assert names(descent.at("a/b/c")) == []
        assert names(descent.at("a/x")) == ["y"]
        assert names(descent.at("")) == ["a"]


def test_links_are_not_followed_wherever_they_stand(tree: Path) -> None:
    (tree / "link").symlink_to("a")
    with Directory.at(tree) as directory, Descent(directory) as descent:
        for path in ("link", "link/b", "nothing", "a/b/c/d"):
            with pytest.raises(EntryVanished):
                descent.at(path)
        assert names(descent.at("a")) == ["b", "x"]


def test_levels_that_were_closed_are_opened_again(tmp_path: Path) -> None:
    here = os.open(tmp_path, os.O_RDONLY)
    for number in range(400):
        os.mkdir("d", dir_fd=here)
        os.mkdir(f"side{number}", dir_fd=here)
        below = os.open("d", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    os.close(here)
    with Directory.at(tmp_path) as directory, Descent(directory) as descent:
        before = len(list(Path("/proc/self/fd").iterdir()))
        descent.at("/".join(["d"] * 400))
        assert len(list(Path("/proc/self/fd").iterdir())) - before < 150
        for depth in reversed(range(400)):
            assert names(descent.at("/".join(["d"] * depth))) == ["d", f"side{depth}"]
        directory.remove("d")


def test_a_pipe_or_a_link_in_place_of_a_file_is_not_read(tree: Path) -> None:
    os.mkfifo(tree / "pipe")
    (tree / "link").symlink_to("/etc/passwd")
    fd = os.open(tree, os.O_RDONLY)
    for name in ("pipe", "link", "a", "nothing"):
        with pytest.raises(EntryVanished), open_file(fd, name):
            pass
    os.close(fd)


def test_only_the_size_it_had_is_read(tree: Path) -> None:
    (tree / "file").write_bytes(b"x" * 100)
    fd = os.open(tree, os.O_RDONLY)
    with open_file(fd, "file") as (descriptor, found):
        with (tree / "file").open("ab") as file:
            file.write(b"y" * 100)
        assert read_all(descriptor, found.st_size) == b"x" * 100
    with open_file(fd, "file") as (descriptor, found):
        os.truncate(tree / "file", 50)
        assert read_all(descriptor, found.st_size) == b"x" * 50
    os.close(fd)


HOLD_LEASE = """
import fcntl, os, signal, sys, time
signal.signal(signal.SIGIO, signal.SIG_IGN)
descriptor = os.open(sys.argv[1], os.O_RDWR)
fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_WRLCK)
print("held", flush=True)
time.sleep(60)
"""


def test_somebodys_lease_does_not_hold_us(tree: Path) -> None:
    """The kernel lets the holder of a lease keep others waiting for 45 seconds."""
    (tree / "file").write_text("x")
    fd = os.open(tree, os.O_RDONLY)
    with subprocess.Popen(
        [sys.executable, "-c", HOLD_LEASE, tree / "file"], stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdout and holder.stdout.readline() == b"held\n"
        with pytest.raises(BlockingIOError), open_file(fd, "file"):
            pass
        assert holder.poll() is None
        holder.kill()
    os.close(fd)


def test_time_stamps_count_once_they_are_past() -> None:
    clock = Clock(10_000_000_000_000_000_123)
    assert clock.is_settled((clock.began_ns - TICK_NS - 1, 1, 1, 1))
    assert not clock.is_settled((clock.began_ns - TICK_NS, 1, 1, 1))
    assert not clock.is_settled((clock.began_ns + 1, 1, 1, 1))
    assert not clock.is_settled((9_999_999_999 * 1_000_000_000, 1, 1, 1)), "a file system that counts seconds"
    assert clock.is_settled((9_999_999_997 * 1_000_000_000, 1, 1, 1))


LOCKED = """
import os, sys
from pathlib import Path
from hutch.snapshots.confined_directory import Directory
from hutch.snapshots.restore import restore
from hutch.snapshots.snapshot import Content, Snapshots
place = Path(sys.argv[1])
tree = place / "tree"
(tree / "locked/inside").mkdir(parents=True)
(tree / "locked/inside/file").write_text("deep")
(tree / "secret").write_text("secret")
(tree / "read-only").mkdir()
(tree / "read-only/file").write_text("1")
modes = {"secret": 0, "locked/inside/file": 0, "locked/inside": 0, "locked": 0o100, "read-only": 0o555}
def lock():
    for path, mode in modes.items():
        (tree / path).chmod(mode)
def unlock():
    for path in reversed(modes):
        (tree / path).chmod(0o700)
lock()
snapshots = Snapshots(place)
with Directory.at(tree) as directory:
    taken = snapshots.take(Content(directory), "locked")
    assert taken.omitted == 0, taken
    assert b"".join(snapshots.read(1, "locked/inside/file")) == b"deep"
    assert (tree / "locked").stat().st_mode & 0o777 == 0o100
    assert snapshots.take(Content(directory), "again") == taken
    unlock()
    (tree / "read-only/file").write_text("2")
    (tree / "locked/inside/file").unlink()
    (tree / "secret").unlink()
    (tree / "read-only").chmod(0o555)
    restore(snapshots, Content(directory), 1)
found = {path: (tree / path).stat().st_mode & 0o777 for path in ("secret", "locked", "read-only")}
assert found == {"secret": 0, "locked": 0o100, "read-only": 0o555}, found
unlock()
assert (tree / "locked/inside/file").read_text() == "deep"
assert (tree / "read-only/file").read_text() == "1"
print("done")
"""


def test_files_locked_by_their_owner_are_stored_and_stay_locked(tmp_path: Path) -> None:
    """Root can read everything, so this runs as another user."""
    ordinary = place()
    uid = os.geteuid() or 65534
    home = Path(subprocess.check_output(["mktemp", "-d"], text=True).strip())
    os.chown(home, uid, uid)
    ran = subprocess.run(
        [*ordinary.as_user(uid), "-c", LOCKED, home],
        env=ordinary.environment,
        cwd="/",
        capture_output=True,
        text=True,
        check=False,
    )
    with Directory.at(home) as directory:
        for path in home.iterdir():
            directory.remove(path.name)
    home.rmdir()
    assert (ran.stdout, ran.returncode) == ("done\n", 0), ran.stderr
