"""Scanning a workspace in use."""

import os
import random
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from hutch.snapshots.confined_directory import Directory
from hutch.snapshots.restore import restore
from hutch.snapshots.snapshot import Content, Snapshots
from tests.snapshots.random_trees import describe, git, write_tree

BUSY = """
import os, random, sys
root, seed = sys.argv[1], int(sys.argv[2])
rng = random.Random(seed)
names = ["a", "b", "c", "d"]
def path(): return os.path.join(root, *rng.choices(names, k=rng.randrange(1, 4)))
print("busy", flush=True)
while True:
    try:
        kind = rng.randrange(7)
        if rng.random() < 0.001: os.rename(path(), f"{root}-{seed}-{rng.random()}")  # or it grows without end
        elif kind == 0: os.mkdir(path())
        elif kind == 1: os.rename(path(), path())
        elif kind == 2: os.symlink(rng.choice(["/proc", "..", path()]), path())
        elif kind == 3: os.unlink(path())
        elif kind == 4: os.mkfifo(path())
        else:
            with open(os.open(path(), os.O_WRONLY | os.O_CREAT | os.O_NONBLOCK, 0o644), "wb") as file:
                file.write(rng.randbytes(rng.randrange(20000)))
    except OSError:
        pass
"""


@pytest.fixture
def tree(tmp_path: Path) -> Iterator[Path]:
    place = tmp_path / "tree"
    place.mkdir()
    yield place
    # Repeated renames made a tree that is deeper than shutil.rmtree can remove.
    subprocess.run(["rm", "-rf", tmp_path], check=True)


def test_whatever_happens_meanwhile_the_snapshot_is_whole_and_the_next_is_right(
    tmp_path: Path, tree: Path
) -> None:
    snapshots = Snapshots(tmp_path)
    workers = [
        subprocess.Popen([sys.executable, "-c", BUSY, tree, str(seed)], stdout=subprocess.PIPE)
        for seed in range(2)
    ]
    try:
        for worker in workers:
            assert worker.stdout and worker.stdout.readline() == b"busy\n"
        with Directory.at(tree) as directory:
            different: set[int] = set()
            for _ in range(20_000):
                different.add(snapshots.take(Content(directory), "busy").id)
                if len(different) == 60:
                    break
    finally:
        for worker in workers:
            worker.kill()
            worker.communicate()
    git("fsck", "--full", "--strict", cwd=snapshots.storage.git_dir)
    with Directory.at(tree) as directory:
        last = snapshots.take(Content(directory), "still")
        truth = Snapshots(tmp_path)
        truth.cache.path.unlink()
        assert truth.take(Content(directory), "without what was known") == last
    assert last.tree == write_tree(_without_pipes(tree), tmp_path / "oracle")
    assert len(snapshots.list()) >= 60
    described = describe(tree)
    with Directory.at(tree) as directory:
        for each in random.Random(1).sample(list(snapshots.list()), 8):
            restore(snapshots, Content(directory), each.id)
            assert snapshots.take(Content(directory), "same") == snapshots.list()[-1]
        restore(snapshots, Content(directory), last.id)
    assert describe(tree) == described


def _without_pipes(tree: Path) -> Path:
    for directory, _, names in os.walk(tree):
        for name in names:
            path = Path(directory) / name
            if stat.S_ISFIFO(path.lstat().st_mode):
                path.unlink()
    return tree


def test_only_directories_with_a_change_get_new_trees(tmp_path: Path, tree: Path) -> None:
    for number in range(20):
        (tree / f"d{number}/deep").mkdir(parents=True)
        (tree / f"d{number}/deep/f").write_text(str(number))
    snapshots = Snapshots(tmp_path)
    with Directory.at(tree) as directory:
        snapshots.take(Content(directory), "first")
        time.sleep(0.05)
        snapshots.take(Content(directory), "settled")
        (tree / "d3/deep/f").write_text("changed")
        snapshots.take(Content(directory), "second")
    counts = sorted(
        len(git("show-index", cwd=tree, stdin=path.read_bytes()).splitlines())
        for path in (snapshots.storage.git_dir / "objects/pack").glob("*.idx")
    )
    # The file, `deep`, `d3`, `files`, the snapshot's own tree (with the empty one) and the commit.
    assert counts[0] == 7


def test_a_directory_that_went_is_forgotten(tmp_path: Path, tree: Path) -> None:
    (tree / "a/b/c").mkdir(parents=True)
    (tree / "a/b/c/f").write_text("1")
    snapshots = Snapshots(tmp_path)
    with Directory.at(tree) as directory:
        snapshots.take(Content(directory), "first")
        assert snapshots.cache.listings.keys() == {"", "a", "a/b", "a/b/c"}
        (tree / "a/b").rename(tree / "moved")
        snapshots.take(Content(directory), "second")
        assert snapshots.cache.listings.keys() == {"", "a", "moved", "moved/c"}


def test_the_rules_are_read_again_when_they_change(tmp_path: Path, tree: Path) -> None:
    (tree / "src/deep").mkdir(parents=True)
    for name in ("a.log", "src/b.log", "src/deep/c.log", "src/keep.txt"):
        (tree / name).write_text(name)
    snapshots = Snapshots(tmp_path)
    with Directory.at(tree) as directory:
        for rules in (b"", b"*.log\n", b"*.log\n!c.log\n", b"src/\n", b"/src/*\n!/src/deep\n", b"*\n"):
            (tree / ".gitignore").write_bytes(rules)
            time.sleep(0.02)
            taken = snapshots.take(Content(directory), "rules")
            assert taken.tree == write_tree(tree, tmp_path / "oracle")
        (tree / ".gitignore").unlink()
        (tree / ".gitignore").symlink_to("/etc/passwd")
        assert snapshots.take(Content(directory), "a link says nothing").files == 5
