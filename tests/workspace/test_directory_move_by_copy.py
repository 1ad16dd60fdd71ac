"""Directories of a lower layer, which can be copied but not renamed."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from hutch.domain.errors import Conflict, HutchError
from hutch.snapshots.confined_directory import Directory
from hutch.workspace.files.directory_move_by_copy import copy_subtree, restore_missing, signature
from hutch.workspace.files.file_change_syscalls import Syscalls
from hutch.workspace.files.file_reads_and_changes import Files
from tests.workspace.file_change_helpers import (
    WHEN_NS,
    Failing,
    close,
    everything,
    failure,
    killed,
    make_place,
    opened,
    sha,
)
from tests.workspace.fork_process import in_child

ROOT = Path(__file__).parents[2]
LOWER = {"src/a": b"a\n", "src/deep/b": b"b\n", "src/deep/er/c": b"c\n", "file": b"file\n", "other/d": b"d\n"}


def in_overlay(tmp_path: Path, name: str) -> None:
    """Run one of the functions below where an overlay is mounted, in namespaces of its own."""
    for each in ("lower", "upper", "work", "tree", "journal"):
        (tmp_path / each).mkdir()
    for path, data in LOWER.items():
        (tmp_path / "lower" / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "lower" / path).write_bytes(data)
    (tmp_path / "lower/src/deep/b").chmod(0o750)
    (tmp_path / "lower/src/link").symlink_to("deep/b")
    (tmp_path / "lower/src/empty").mkdir(mode=0o700)
    for path in (tmp_path / "lower").rglob("*"):
        os.utime(path, ns=(WHEN_NS, WHEN_NS), follow_symlinks=False)
    run = (
        "import sys; from pathlib import Path;"
        "from tests.workspace import test_directory_move_by_copy as tests;"
        "getattr(tests, sys.argv[1])(Path('tree').absolute())"
    )
    layers = "lowerdir=lower,upperdir=upper,workdir=work,userxattr"
    script = f'mount -t overlay -o {layers} overlay tree || exit 77; exec "$0" -c "$1" "$2"'
    ran = subprocess.run(
        ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", script, sys.executable, run, name],
        cwd=tmp_path,
        env={"PATH": os.defpath, "PYTHONPATH": f"{ROOT}:{ROOT / 'src'}", "LANG": "C.UTF-8"},
        capture_output=True,
        text=True,
    )
    if ran.returncode == 77 or "unshare failed" in ran.stderr:
        pytest.skip(f"no overlay can be mounted here: {ran.stderr.strip()}")
    assert ran.returncode == 0, ran.stdout[-3000:] + ran.stderr[-3000:]


def state(tree: Path) -> dict[str, tuple[object, ...]]:
    """Everything but the top's time, the times of links, and how many names overlayfs gives a directory."""
    return {
        name: about[: 4 if str(about[1]).startswith("0o12") else 5]
        for name, about in everything(tree).items()
        if name != "."
    }


def test_files_change_in_an_overlay(tmp_path: Path) -> None:
    in_overlay(tmp_path, "changes")


def changes(tree: Path) -> None:
    files = opened(tree)
    assert not files.journal.is_beside
    assert files.write("file", b"new\n", if_hash=sha(b"file\n")).before == sha(b"file\n")
    assert files.move("src/a", "other/a")[0].kind == "moved"
    assert files.delete("src/deep")[0].path == "src/deep/b"
    assert sorted(path.name for path in tree.iterdir()) == ["file", "other", "src"]
    assert (tree / "other/a").read_bytes() == b"a\n"
    close(files)


def test_a_directory_of_the_lower_layer_moves(tmp_path: Path) -> None:
    in_overlay(tmp_path, "moves")


def moves(tree: Path) -> None:
    before = {name: about for name, about in state(tree).items() if name.startswith("src/")}
    files = opened(tree)
    result = files.move("src", "new/place")
    assert [(change.moved_from, change.path, change.after) for change in result] == [
        ("src/a", "new/place/a", sha(b"a\n")),
        ("src/deep/b", "new/place/deep/b", sha(b"b\n")),
        ("src/deep/er/c", "new/place/deep/er/c", sha(b"c\n")),
    ]
    assert not (tree / "src").exists()
    after = {name: about for name, about in state(tree).items() if name.startswith("new/place/")}
    assert {name.replace("src", "new/place", 1): about for name, about in before.items()} == after
    assert sorted(path.name for path in tree.iterdir()) == ["file", "new", "other"]
    with pytest.raises(Conflict):
        files.move("other", "new")
    close(files)


def test_a_move_in_an_overlay_is_made_whole_or_not_at_all(tmp_path: Path) -> None:
    in_overlay(tmp_path, "fails")


class HalfRemoved(Syscalls):
    """Removes some of a tree, then `stop` is called."""

    def __init__(self, stop: Callable[[], None]) -> None:
        self.stop = stop

    def remove(self, fd: int, name: str) -> None:
        if name == "src":
            with Directory(os.open(name, os.O_PATH, dir_fd=fd)) as directory:
                directory.remove("deep/er")
                directory.remove("a")
            self.stop()
        super().remove(fd, name)


def fails(tree: Path) -> None:
    before = state(tree)

    def move(calls: Syscalls) -> None:
        files = opened(tree, calls)
        try:
            files.move("src", "new/place")
        finally:
            close(files)

    def check(number: int) -> None:
        close(opened(tree))
        assert state(tree) == before, number
        assert not list((tree.parent / "journal").iterdir())

    for number in range(1, 200):
        calls = Failing(number, failure(5))
        try:
            move(calls)
        except HutchError:
            check(number)
        else:
            break
    close(opened(tree))
    assert number > 10
    Files(Directory.at(tree), Directory.at(tree.parent / "journal")).move("new/place", "src")
    (tree / "new").rmdir()
    os.utime(tree / "src", ns=(WHEN_NS, WHEN_NS))
    assert state(tree) == before  # now of the upper layer; `other` is still of the lower one
    check(0)


def test_what_was_removed_of_the_original_comes_back(tmp_path: Path) -> None:
    in_overlay(tmp_path, "half_removed")


def half_removed(tree: Path) -> None:
    before = state(tree)
    files = opened(tree, HalfRemoved(failure(5)))
    with pytest.raises(HutchError, match="removing the copied 'src'"):
        files.move("src", "new/place")
    close(files)
    assert state(tree) == before
    status = in_child(lambda: opened(tree, HalfRemoved(killed)).move("src", "new/place"))
    assert os.WTERMSIG(status) == signal.SIGKILL
    assert not (tree / "src/a").exists()
    close(opened(tree))
    assert state(tree) == before


def test_what_changed_since_it_was_copied_is_not_removed(tmp_path: Path) -> None:
    in_overlay(tmp_path, "changed_since")


class Late(Syscalls):
    """Another process writes right after the copy was made."""

    def copy_subtree(self, fd: int, name: str, to_fd: int, to_name: str) -> list[str]:
        left_out = super().copy_subtree(fd, name, to_fd, to_name)
        Path(f"/proc/self/fd/{fd}/{name}/late").write_bytes(b"late\n")
        return left_out


def changed_since(tree: Path) -> None:
    files = opened(tree, Late())
    with pytest.raises(Conflict, match="changed by another process"):
        files.move("src", "moved")
    close(files)
    assert (tree / "src/late").read_bytes() == b"late\n"
    assert (tree / "src/a").exists()
    assert not (tree / "moved").exists()


def test_a_copy_is_the_same_and_refills_what_is_missing(tmp_path: Path) -> None:
    tree = make_place(tmp_path)
    before = state(tree)
    fd = os.open(tmp_path, os.O_RDONLY)
    first = signature(fd, "tree")
    assert copy_subtree(fd, "tree", fd, "copy") == []
    assert state(tmp_path / "copy") == before
    (tree / "src/c").unlink()
    (tree / "src/deep/d").unlink()
    (tree / "src/deep").rmdir()
    (tree / "a").write_bytes(b"changed\n")
    assert signature(fd, "tree") != first
    restore_missing(fd, "copy", fd, "tree")
    after = state(tree)
    assert after.pop("a") != before.pop("a")  # what is there stays
    assert after == before
    os.close(fd)


def test_files_that_cannot_be_copied_are_refused(tmp_path: Path) -> None:
    tree = make_place(tmp_path)
    os.mkfifo(tree / "src/pipe")
    fd = os.open(tmp_path, os.O_RDONLY)
    assert copy_subtree(fd, "tree", fd, "copy") == ["src/pipe"]
    os.close(fd)
