"""Announced changes that another process replaced are in a snapshot of their own."""

import hashlib
import os
import stat
from pathlib import Path

import pytest

from hutch.edit.file_operation_types import Announcement, FileChange, WrittenFile
from hutch.forge.host_git import Git
from hutch.snapshots.confined_directory import Directory
from hutch.snapshots.disk_entry_reader import SnapshotLimits
from hutch.snapshots.garbage_collection import collect
from hutch.snapshots.git_storage import Snapshot
from hutch.snapshots.prebuilt_base_file_index import index_base
from hutch.snapshots.snapshot import NOTHING_ANNOUNCED, Content, Snapshots
from hutch.snapshots.snapshot_tree_layout import FILES, Leaf, OmittedEntry
from tests.snapshots.random_trees import git

LIMITS = SnapshotLimits(large_bytes=50_000, file_bytes=100_000, ignored_file_bytes=10)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    place = tmp_path / "tree"
    (place / "src").mkdir(parents=True)
    (place / "src/a").write_text("a")
    (place / "src/a").chmod(0o640)
    (place / "b").write_text("b")
    (place / ".gitignore").write_text("*.log\nbuild/\n")
    return place


@pytest.fixture
def snapshots(tmp_path: Path, tree: Path) -> Snapshots:
    (tmp_path / "place").mkdir()
    made = Snapshots(tmp_path / "place", limits=LIMITS)
    take(made, tree)
    return made


def take(snapshots: Snapshots, tree: Path, announced: Announcement = NOTHING_ANNOUNCED) -> Snapshot:
    with Directory.at(tree) as directory:
        return snapshots.take(Content(directory), "test", announced=announced)


def sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def written(*files: tuple[str, bytes]) -> Announcement:
    """The announcement of files that were created or overwritten."""
    changes = [FileChange(path, "modified", sha(b"old"), sha(data)) for path, data in files]
    return Announcement(changes, {path: WrittenFile(stat.S_IFREG | 0o644, data) for path, data in files})


def read(snapshots: Snapshots, number: int, path: str) -> bytes:
    return b"".join(snapshots.read(number, path))


def test_a_change_that_the_scan_shows_needs_no_snapshot_of_its_own(snapshots: Snapshots, tree: Path) -> None:
    (tree / "b").write_text("written")
    (tree / "src/a").rename(tree / "c")
    announced = written(("b", b"written"))
    moved = FileChange("c", "moved", sha(b"a"), sha(b"a"), "src/a")
    taken = take(snapshots, tree, Announcement([*announced.changes, moved], announced.written))
    assert (taken.id, [each.id for each in snapshots.list()]) == (2, [1, 2])


def test_replaced_and_removed_files_are_in_a_snapshot_between_the_others(
    snapshots: Snapshots, tree: Path
) -> None:
    (tree / "src/a").write_text("program")
    (tree / "other").write_text("program")
    announced = written(("src/a", b"written"), ("new/deep/file", b"new"), ("large", b"L" * 60_000))
    taken = take(snapshots, tree, announced)
    assert taken.id == 3
    assert [read(snapshots, number, "src/a") for number in (1, 2, 3)] == [b"a", b"written", b"program"]
    assert (read(snapshots, 2, "new/deep/file"), read(snapshots, 2, "large")) == (b"new", b"L" * 60_000)
    assert {"new", "large", "other"} & snapshots.entries(2).keys() == {"new", "large"}
    assert {"new", "large", "other"} & snapshots.entries(3).keys() == {"other"}
    first, second, _ = snapshots.list()
    assert (second.files, second.bytes) == (first.files + 2, first.bytes + 6 + 3 + 60_000)
    assert take(snapshots, tree).id == 3
    git("fsck", "--full", "--strict", cwd=snapshots.storage.git_dir)


def test_a_change_that_was_taken_back_exactly(snapshots: Snapshots, tree: Path) -> None:
    assert take(snapshots, tree, written(("b", b"written"))).id == 3
    assert [read(snapshots, number, "b") for number in (1, 2, 3)] == [b"b", b"written", b"b"]


def test_a_moved_and_a_deleted_file_that_are_back(snapshots: Snapshots, tree: Path) -> None:
    moved = FileChange("c", "moved", sha(b"a"), sha(b"a"), "src/a")
    deleted = FileChange("b", "deleted", sha(b"b"), None)
    take(snapshots, tree, Announcement([moved, deleted]))
    assert {"b", "c", "src"} & snapshots.entries(2).keys() == {"c", "src"}
    assert (read(snapshots, 2, "c"), snapshots.entries(2, "src")) == (b"a", {})
    item = snapshots.item(2, "c")
    assert isinstance(item, Leaf) and item.mode & 0o777 == 0o640


def test_a_moved_file_with_another_content_than_the_newest_snapshot_has(
    snapshots: Snapshots, tree: Path
) -> None:
    moved = FileChange("c", "moved", sha(b"changed"), sha(b"changed"), "b")
    take(snapshots, tree, Announcement([moved]))
    assert all("c" not in snapshots.entries(each.id) for each in snapshots.list())


def test_the_limits_and_rules_of_other_files_apply(snapshots: Snapshots, tree: Path) -> None:
    huge, log, small, built = "huge", "src/big.log", "src/small.log", "build/x"
    announced = written((huge, b"H" * 100_001), (log, b"L" * 11), (small, b"S"), (built, b"B"))
    take(snapshots, tree, announced)
    assert snapshots.item(2, huge) == OmittedEntry("larger than a file may be", 100_001)
    assert isinstance(snapshots.item(2, log), OmittedEntry)
    for path, data in ((small, b"S"), (built, b"B")):
        item = snapshots.item(2, path)
        assert isinstance(item, Leaf) and item.section != FILES
        assert read(snapshots, 2, path) == data
    first, second = snapshots.list()[:2]
    assert (second.files, second.omitted) == (first.files, 2)


@pytest.mark.anyio
async def test_a_collection_keeps_the_content_as_long_as_its_snapshot(
    snapshots: Snapshots, tree: Path
) -> None:
    tool = Git({"PATH": os.defpath})
    take(snapshots, tree, written(("b", b"written"), ("large", b"L" * 60_000)))
    await collect(tool, snapshots.storage)
    assert (read(snapshots, 2, "b"), read(snapshots, 2, "large")) == (b"written", b"L" * 60_000)
    item = snapshots.item(2, "b")
    assert isinstance(item, Leaf)
    snapshots.delete([2])
    await collect(tool, snapshots.storage)
    assert item.name not in snapshots.storage.objects


def test_stored_contents_of_an_undo(snapshots: Snapshots, tree: Path) -> None:
    item = snapshots.item(1, "src/a")
    assert isinstance(item, Leaf)
    undone = FileChange("back", "created", None, sha(b"a"))
    take(snapshots, tree, Announcement([undone], {"back": WrittenFile(item.mode, blob=item.name)}))
    assert read(snapshots, 2, "back") == b"a"


def test_a_file_of_the_base_of_an_overlay(tmp_path: Path, tree: Path) -> None:
    index = index_base(tree, tmp_path / "index")
    upper = tmp_path / "upper"
    upper.mkdir()
    (tmp_path / "place").mkdir()
    snapshots = Snapshots(tmp_path / "place", base=index)
    with Directory.at(tree) as merged, Directory.at(upper) as changes:
        content = Content(merged, changes)
        snapshots.take(content, "before")
        (upper / "b").write_text("program")
        snapshots.take(content, "after", announced=written(("b", b"written"), ("src/new", b"new")))
    assert [read(snapshots, number, "b") for number in (1, 2, 3)] == [b"b", b"written", b"program"]
    assert (read(snapshots, 2, "src/a"), read(snapshots, 2, "src/new")) == (b"a", b"new")


def test_a_mode_that_another_process_set_is_not_part_of_the_announced_change(
    snapshots: Snapshots, tree: Path
) -> None:
    (tree / "b").write_text("written")
    (tree / "b").chmod(0o755)
    (tree / "src/a").rename(tree / "c")
    (tree / "c").chmod(0o600)
    announced = written(("b", b"written"))
    moved = FileChange("c", "moved", sha(b"a"), sha(b"a"), "src/a")
    assert take(snapshots, tree, Announcement([*announced.changes, moved], announced.written)).id == 3
    items = [snapshots.item(number, path) for number in (2, 3) for path in ("b", "c")]
    modes = [stat.S_IMODE(item.mode) for item in items if isinstance(item, Leaf)]
    assert modes == [0o644, 0o640, 0o755, 0o600]


def undone(path: str, data: bytes | None) -> FileChange:
    return FileChange(path, "modified", sha(b"old"), None if data is None else sha(data))


def replace_each_other(tree: Path) -> Announcement:
    """A file takes the place of a directory, and a directory that of a file."""
    (tree / "src/a").unlink()
    (tree / "src").rmdir()
    (tree / "src").write_text("file")
    (tree / "b").unlink()
    (tree / "b").mkdir()
    (tree / "b/in").write_text("in")
    contents = {"src": b"file", "b/in": b"in"}
    files = {path: WrittenFile(stat.S_IFREG | 0o644, data) for path, data in contents.items()}
    removed = [undone(path, None) for path in ("src/a", "b")]
    return Announcement([*removed, *(undone(path, data) for path, data in contents.items())], files)


def test_files_and_directories_that_replace_each_other_need_no_snapshot_of_their_own(
    snapshots: Snapshots, tree: Path
) -> None:
    assert take(snapshots, tree, replace_each_other(tree)).id == 2


def test_files_and_directories_that_replace_each_other_beside_a_lost_change(
    snapshots: Snapshots, tree: Path
) -> None:
    announced = replace_each_other(tree)
    (tree / "src").write_text("program")
    assert take(snapshots, tree, announced).id == 3
    assert [read(snapshots, number, "src") for number in (2, 3)] == [b"file", b"program"]
    assert [read(snapshots, number, "b/in") for number in (2, 3)] == [b"in", b"in"]
    git("fsck", "--full", "--strict", cwd=snapshots.storage.git_dir)
