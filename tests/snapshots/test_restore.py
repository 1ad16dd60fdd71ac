"""Restoring: only what differs, nothing lost, nothing outside touched."""

import os
import shutil
import threading
import time
from contextlib import suppress
from pathlib import Path

import pytest

from hutch.domain.errors import BadRequest, Conflict, NotFound
from hutch.snapshots.confined_directory import Directory
from hutch.snapshots.disk_entry_reader import SnapshotLimits
from hutch.snapshots.restore import RestoreResult, RestoreRound, restore
from hutch.snapshots.snapshot import Content, Snapshots
from tests.snapshots.random_trees import describe, discard


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    place = tmp_path / "tree"
    (place / "src").mkdir(parents=True)
    (place / "src/a").write_text("a")
    (place / "src/b").write_text("b")
    (place / "top").write_text("top")
    return place


@pytest.fixture
def snapshots(tmp_path: Path) -> Snapshots:
    (tmp_path / "place").mkdir()
    return Snapshots(tmp_path / "place", limits=SnapshotLimits(ignored_file_bytes=100))


def take(snapshots: Snapshots, tree: Path):
    with Directory.at(tree) as directory:
        return snapshots.take(Content(directory), "test")


def put_back(snapshots: Snapshots, tree: Path, number: int, path: str = "") -> RestoreResult:
    with Directory.at(tree) as directory:
        return restore(snapshots, Content(directory), number, path)


def test_only_differing_files_are_changed_and_it_can_be_undone(snapshots: Snapshots, tree: Path) -> None:
    take(snapshots, tree)
    same = (tree / "top").stat()
    (tree / "src/a").write_text("changed")
    (tree / "src/new").write_text("not in any snapshot yet")
    changed = describe(tree)
    restored = put_back(snapshots, tree, 1)
    assert sorted(restored.changed) == ["src/a", "src/new"]
    assert restored.after.tree == snapshots.get(1).tree
    assert (tree / "top").stat() == same
    assert [(each.id, each.reason) for each in snapshots.list()] == [
        (1, "test"),
        (2, "before restoring snapshot 1"),
        (3, "restored snapshot 1"),
    ]
    put_back(snapshots, tree, restored.before.id)
    assert describe(tree) == changed
    assert put_back(snapshots, tree, 2).changed == ()


def test_one_path_comes_back_and_the_rest_stays(snapshots: Snapshots, tree: Path) -> None:
    (tree / "src").chmod(0o750)
    take(snapshots, tree)
    shutil.rmtree(tree / "src")
    (tree / "top").write_text("changed")
    put_back(snapshots, tree, 1, "src/a")
    assert (tree / "src/a").read_text() == "a"
    assert (tree / "src").stat().st_mode & 0o777 == 0o750
    assert not (tree / "src/b").exists()
    assert (tree / "top").read_text() == "changed"
    put_back(snapshots, tree, 1, "src")
    assert (tree / "src/b").read_text() == "b"
    (tree / "later").write_text("x")
    put_back(snapshots, tree, 1, "later")
    assert not (tree / "later").exists()


def test_paths_that_cannot_be_restored_say_why(snapshots: Snapshots, tree: Path) -> None:
    take(snapshots, tree)
    discard(tree / "src")
    (tree / "src").write_text("a file")
    with pytest.raises(Conflict, match="Restore 'src' itself"):
        put_back(snapshots, tree, 1, "src/a")
    with pytest.raises(NotFound):
        put_back(snapshots, tree, 1, "nothing")
    with pytest.raises(NotFound):
        put_back(snapshots, tree, 99)
    for path in ("../x", "/etc", "src//a", "."):
        with pytest.raises(BadRequest):
            put_back(snapshots, tree, 1, path)


def test_files_in_no_snapshot_are_not_changed(snapshots: Snapshots, tree: Path) -> None:
    (tree / ".gitignore").write_text("*.data\n")
    take(snapshots, tree)
    (tree / "out").mkdir()
    (tree / "out/big.data").write_bytes(b"x" * 101)
    (tree / "out/small.data").write_bytes(b"x" * 99)
    os.mkfifo(tree / "out/pipe")
    restored = put_back(snapshots, tree, 1)
    assert (tree / "out/big.data").read_bytes() == b"x" * 101
    assert sorted(path.name for path in (tree / "out").iterdir()) == ["big.data", "pipe"]
    assert restored.untouched == ("out",)


def test_a_stored_file_does_not_replace_one_that_is_not_stored(snapshots: Snapshots, tree: Path) -> None:
    (tree / ".gitignore").write_text("*.data\n")
    (tree / "a.data").write_bytes(b"x" * 10)
    (tree / "pipe").write_text("was a file")
    take(snapshots, tree)
    (tree / "a.data").write_bytes(b"y" * 101)
    discard(tree / "pipe")
    os.mkfifo(tree / "pipe")
    restored = put_back(snapshots, tree, 1)
    assert (tree / "a.data").read_bytes() == b"y" * 101
    assert restored.untouched == ("a.data",)
    assert (tree / "pipe").read_text() == "was a file"  # nothing is lost with a pipe


@pytest.mark.parametrize("rounds", [40, pytest.param(1000, marks=pytest.mark.soak)])
def test_swapping_directories_for_links_changes_nothing_outside(
    snapshots: Snapshots, tree: Path, tmp_path: Path, rounds: int
) -> None:
    """A process in the workspace works against us for thousands of turns; outside, nothing changes."""
    outside = tmp_path / "outside"
    (outside / "deep").mkdir(parents=True)
    for name in ("a", "b", "deep/c"):
        (outside / name).write_text("outside")
    before = describe(outside)
    (tree / "src/deep").mkdir()
    (tree / "src/deep/c").write_text("c")
    take(snapshots, tree)
    for name in ("a", "b", "deep/c"):
        (tree / "src" / name).write_text("changed")
    (tree / "src/d").write_text("more")
    take(snapshots, tree)
    stop = threading.Event()
    swaps = 0

    def swap() -> None:
        nonlocal swaps
        while not stop.is_set():
            with suppress(OSError):  # restoring removes what is not in the snapshot: our tools, too
                if not (tree / "link").is_symlink():
                    (tree / "link").symlink_to(outside)
                (tree / "src").rename(tree / "aside")
                (tree / "link").rename(tree / "src")
                swaps += 1
            with suppress(OSError):
                if (tree / "src").is_symlink():
                    (tree / "src").rename(tree / "link")
                (tree / "aside").rename(tree / "src")

    thread = threading.Thread(target=swap)
    thread.start()
    outcomes = set()
    try:
        for number in range(50 * rounds):  # until they were swapped often enough to be sure
            if number >= rounds and swaps > 100:
                break
            try:
                put_back(snapshots, tree, number % 2 + 1)
                outcomes.add("restored")
            except Conflict:
                outcomes.add("conflict")
            if number % 10 == 9:  # each round takes some, and taking one more reads the names of all
                snapshots.delete([each.id for each in snapshots.list() if each.id > 2])
    finally:
        stop.set()
        thread.join()
    assert describe(outside) == before
    assert swaps > 100 and outcomes
    put_back(snapshots, tree, 1)
    assert (tree / "src/a").read_text() == "a"


def test_a_file_that_changed_after_it_was_stored_waits_for_the_next_round(
    snapshots: Snapshots, tree: Path
) -> None:
    take(snapshots, tree)
    for name in ("src/a", "src/new"):
        (tree / name).write_text("changed")
    time.sleep(0.05)
    second = take(snapshots, tree)
    storage = snapshots.storage
    old, new = storage.top(second), storage.top(snapshots.get(1))
    for name in ("src/a", "src/new"):  # another process is faster than we are
        (tree / name).write_text("changed again")
    with Directory.at(tree) as directory:
        work = RestoreRound(snapshots, directory)
        work.run([], old, new, "")
        assert (sorted(work.raced), work.touched) == (["src/a", "src/new"], {})
        assert (tree / "src/a").read_text() == (tree / "src/new").read_text() == "changed again"
        restored = restore(snapshots, Content(directory), 1)
    assert b"".join(snapshots.read(restored.before.id, "src/a")) == b"changed again"
    assert (tree / "src/a").read_text() == "a"
    assert not (tree / "src/new").exists()


def test_files_that_appear_meanwhile_are_not_overwritten(snapshots: Snapshots, tree: Path) -> None:
    take(snapshots, tree)
    (tree / "src/a").unlink()
    second = take(snapshots, tree)
    (tree / "src/a").write_text("appeared")
    storage = snapshots.storage
    with Directory.at(tree) as directory:
        work = RestoreRound(snapshots, directory)
        work.run([], storage.top(second), storage.top(snapshots.get(1)), "")
    assert work.raced == ["src/a"]
    assert (tree / "src/a").read_text() == "appeared"
    assert sorted(path.name for path in (tree / "src").iterdir()) == ["a", "b"]
