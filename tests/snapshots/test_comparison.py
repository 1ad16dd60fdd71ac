"""Differences between snapshots, as git reports them and as restoring needs them."""

import os
from pathlib import Path

import pytest

from hutch.domain.errors import BadRequest
from hutch.forge.host_git import Git
from hutch.snapshots.comparison import Change, changes, differences, patch
from hutch.snapshots.confined_directory import Directory
from hutch.snapshots.git_storage import Snapshot
from hutch.snapshots.snapshot import Content, Snapshots
from tests.snapshots.random_trees import discard, git

GIT = Git({"PATH": os.defpath})
pytestmark = pytest.mark.anyio


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    place = tmp_path / "tree"
    place.mkdir()
    return place


@pytest.fixture
def snapshots(tmp_path: Path) -> Snapshots:
    (tmp_path / "place").mkdir()
    return Snapshots(tmp_path / "place")


def take(snapshots: Snapshots, tree: Path):
    with Directory.at(tree) as directory:
        return snapshots.take(Content(directory), "test")


async def test_changes_are_named_and_counted_and_renames_found(snapshots: Snapshots, tree: Path) -> None:
    odd = os.fsdecode(b"odd\n\t\xff")
    (tree / "same").write_text("same\n")
    (tree / "changed").write_text("1\n2\n3\n")
    (tree / "moved").write_text("".join(f"line {number}\n" for number in range(50)))
    (tree / "gone").write_text("gone\n")
    (tree / "binary").write_bytes(b"\0\1")
    (tree / "kind").write_text("file")
    (tree / "script").write_text("run\n")
    old = take(snapshots, tree)
    (tree / "changed").write_text("1\n3\n4\n5\n")
    (tree / "dir").mkdir()
    (tree / "moved").rename(tree / "dir" / odd)
    (tree / "gone").unlink()
    (tree / "binary").write_bytes(b"\0\2")
    discard(tree / "kind")
    (tree / "kind").symlink_to("same")
    (tree / "script").chmod(0o755)
    (tree / "new").write_text("a\nb\n")
    new = take(snapshots, tree)
    assert await changes(GIT, snapshots.storage, old, new) == [
        Change("binary", "modified", None, 0o100644, 0o100644, None, None),
        Change("changed", "modified", None, 0o100644, 0o100644, 2, 1),
        Change(f"dir/{odd}", "renamed", "moved", 0o100644, 0o100644, 0, 0),
        Change("gone", "deleted", None, 0o100644, 0, 0, 1),
        Change("kind", "retyped", None, 0o100644, 0o120000, 1, 1),
        Change("new", "added", None, 0, 0o100644, 2, 0),
        Change("script", "modified", None, 0o100644, 0o100755, 0, 0),
    ]
    assert await changes(GIT, snapshots.storage, old, old) == []
    assert [each.path for each in await changes(GIT, snapshots.storage, old, new, path="dir")] == [
        f"dir/{odd}"
    ]
    assert await changes(GIT, snapshots.storage, old, new, path="*") == []
    with pytest.raises(BadRequest):
        await changes(GIT, snapshots.storage, old, new, path="../x")


async def test_a_patch_can_be_applied(snapshots: Snapshots, tree: Path, tmp_path: Path) -> None:
    (tree / "a").write_text("1\n2\n3")
    (tree / "b").write_bytes(bytes(range(256)) * 10)
    old = take(snapshots, tree)
    git("init", "-q", ".", cwd=tree)
    git("add", ".", cwd=tree)
    discard(tree / ".git/hooks")
    (tmp_path / "kept").mkdir()
    (tree / ".git").rename(tmp_path / "kept/.git")
    (tree / "a").write_text("1\r\n2\n3\n")
    (tree / "b").write_bytes(bytes(range(255, -1, -1)) * 9)
    (tree / "c d").symlink_to("a")
    new = take(snapshots, tree)
    text, cut = await patch(GIT, snapshots.storage, old, new)
    assert not cut
    (tmp_path / "patch").write_bytes(text)
    place = {"GIT_DIR": str(tmp_path / "kept/.git")}
    git("apply", "--cached", str(tmp_path / "patch"), cwd=tmp_path / "kept", **place)
    assert git("write-tree", cwd=tmp_path / "kept", **place) == new.tree


async def test_a_long_patch_is_cut_at_a_line_and_says_so(snapshots: Snapshots, tree: Path) -> None:
    old = take(snapshots, tree)
    (tree / "a").write_text("line\n" * 1000)
    text, cut = await patch(GIT, snapshots.storage, old, take(snapshots, tree), max_bytes=1000)
    assert cut and 900 < len(text) <= 1000 and text.endswith(b"\n")


async def test_nothing_that_a_repository_says_has_an_effect(
    snapshots: Snapshots, tree: Path, tmp_path: Path
) -> None:
    """Attributes, drivers, filters, hooks, settings: each would change the answer or run something."""
    ran = tmp_path / "ran"
    evil = f"touch {ran}; cat"
    git("init", "-q", ".", cwd=tree)
    for name, value in {
        "diff.evil.command": evil,
        "diff.evil.textconv": evil,
        "filter.evil.clean": evil,
        "filter.evil.smudge": evil,
        "filter.evil.required": "true",
        "core.fsmonitor": evil,
        "core.autocrlf": "true",
        "diff.external": evil,
        "core.attributesFile": str(tree / ".gitattributes"),
    }.items():
        git("config", name, value, cwd=tree)
    for hook in ("post-checkout", "pre-commit", "post-index-change", "reference-transaction"):
        (tree / ".git/hooks" / hook).write_text(f"#!/bin/sh\ntouch {ran}\n")
        (tree / ".git/hooks" / hook).chmod(0o755)
    (tree / ".git/objects/info/alternates").write_text("/etc\n")
    (tree / ".gitattributes").write_text(
        "* filter=evil diff=evil text eol=crlf ident working-tree-encoding=UTF-16\n*.bin -diff\n"
    )
    (tree / "a.txt").write_bytes(b"one\r\ntwo\n$Id$\n")
    (tree / "b.bin").write_text("text\n")
    old = take(snapshots, tree)
    (tree / "a.txt").write_bytes(b"one\r\nTWO\n$Id: x $\n")
    (tree / "b.bin").write_text("other text\n")
    new = take(snapshots, tree)
    assert b"".join(snapshots.read(new.id, "a.txt")) == b"one\r\nTWO\n$Id: x $\n"
    assert [
        (each.path, each.added, each.deleted) for each in await changes(GIT, snapshots.storage, old, new)
    ] == [
        ("a.txt", 2, 2),
        ("b.bin", 1, 1),
    ]
    text, _ = await patch(GIT, snapshots.storage, old, new)
    assert b"-two\n+TWO\n" in text.replace(b"-$Id$\n", b"") and b"+other text\n" in text
    assert not ran.exists()


async def test_differences_are_all_there_is_in_an_order_that_can_be_carried_out(
    snapshots: Snapshots, tree: Path
) -> None:
    (tree / "a/b").mkdir(parents=True)
    (tree / "a/b/c").write_text("1")
    (tree / ".git").mkdir()
    (tree / ".git/x").write_text("1")
    (tree / "same/deep").mkdir(parents=True)
    (tree / "same/deep/file").write_text("1")
    old = take(snapshots, tree)
    discard(tree / "a")
    (tree / "a").write_text("a file")
    (tree / ".git/x").write_text("2")
    (tree / "d/e").mkdir(parents=True)
    new = take(snapshots, tree)
    storage = snapshots.storage
    found = list(differences(storage.objects, storage.top(old), storage.top(new)))
    assert [each.path for each in found] == ["", ".git", ".git/x", "a/b/c", "a/b", "a", "d", "d/e"]
    assert list(differences(storage.objects, storage.top(old), storage.top(old))) == []


@pytest.mark.parametrize("count", [20, 12_000], ids=["small", "large"])
async def test_differences_of_a_directory_are_only_its_changed_entries(
    snapshots: Snapshots, tree: Path, count: int
) -> None:
    (tree / ".gitignore").write_text("*.log\n")
    for number in range(count):
        (tree / f"a-file-with-a-long-name-{number:05}").touch()
    (tree / "kept.log").write_text("kept")
    (tree / "mode").touch()
    (tree / "empty").mkdir()
    old = take(snapshots, tree)
    (tree / "a-file-with-a-long-name-00007").write_text("7")
    (tree / "changed.log").write_text("new")
    (tree / "empty/below").mkdir()
    few = take(snapshots, tree)
    (tree / "mode").chmod(0o600)
    new = take(snapshots, tree)

    def paths(before: Snapshot, after: Snapshot) -> list[str]:
        tops = map(snapshots.storage.top, (before, after))
        return [each.path for each in differences(snapshots.storage.objects, *tops)]

    assert paths(old, few) == ["", "a-file-with-a-long-name-00007", "changed.log", "empty", "empty/below"]
    assert paths(few, new) == ["", "mode"]
