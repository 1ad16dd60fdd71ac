"""Single paths get versions of other snapshots; everything else stays as it is."""

import os
from collections.abc import Collection, Mapping
from pathlib import Path

import pytest

from hutch.edit.file_operation_types import FileChange
from hutch.snapshots.confined_directory import Directory
from hutch.snapshots.path_version_restore import (
    EmptyDirectory,
    NewFile,
    NotStored,
    PathVersion,
    PutResult,
    SnapshotVersions,
    StoredFile,
    put_versions,
)
from hutch.snapshots.snapshot import Content, Snapshots
from tests.snapshots.random_trees import describe

A = "ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb"  # of "a"


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    place = tmp_path / "tree"
    (place / "src/deep").mkdir(parents=True)
    (place / "src/deep").chmod(0o700)
    (place / "src/deep/a").write_text("a")
    (place / "top").write_text("top")
    (place / "link").symlink_to("top")
    return place


@pytest.fixture
def snapshots(tmp_path: Path) -> Snapshots:
    (tmp_path / "place").mkdir()
    return Snapshots(tmp_path / "place")


def take(snapshots: Snapshots, tree: Path) -> int:
    with Directory.at(tree) as directory:
        return snapshots.take(Content(directory), "test").id


def put(
    snapshots: Snapshots,
    tree: Path,
    versions: Mapping[str, PathVersion | None],
    *,
    number: int = 0,
    directories: Mapping[str, int] | None = None,
    emptied: Collection[str] = (),
) -> PutResult | None:
    number = number or take(snapshots, tree)
    with Directory.at(tree) as directory:
        return put_versions(
            snapshots, Content(directory), number, versions, directories=directories or {}, emptied=emptied
        )


def test_versions_of_files_links_and_directories_are_read(snapshots: Snapshots, tree: Path) -> None:
    (tree / "empty").mkdir(mode=0o755)
    (tree / "pipe").unlink(missing_ok=True)
    os.mkfifo(tree / "pipe")
    found = SnapshotVersions(snapshots, take(snapshots, tree))
    assert isinstance(found.version("src/deep/a"), StoredFile)
    assert isinstance(found.version("link"), StoredFile)
    assert found.version("empty") == EmptyDirectory()
    assert isinstance(found.version("pipe"), NotStored)
    assert found.version("pipe") == found.version("pipe")
    assert NotStored("too large") != NotStored("too large")
    assert [found.version(path) for path in ("src", "", "nothing", "top/below")] == [None] * 4
    assert found.permissions("src/deep") == 0o700


def test_only_the_given_paths_change(snapshots: Snapshots, tree: Path) -> None:
    before, old = describe(tree), SnapshotVersions(snapshots, take(snapshots, tree))
    (tree / "src/deep/a").unlink()
    (tree / "src/deep").rmdir()
    (tree / "link").unlink()
    (tree / "top").write_text("new")
    (tree / "made/below").mkdir(parents=True)
    (tree / "made/below/b").write_text("b")
    (tree / "others").write_text("others")
    paths = ("src/deep/a", "link", "top", "made/below/b")
    versions = {path: old.version(path) for path in paths}
    done = put(
        snapshots, tree, versions, directories={"src/deep": 0o700}, emptied=["made", "made/below", "src"]
    )
    assert done is not None
    assert [(each.path, each.kind) for each in done.changes] == [
        ("made/below/b", "deleted"),
        ("link", "created"),
        ("src/deep/a", "created"),
        ("top", "modified"),
    ]
    assert done.changes[2] == FileChange("src/deep/a", "created", None, A)
    assert done.raced == ()
    assert describe(tree) == {**before, "others": ("file", 0o644, b"others")}


def test_new_content_is_written_with_its_mode(snapshots: Snapshots, tree: Path) -> None:
    put(snapshots, tree, {"top": NewFile(0o100755, b"merged\n"), "new/file": NewFile(0o100600, b"new")})
    assert {path: describe(tree)[path] for path in ("top", "new/file")} == {
        "top": ("file", 0o755, b"merged\n"),
        "new/file": ("file", 0o600, b"new"),
    }


def test_a_directory_becomes_a_file_again_and_a_file_a_directory(snapshots: Snapshots, tree: Path) -> None:
    before, old = describe(tree), SnapshotVersions(snapshots, take(snapshots, tree))
    (tree / "top").unlink()
    (tree / "top").mkdir()
    (tree / "top/x").write_text("x")
    (tree / "src/deep/a").unlink()
    (tree / "src/deep").rmdir()
    (tree / "src/deep").write_text("a file")
    paths = ("top", "top/x", "src/deep", "src/deep/a")
    put(snapshots, tree, {path: old.version(path) for path in paths}, directories={"src/deep": 0o700})
    assert describe(tree) == before


def test_a_directory_with_other_files_is_not_removed(snapshots: Snapshots, tree: Path) -> None:
    (tree / "made").mkdir()
    (tree / "made/mine").write_text("mine")
    (tree / "made/theirs").write_text("theirs")
    put(snapshots, tree, {"made/mine": None}, emptied=["made"])
    assert sorted(path.name for path in (tree / "made").iterdir()) == ["theirs"]


def test_a_file_that_changes_at_this_moment_is_left(snapshots: Snapshots, tree: Path) -> None:
    number = take(snapshots, tree)
    (tree / "top").write_text("just now")
    (tree / "fresh").write_text("just now")
    versions = {"top": None, "fresh": NewFile(0o100644, b"x"), "link": None}
    done = put(snapshots, tree, versions, number=number)
    assert done is not None
    assert (sorted(done.raced), [each.path for each in done.changes]) == (["fresh", "top"], ["link"])
    assert [(tree / name).read_text() for name in ("top", "fresh")] == ["just now"] * 2


def test_nothing_is_written_from_an_older_snapshot(snapshots: Snapshots, tree: Path) -> None:
    number = take(snapshots, tree)
    (tree / "top").write_text("newer")
    take(snapshots, tree)
    assert put(snapshots, tree, {"link": None}, number=number) is None
    assert (tree / "link").is_symlink()
