"""Workspaces on a base: known files are not read again, and no change is missed."""

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hutch.snapshots.confined_directory import Directory
from hutch.snapshots.prebuilt_base_file_index import BaseIndex, index_base
from hutch.snapshots.restore import fill_from_snapshot, restore
from hutch.snapshots.snapshot import Content, Snapshots
from tests.hypothesis_examples import examples
from tests.snapshots.mounted_overlay import coarse, layered
from tests.snapshots.random_trees import apply, changes, describe, discard, git, makes


@pytest.fixture
def base(tmp_path: Path) -> Path:
    """A checkout with history, an ignored file that git tracks all the same, and a submodule."""
    tree = tmp_path / "base/tree"
    (tree / "src").mkdir(parents=True)
    git("init", "-q", "-b", "main", cwd=tree)
    (tree / "src/main.py").write_text("print()\n")
    (tree / ".gitignore").write_text("*.log\n")
    (tree / "src/tracked.log").write_text("tracked\n")
    git("add", ".", cwd=tree)
    git("add", "-f", "src/tracked.log", cwd=tree)
    (tree / "module").mkdir()
    git("update-index", "--add", "--cacheinfo", f"160000,{'1' * 40},module", cwd=tree)
    git("commit", "-q", "-m", "first", cwd=tree)
    git("gc", "-q", cwd=tree)
    return tree


def index(tree: Path) -> BaseIndex:
    commit_tree = git("rev-parse", "HEAD^{tree}", cwd=tree)
    return index_base(tree, tree.parent / "index", commit_tree=commit_tree)


def new_snapshots(place: Path, base: BaseIndex | None) -> Snapshots:
    place.mkdir()
    return Snapshots(place, base=base)


def test_the_index_is_the_commit_and_stores_none_of_its_objects_again(base: Path) -> None:
    found = index(base)
    assert found.top.files is not None
    assert found.top.files.hex() == git("rev-parse", "HEAD^{tree}", cwd=base)
    every = ("cat-file", "--batch-all-objects", "--batch-check=%(objectname)")
    borrowed = set(git(*every, cwd=base).split())
    (found.objects / "info/alternates").unlink()
    stored = set(git(*every, cwd=base, GIT_OBJECT_DIRECTORY=str(found.objects)).split())
    assert stored and not stored & borrowed
    assert BaseIndex(found.path, base).top == found.top


def test_large_files_of_git_itself_stay_where_they_are(base: Path, tmp_path: Path) -> None:
    pack = os.urandom(5 << 20)
    (base / ".git/objects/pack/big.pack").write_bytes(pack)
    found = index(base)
    size = sum(path.stat().st_size for path in found.path.rglob("*") if path.is_file())
    assert size < 1 << 20
    snapshots = new_snapshots(tmp_path / "place", found)
    with layered(tmp_path / "place", base) as (tree, content):
        snapshots.take(content, "first")
        (tree / ".git/objects/pack/big.pack").unlink()
        snapshots.take(content, "deleted")
        restore(snapshots, content, 1)
        assert (tree / ".git/objects/pack/big.pack").read_bytes() == pack


def test_an_overlay_is_read_as_far_as_it_differs(base: Path, tmp_path: Path) -> None:
    found = index(base)
    snapshots = new_snapshots(tmp_path / "place", found)
    with layered(tmp_path / "place", base) as (tree, content):
        first = snapshots.take(content, "first")
        assert first.tree == git("rev-parse", "HEAD^{tree}", cwd=base)
        (tree / "src/main.py").write_text("print(1)\n")
        (tree / "src/new.log").write_text("ignored")
        (tree / "src/tracked.log").write_text("changed")
        (tree / "module/file").write_text("of the submodule")
        second = snapshots.take(content, "second")
        listed = git("ls-tree", "-r", second.tree, cwd=snapshots.storage.git_dir).splitlines()
        assert [line.split("\t")[1] for line in listed] == [
            *(".gitignore", "module", "src/main.py", "src/tracked.log"),
        ]
        assert listed[1].startswith(f"160000 commit {'1' * 40}")
        assert b"".join(snapshots.read(second.id, "module/file")) == b"of the submodule"
        assert b"".join(snapshots.read(second.id, "src/new.log")) == b"ignored"
        before = describe(tree)
        shutil.rmtree(tree / "src")
        (tree / "src").write_text("a file now")
        snapshots.take(content, "third")
        restore(snapshots, content, second.id)
        assert describe(tree) == before
        restore(snapshots, content, first.id)
        assert describe(tree) == describe(base)


def test_changed_rules_apply_to_files_that_only_the_base_has(tmp_path: Path) -> None:
    lower = tmp_path / "base/tree"
    (lower / "out/deep").mkdir(parents=True)
    (lower / "out/deep/result").write_text("1")
    (lower / "out/deep/other").write_text("2")
    (lower / ".gitignore").write_text("out/\n")
    found = index_base(lower, tmp_path / "base/index")
    snapshots = new_snapshots(tmp_path / "place", found)
    with layered(tmp_path / "place", lower) as (tree, content):
        first = snapshots.take(content, "first")
        (tree / ".gitignore").write_text("other\n")
        second = snapshots.take(content, "second")
        assert snapshots.take(content, "again") == second
        (tree / ".gitignore").write_text("out/\n")
        third = snapshots.take(content, "third")

    def names(tree: str) -> list[str]:
        return git("ls-tree", "-r", "--name-only", tree, cwd=snapshots.storage.git_dir).splitlines()

    assert names(first.tree) == [".gitignore"]
    assert names(second.tree) == [".gitignore", "out/deep/result"]
    assert third.tree == first.tree


@settings(max_examples=examples(40), deadline=None)
@given(st.lists(makes, max_size=12), st.lists(st.lists(changes, max_size=8), min_size=1, max_size=3))
def test_an_overlay_and_a_copy_give_the_same_trees(first, steps) -> None:
    with tempfile.TemporaryDirectory() as home:
        lower = Path(home) / "base/tree"
        lower.mkdir(parents=True)
        for change in first:
            apply(lower, change)
        found = index_base(lower, Path(home) / "base/index")
        snapshots = new_snapshots(Path(home) / "place", found)
        states = []
        with layered(Path(home) / "place", lower) as (tree, content):
            for step in steps:
                for change in step:
                    apply(tree, change)
                taken = snapshots.take(content, "by the upper directory")
                copies = new_snapshots(Path(home) / f"copy{len(states)}", found)
                copied = copies.take(Content(content.tree), "by walking everything")
                assert snapshots.storage.whole_tree(taken) == copies.storage.whole_tree(copied)
                assert (taken.files, taken.bytes, taken.omitted) == (
                    copied.files,
                    copied.bytes,
                    copied.omitted,
                )
                states.append((taken.id, describe(tree)))
            for number, described in [*states, *reversed(states)]:
                restore(snapshots, content, number)
                assert describe(tree) == described
        shutil.rmtree(Path(home) / "place" / "work" / "work", ignore_errors=True)


def test_a_copy_is_adopted_without_being_read(base: Path, tmp_path: Path) -> None:
    found = index(base)
    snapshots = new_snapshots(tmp_path / "place", found)
    tree = tmp_path / "place/tree"
    subprocess.run(["cp", "-a", base, tree], check=True)
    # No process could have done this between the copy and now; so there is no check, and the base counts.
    old = (tree / "src/main.py").stat()
    (tree / "src/main.py").write_text("PRINT()\n")
    os.utime(tree / "src/main.py", ns=(old.st_atime_ns, old.st_mtime_ns))
    with Directory.at(tree) as directory:
        taken = snapshots.adopt(directory, "prepared")
        assert taken.tree == git("rev-parse", "HEAD^{tree}", cwd=base)
        assert b"".join(snapshots.read(taken.id, "src/main.py")) == b"print()\n"
        assert snapshots.take(Content(directory), "nothing") == taken
        # From the moment that adopting returns, every change shows, also one that keeps size and time.
        (tree / "src/main.py").write_text("Print()\n")
        os.utime(tree / "src/main.py", ns=(old.st_atime_ns, old.st_mtime_ns))
        changed = snapshots.take(Content(directory), "changed")
        assert b"".join(snapshots.read(changed.id, "src/main.py")) == b"Print()\n"


def test_files_that_differ_from_the_base_are_not_adopted(base: Path, tmp_path: Path) -> None:
    found = index(base)
    snapshots = new_snapshots(tmp_path / "place", found)
    tree = tmp_path / "place/tree"
    subprocess.run(["cp", "-a", base, tree], check=True)
    (tree / "src/main.py").write_text("longer than it was\n")
    (tree / "src/tracked.log").chmod(0o600)
    (tree / "uncommitted").write_text("new")
    discard(tree / "module")
    before = describe(tree)
    with Directory.at(tree) as directory:
        taken = snapshots.adopt(directory, "prepared")
        shutil.rmtree(tree / "src")
        restore(snapshots, Content(directory), taken.id)
    assert describe(tree) == before


def test_adopting_ends_only_when_the_next_change_must_show(tmp_path: Path) -> None:
    lower = tmp_path / "base/tree"
    lower.mkdir(parents=True)
    (lower / "a").write_text("0")
    found = index_base(lower, tmp_path / "base/index")
    with coarse(tmp_path / "coarse") as place:
        for number in range(40):
            tree = place / f"{number}/tree"
            snapshots = new_snapshots(tree.parent, found)  # nothing waits for a disk there
            shutil.copytree(lower, tree)
            with Directory.at(tree) as directory:
                snapshots.adopt(directory, "prepared")
                before = (tree / "a").stat()
                (tree / "a").write_text("1")
                os.utime(tree / "a", ns=(before.st_atime_ns, before.st_mtime_ns))
                taken = snapshots.take(Content(directory), "changed")
            assert b"".join(snapshots.read(taken.id, "a")) == b"1"


def test_a_fork_shares_files_and_diverges(base: Path, tmp_path: Path) -> None:
    found = index(base)
    snapshots = new_snapshots(tmp_path / "place", found)
    with layered(tmp_path / "place", base) as (tree, content):
        (tree / "src/main.py").write_text("forked\n")
        (tree / "big").write_bytes(os.urandom(5 << 20))
        discard(tree / ".gitignore")
        taken = snapshots.take(content, "first")
        before = describe(tree)
        (tree / "src/main.py").write_text("later\n")
        snapshots.take(content, "second")
    (tmp_path / "other").mkdir()
    forked = snapshots.fork(taken.id, tmp_path / "other")
    assert [(each.id, each.tree, each.reason) for each in forked.list()] == [
        (1, taken.tree, f"forked from snapshot {taken.id}")
    ]
    shutil.rmtree(tmp_path / "place/snapshots.git")  # whatever becomes of the first
    with layered(tmp_path / "other", base) as (tree, content):
        assert fill_from_snapshot(forked, content, 1) == forked.get(1)
        assert describe(tree) == before
        assert forked.take(content, "nothing") == forked.get(1)
    assert len(forked.list()) == 1
    tree = tmp_path / "copied/tree"
    tree.parent.mkdir()
    second = forked.fork(1, tmp_path / "copied")
    subprocess.run(["cp", "-a", base, tree], check=True)
    with Directory.at(tree) as directory:
        fill_from_snapshot(second, Content(directory), 1)
        assert describe(tree) == before
        (tree / "src/main.py").write_text("after\n")
        assert second.take(Content(directory), "something").id == 2
    git("fsck", "--full", "--strict", cwd=forked.storage.git_dir)
