"""The storage of snapshots: listed, deleted, never broken by a crash."""

import subprocess
import sys
import threading
from pathlib import Path

import pytest

from hutch.domain.errors import NotFound
from hutch.snapshots.confined_directory import Directory
from hutch.snapshots.snapshot import Content, Snapshots
from tests.snapshots.random_trees import git

CRASHES = Path(__file__).with_name("snapshot_crashes.py")


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    place = tmp_path / "tree"
    place.mkdir()
    return place


@pytest.fixture
def snapshots(tmp_path: Path) -> Snapshots:
    return Snapshots(tmp_path)


def take(snapshots: Snapshots, tree: Path, text: str):
    (tree / "a").write_text(text)
    with Directory.at(tree) as directory:
        return snapshots.take(Content(directory), text)


def test_numbers_are_never_reused(snapshots: Snapshots, tree: Path) -> None:
    for number in range(1, 6):
        assert take(snapshots, tree, str(number)).id == number
    snapshots.delete([2, 5])
    assert [each.id for each in snapshots.list()] == [1, 3, 4]
    assert take(snapshots, tree, "6").id == 6
    assert snapshots.delete_old(keep=2) == [1, 3]
    assert [(each.id, each.reason) for each in snapshots.list()] == [(4, "4"), (6, "6")]
    with pytest.raises(NotFound):
        snapshots.delete([1])
    with pytest.raises(NotFound):
        snapshots.get(5)


def test_the_newest_can_be_deleted_and_the_next_is_whole(snapshots: Snapshots, tree: Path) -> None:
    (tree / "same").write_text("same")
    take(snapshots, tree, "1")
    take(snapshots, tree, "2")
    snapshots.delete([1, 2])
    taken = take(snapshots, tree, "3")
    assert [each.id for each in snapshots.list()] == [3]
    assert b"".join(snapshots.read(taken.id, "same")) == b"same"
    git("fsck", "--full", "--strict", cwd=snapshots.storage.git_dir)


def test_a_name_lost_in_a_power_failure_was_never_returned(snapshots: Snapshots, tree: Path) -> None:
    taken = take(snapshots, tree, "1")
    (snapshots.storage.git_dir / "refs/snapshots/2").write_bytes(b"")
    assert snapshots.list() == [taken]
    assert take(snapshots, tree, "3").id == 3
    assert [each.id for each in snapshots.list()] == [1, 3]


def test_a_ref_whose_objects_are_lost_in_a_power_failure_is_dropped(snapshots: Snapshots, tree: Path) -> None:
    first = take(snapshots, tree, "1")
    packs = snapshots.storage.git_dir / "objects/pack"
    before = set(packs.iterdir())
    second = take(snapshots, tree, "2")
    for path in set(packs.iterdir()) - before:
        path.unlink()
    again = Snapshots(snapshots.storage.own.parent)
    assert again.list() == [first]
    assert take(again, tree, "3").id == second.id


def test_many_at_once_get_numbers_of_their_own(tmp_path: Path, tree: Path) -> None:
    def work(name: str) -> None:
        mine = Snapshots(tmp_path)
        with Directory.at(tree) as directory:
            for number in range(10):
                (tree / name).write_text(str(number))
                mine.take(Content(directory), name)

    Snapshots(tmp_path)
    threads = [threading.Thread(target=work, args=(name,)) for name in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    snapshots = Snapshots(tmp_path)
    numbers = [each.id for each in snapshots.list()]
    assert numbers == list(range(1, len(numbers) + 1)) and len(numbers) >= 10
    assert {name: b"".join(snapshots.read(numbers[-1], name)) for name in "abcd"} == dict.fromkeys(
        "abcd", b"9"
    )
    git("fsck", "--full", "--strict", cwd=snapshots.storage.git_dir)


@pytest.mark.parametrize("what", ["take", "restore", "collect"])
def test_killed_at_any_moment_nothing_is_broken(tmp_path: Path, what: str) -> None:
    ran = subprocess.run(
        [sys.executable, CRASHES, tmp_path, "12", "3", what], capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.startswith("12 rounds")
