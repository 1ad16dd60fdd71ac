"""Snapshots store everything, as git would."""

import os
import resource
import socket
import tempfile
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hutch.domain.errors import BadRequest, LimitReached, NotFound
from hutch.snapshots.confined_directory import Directory
from hutch.snapshots.disk_entry_reader import SnapshotLimits
from hutch.snapshots.disk_walk import CLOCK
from hutch.snapshots.restore import restore
from hutch.snapshots.snapshot import Content, Snapshots
from hutch.snapshots.snapshot_tree_layout import Leaf, OmittedEntry
from tests.deadline import DEADLINE_S
from tests.hypothesis_examples import examples
from tests.snapshots.mounted_overlay import coarse
from tests.snapshots.random_trees import apply, changes, describe, discard, git, makes, write_tree
from tests.workspace.full_disk import files_no_longer_than


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    place = tmp_path / "tree"
    place.mkdir()
    return place


@pytest.fixture
def snapshots(tmp_path: Path) -> Snapshots:
    (tmp_path / "place").mkdir()
    return Snapshots(tmp_path / "place")


def take(snapshots: Snapshots, tree: Path, reason: str = "test"):
    with Directory.at(tree) as directory:
        return snapshots.take(Content(directory), reason)


def put_back(snapshots: Snapshots, tree: Path, number: int, path: str = ""):
    with Directory.at(tree) as directory:
        return restore(snapshots, Content(directory), number, path)


def fsck(snapshots: Snapshots) -> str:
    return git("fsck", "--strict", "--full", "--no-dangling", cwd=snapshots.storage.git_dir)


def test_the_tree_is_the_one_that_git_makes(snapshots: Snapshots, tree: Path, tmp_path: Path) -> None:
    (tree / "src/deep/er").mkdir(parents=True)
    (tree / "src/deep/er/main.py").write_text("print()\n")
    (tree / "src/deep.txt").write_text("sorts between\n")
    (tree / "src/run").write_text("#!/bin/sh\n")
    (tree / "src/run").chmod(0o755)
    (tree / "link").symlink_to("src/main.py")
    (tree / "new\nline \xff").write_text("odd")
    odd = tree / os.fsdecode(b"\xfe")
    odd.mkdir()
    (odd / os.fsdecode(b"\xff")).write_bytes(b"\0\xff")
    (tree / ".gitignore").write_text("*.log\nbuild/\n!keep.log\n")
    (tree / "src/.gitignore").write_text("!also.log\n")
    for name in ("a.log", "keep.log", "src/also.log", "src/b.log"):
        (tree / name).write_text("log")
    (tree / "build").mkdir()
    (tree / "build/out").write_text("out")
    taken = take(snapshots, tree)
    assert taken.tree == write_tree(tree, tmp_path / "oracle")
    assert fsck(snapshots) == ""
    beside = git("ls-tree", "-r", "--name-only", f"{taken.commit}:beside", cwd=snapshots.storage.git_dir)
    assert beside.splitlines() == ["+a.log", "+build/+out", "+src/+b.log"]


def test_a_snapshot_describes_itself(snapshots: Snapshots, tree: Path) -> None:
    (tree / "a").write_text("12345")
    first = take(snapshots, tree, "first")
    (tree / "b").write_text("678")
    second = take(snapshots, tree, "second, with \n 'odd' ü")
    assert (first.id, first.reason, first.files, first.bytes, first.omitted) == (1, "first", 1, 5, 0)
    assert (second.id, second.reason, second.files, second.bytes) == (2, "second, with \\n 'odd' ü", 2, 8)
    assert snapshots.list() == [first, second]
    assert Snapshots(snapshots.storage.git_dir.parent).list() == [first, second]
    assert abs(second.taken_at.timestamp() - time.time()) < 60


def test_nothing_changed_is_no_new_snapshot(snapshots: Snapshots, tree: Path) -> None:
    (tree / "a").write_text("1")
    first = take(snapshots, tree, "first")
    assert take(snapshots, tree, "second") == first
    (tree / "a").write_text("1")
    os.utime(tree / "a")
    assert take(snapshots, tree, "touched") == first
    assert snapshots.list() == [first]


def test_everything_but_the_content_of_pipes_and_sockets_is_stored(snapshots: Snapshots, tree: Path) -> None:
    (tree / ".git/objects").mkdir(parents=True)
    (tree / ".git/config").write_text("[core]\n")
    (tree / "nested/.git").mkdir(parents=True)
    (tree / "nested/.git/HEAD").write_text("ref: x")
    (tree / "nested/file").write_text("nested")
    (tree / "module").mkdir()
    (tree / "module/.git").write_text("gitdir: /etc\n")
    (tree / "empty/inside").mkdir(parents=True)
    (tree / "sticky").mkdir()
    (tree / "sticky").chmod(0o1777)
    (tree / "secret").write_text("s")
    (tree / "secret").chmod(0o600)
    (tree / "suid").write_text("s")
    (tree / "suid").chmod(0o4755)
    (tree / "dangling").symlink_to("/nowhere/at all")
    for name in (".GIT", "git~1", ".git ", ".Git...", ".g\u200cit"):
        (tree / name).write_text(name)
    os.mkfifo(tree / "pipe")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tree / "socket"))
    before = describe(tree)
    taken = take(snapshots, tree)
    assert taken.omitted == 2
    assert isinstance(snapshots.item(1, "pipe"), OmittedEntry)
    with pytest.raises(NotFound, match="fifo"):
        snapshots.read(1, "pipe")
    committed = git("ls-tree", "-r", "--name-only", taken.tree, cwd=snapshots.storage.git_dir).splitlines()
    assert committed == ["dangling", "nested/file", "secret", "suid"]
    assert fsck(snapshots) == ""
    for path in tree.iterdir():
        if path.name not in ("pipe", "socket"):
            discard(path)
    put_back(snapshots, tree, 1)
    suid = before["suid"]
    before["suid"] = (suid[0], 0o755, suid[2])
    assert describe(tree) == before


def test_a_fifo_that_replaces_a_file_is_not_waited_for(snapshots: Snapshots, tree: Path) -> None:
    (tree / "a").write_text("1")
    take(snapshots, tree)
    (tree / "a").unlink()
    os.mkfifo(tree / "a")
    assert take(snapshots, tree).omitted == 1


def test_contents_are_read_back(snapshots: Snapshots, tree: Path) -> None:
    (tree / "dir").mkdir()
    (tree / "dir/a").write_bytes(b"\0one\xff")
    (tree / "dir/link").symlink_to("../else")
    (tree / ".git").mkdir()
    (tree / ".git/x").write_text("private")
    take(snapshots, tree)
    (tree / "dir/a").write_text("two")
    take(snapshots, tree)
    assert b"".join(snapshots.read(1, "dir/a")) == b"\0one\xff"
    assert b"".join(snapshots.read(2, "dir/a")) == b"two"
    assert b"".join(snapshots.read(1, "dir/link")) == b"../else"
    assert b"".join(snapshots.read(1, ".git/x")) == b"private"
    assert sorted(snapshots.entries(1, "dir")) == ["a", "link"]
    assert isinstance(snapshots.item(1, "dir/a"), Leaf)
    with pytest.raises(NotFound):
        snapshots.read(1, "dir/b")
    with pytest.raises(NotFound):
        snapshots.read(1, "dir/a/b")
    with pytest.raises(NotFound):
        snapshots.read(3, "dir/a")
    with pytest.raises(BadRequest):
        snapshots.read(1, "dir")


def test_ignored_files_are_stored_up_to_a_size(tmp_path: Path, tree: Path) -> None:
    (tmp_path / "place").mkdir()
    snapshots = Snapshots(
        tmp_path / "place", limits=SnapshotLimits(ignored_file_bytes=100, ignored_bytes=150)
    )
    (tree / ".gitignore").write_text("*.tmp\n")
    (tree / "a.tmp").write_bytes(b"a" * 100)
    (tree / "b.tmp").write_bytes(b"b" * 101)
    first = take(snapshots, tree)
    assert first.omitted == 1
    assert snapshots.item(1, "b.tmp") == OmittedEntry("ignored, and larger than an ignored file may be", 101)
    (tree / "c.tmp").write_bytes(b"c" * 60)
    assert take(snapshots, tree).omitted == 2
    (tree / "a.tmp").unlink()
    take(snapshots, tree)
    (tree / "d").write_text("so that there is something new")
    last = take(snapshots, tree)
    assert last.omitted == 1  # there is space for c.tmp now
    assert b"".join(snapshots.read(last.id, "c.tmp")) == b"c" * 60


def test_large_files_are_streamed_into_packs_of_their_own(tmp_path: Path, tree: Path) -> None:
    (tmp_path / "place").mkdir()
    snapshots = Snapshots(tmp_path / "place", limits=SnapshotLimits(large_bytes=1000))
    contents = {"random": os.urandom(300_000), "text": b"line\n" * 100_000, "edge": b"e" * 1000}
    for name, content in contents.items():
        (tree / name).write_bytes(content)
    taken = take(snapshots, tree)
    assert taken.tree == write_tree(tree, tmp_path / "oracle")
    assert len(list((snapshots.storage.git_dir / "objects/pack").glob("*.keep"))) == 3
    assert fsck(snapshots) == ""
    for name, content in contents.items():
        assert b"".join(snapshots.read(1, name)) == content
        (tree / name).unlink()
    put_back(snapshots, tree, 1)
    assert {name: (tree / name).read_bytes() for name in contents} == contents
    assert len(list((snapshots.storage.git_dir / "objects/pack").glob("*.keep"))) == 3


def test_huge_sparse_files_are_left_out_and_not_read(tmp_path: Path, tree: Path) -> None:
    (tmp_path / "place").mkdir()
    snapshots = Snapshots(tmp_path / "place", limits=SnapshotLimits(file_bytes=1 << 30, new_bytes=1 << 20))
    with (tree / "huge").open("wb") as file:
        file.truncate(1 << 42)
    with (tree / "big").open("wb") as file:
        file.truncate(1 << 21)
    taken = take(snapshots, tree)
    assert taken.omitted == 2
    assert snapshots.item(1, "huge") == OmittedEntry("larger than a file may be", 1 << 42)
    assert snapshots.item(1, "big") == OmittedEntry("more than one snapshot takes in", 1 << 21)


def test_a_change_within_the_same_tick_is_seen(tmp_path: Path) -> None:
    """The size is the same, and so is the time stamp: only reading it again shows the change."""
    with coarse(tmp_path / "coarse") as place:  # nothing waits for a disk there
        snapshots, tree = Snapshots(place), place / "tree"
        tree.mkdir()
        path = tree / "a"
        number = same = 0
        until = time.monotonic() + DEADLINE_S
        while same < 3:
            assert time.monotonic() < until, f"{same} of {number} changes were within a tick"
            wait_for_tick()
            path.write_text(f"{number:05}")
            take(snapshots, tree)
            before = path.stat().st_ctime_ns
            path.write_text(f"{number + 1:05}")
            same += path.stat().st_ctime_ns == before
            taken = take(snapshots, tree)
            assert b"".join(snapshots.read(taken.id, "a")) == f"{number + 1:05}".encode()
            number += 2


def wait_for_tick() -> None:
    """Return just after the clock of file time stamps has advanced, so that much fits before it does again.

    It sleeps: on a busy machine, a process that has just computed is soon interrupted.
    """
    began_ns = time.clock_gettime_ns(CLOCK)
    while time.clock_gettime_ns(CLOCK) == began_ns:
        time.sleep(0.0005)


def test_a_time_set_back_hides_nothing(snapshots: Snapshots, tree: Path) -> None:
    (tree / "a").write_text("old")
    os.utime(tree / "a", ns=(10**18, 10**18))
    take(snapshots, tree)
    time.sleep(0.05)
    take(snapshots, tree)
    (tree / "a").write_text("new")
    os.utime(tree / "a", ns=(10**18, 10**18))
    assert b"".join(snapshots.read(take(snapshots, tree).id, "a")) == b"new"


def test_unchanged_files_are_not_read_again(snapshots: Snapshots, tree: Path) -> None:
    (tree / "a").write_bytes(os.urandom(3 << 20))
    take(snapshots, tree)
    time.sleep(0.05)
    take(snapshots, tree)  # now its time stamp is old enough to be relied on
    for again in (snapshots, Snapshots(snapshots.storage.git_dir.parent)):
        before = bytes_read()
        take(again, tree)
        assert bytes_read() - before < 1 << 20
    before = bytes_read()
    (tree / "a").touch()
    take(snapshots, tree)
    assert bytes_read() - before >= 3 << 20


def bytes_read() -> int:
    return int(Path("/proc/self/io").read_text().split()[1])


def test_very_deep_directories(snapshots: Snapshots, tree: Path, request: pytest.FixtureRequest) -> None:
    depth = 1500  # Python gives up at 1000
    here = os.open(tree, os.O_RDONLY)
    for _ in range(depth):
        os.mkdir("d", dir_fd=here)
        below = os.open("d", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    with os.fdopen(os.open("bottom", os.O_WRONLY | os.O_CREAT, dir_fd=here), "w") as file:
        file.write("deep")
    os.close(here)
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    used = max(int(path.name) for path in Path("/proc/self/fd").iterdir())
    resource.setrlimit(resource.RLIMIT_NOFILE, (used + 250, limits[1]))
    request.addfinalizer(lambda: resource.setrlimit(resource.RLIMIT_NOFILE, limits))
    taken = take(snapshots, tree)
    path = "/".join(["d"] * depth + ["bottom"])
    assert b"".join(snapshots.read(taken.id, path)) == b"deep"
    assert take(snapshots, tree) == taken
    with Directory.at(tree) as directory:
        directory.remove("d")
        restored = restore(snapshots, Content(directory), taken.id)
        assert restored.after.tree == taken.tree
        assert len(restored.changed) == depth + 1
        directory.remove("d")


def test_too_many_entries_are_an_error(tmp_path: Path, tree: Path) -> None:
    (tmp_path / "place").mkdir()
    snapshots = Snapshots(tmp_path / "place", limits=SnapshotLimits(entries=10))
    for number in range(11):
        (tree / str(number)).touch()
    with pytest.raises(LimitReached, match="more than 10 entries"):
        take(snapshots, tree)
    (tree / "0").unlink()
    assert take(snapshots, tree).files == 10


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(makes, max_size=12), st.lists(changes, max_size=12), st.lists(changes, max_size=6))
def test_a_snapshot_is_restored_byte_for_byte(first, second, third) -> None:
    with tempfile.TemporaryDirectory() as place:
        tree = Path(place) / "tree"
        tree.mkdir()
        snapshots = Snapshots(Path(place), limits=SnapshotLimits(large_bytes=8000))
        states = []
        for step in (first, second, third):
            for change in step:
                apply(tree, change)
            taken = take(snapshots, tree)
            states.append((taken.id, describe(tree)))
        for number, described in [*states, *reversed(states)]:
            restored = put_back(snapshots, tree, number)
            assert describe(tree) == described
            assert restored.untouched == ()
        assert fsck(snapshots) == ""


@pytest.mark.parametrize("name", [".gitmodules", ".GitModules", "gitmod~1"])
def test_a_directory_and_a_link_named_as_gits_own_file_lie_beside(
    snapshots: Snapshots, tree: Path, name: str
) -> None:
    (tree / "a" / name).mkdir(parents=True)
    (tree / "a" / name / "inside").write_text("kept\n")
    (tree / "b").mkdir()
    (tree / "b" / name).symlink_to("nowhere")
    (tree / "c").mkdir()
    (tree / "c" / name).write_text('[submodule "x"]\n')
    before = describe(tree)
    taken = take(snapshots, tree)
    assert taken.files == 1
    assert "error" not in fsck(snapshots)
    discard(tree / "a")
    (tree / "b" / name).unlink()
    put_back(snapshots, tree, taken.id)
    assert describe(tree) == before


def test_a_full_disk_is_reported_without_the_hosts_paths(
    snapshots: Snapshots, tree: Path, tmp_path: Path
) -> None:
    for number in range(20):
        (tree / f"{number}.bin").write_bytes(os.urandom(3000))
    for size in (0, 10, 3000, 59_000, 60_000):
        with files_no_longer_than(size), pytest.raises(LimitReached) as caught:
            take(snapshots, tree)
        assert str(tmp_path) not in str(caught.value)
        left = [*(snapshots.storage.git_dir / "objects/pack").iterdir(), *snapshots.storage.own.glob("tmp_*")]
        assert left == []
    assert take(snapshots, tree).files == 20
    assert "error" not in fsck(snapshots)


def test_a_cache_that_cannot_be_written_is_only_a_lost_cache(snapshots: Snapshots, tree: Path) -> None:
    for number in range(50):
        (tree / f"{'long' * 40}-{number}").mkdir()
        (tree / f"{'long' * 40}-{number}/file").write_text("the same\n")
    with files_no_longer_than(6000):
        first = take(snapshots, tree)
        assert take(snapshots, tree) == first
    assert not snapshots.cache.path.exists()
    (tree / "more").write_text("more\n")
    second = take(snapshots, tree)
    assert (second.files, snapshots.cache.path.exists()) == (51, True)
    (tree / "more").write_text("still more\n")
    with files_no_longer_than(snapshots.cache.path.stat().st_size + 10):
        third = take(snapshots, tree)
    put_back(snapshots, tree, second.id)
    assert (tree / "more").read_text() == "more\n"
    put_back(snapshots, tree, third.id)
    assert (tree / "more").read_text() == "still more\n"
