"""Files as a host looks at and changes them."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from hutch.domain.errors import BadRequest, Conflict, Denied, LimitReached, NotFound
from hutch.edit.file_operation_types import FileChange, Write
from hutch.workspace.files.directory_listing import Entry
from hutch.workspace.files.file_reads_and_changes import MAX_LISTED_CHANGES, Files, PathStatus
from tests.ordinary_user import pytest_as
from tests.workspace.file_change_helpers import WHEN_NS, close, everything, make_place, opened, sha

ROOT = Path(__file__).parents[2]
ALPHA, BETA, GAMMA = b"alpha\n", b"beta\n", b"gamma\n"


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    return make_place(tmp_path)


@pytest.fixture
def files(tree: Path) -> Files:
    return opened(tree)


def test_stat(files: Files) -> None:
    assert files.stat("a") == PathStatus(Entry("a", "file", 6, 0o755, WHEN_NS, None), None)
    assert files.stat("a", hashed=True).sha256 == sha(ALPHA)
    assert files.stat("link").entry == Entry("link", "link", 5, 0o777, WHEN_NS, "src/c")
    assert files.stat("link", hashed=True).sha256 == sha(GAMMA)
    assert files.stat("").entry.kind == "directory"
    assert files.stat("src").entry.kind == "directory"
    with pytest.raises(NotFound):
        files.stat("none")
    with pytest.raises(BadRequest, match="a directory, not a file"):
        files.stat("src", hashed=True)


@pytest.mark.parametrize("kind", ["pipe", "socket"])
def test_what_is_no_file_is_refused_without_waiting(files: Files, tree: Path, kind: str) -> None:
    if kind == "pipe":
        os.mkfifo(tree / "it")
    else:
        with socket.socket(socket.AF_UNIX) as bound:
            bound.bind(str(tree / "it"))
    assert files.stat("it").entry.kind == "other"
    for look in (files.read, files.read_range, files.read_bytes, lambda path: files.write(path, b"")):
        with pytest.raises(BadRequest, match=f"is a {kind}, not a file"):
            look("it")
    files.delete("it")
    assert not (tree / "it").exists()


def test_write_creates_and_replaces(files: Files, tree: Path) -> None:
    assert files.write("new/file", b"1") == FileChange("new/file", "created", None, sha(b"1"))
    assert files.write("new/file", b"2") == FileChange("new/file", "modified", sha(b"1"), sha(b"2"))
    assert (tree / "new/file").read_bytes() == b"2"
    assert (tree / "new/file").stat().st_mode & 0o777 == 0o644


def test_a_file_is_replaced_not_written_into(files: Files, tree: Path) -> None:
    """A process that has the file open keeps its old content."""
    with (tree / "b").open("rb") as held:
        files.write("b", b"other")
        assert held.read() == BETA


def test_create_wants_nothing_there(files: Files, tree: Path) -> None:
    assert files.create("x/y/z", b"1", mode=0o700).kind == "created"
    assert (tree / "x/y/z").stat().st_mode & 0o777 == 0o700
    with pytest.raises(Conflict, match="'a' exists already"):
        files.create("a", b"")
    with pytest.raises(Conflict):
        files.create("link", b"")


def test_write_if_hash(files: Files, tree: Path) -> None:
    files.write("a", b"mine", if_hash=sha(ALPHA))
    with pytest.raises(Conflict) as setup:
        files.write("a", b"too late", if_hash=sha(ALPHA))
    assert sha(ALPHA) in str(setup.value)
    assert sha(b"mine") in str(setup.value)
    assert "Read it again" in str(setup.value)
    assert (tree / "a").read_bytes() == b"mine"


def test_move_a_file(files: Files, tree: Path) -> None:
    inode = (tree / "a").stat().st_ino
    assert files.move("a", "new/a") == [FileChange("new/a", "moved", sha(ALPHA), sha(ALPHA), "a")]
    assert (tree / "new/a").stat().st_ino == inode
    assert (tree / "new/a").stat().st_mtime_ns == WHEN_NS
    with pytest.raises(Conflict, match="'b' exists already"):
        files.move("new/a", "b")
    files.move("new/a", "b", replace=True)
    assert (tree / "b").read_bytes() == ALPHA
    with pytest.raises(NotFound):
        files.move("none", "other")
    with pytest.raises(Conflict, match="both"):
        files.move("b", "src", replace=True)


def test_move_a_directory(files: Files, tree: Path) -> None:
    assert files.move("src", "lib/python") == [
        FileChange("lib/python/c", "moved", sha(GAMMA), sha(GAMMA), "src/c"),
        FileChange(
            "lib/python/deep/d", "moved", sha(b"delta\n" * 1000), sha(b"delta\n" * 1000), "src/deep/d"
        ),
    ]
    assert (tree / "lib/python/c").read_bytes() == GAMMA
    assert not (tree / "src").exists()
    with pytest.raises(BadRequest, match="into itself"):
        files.move("lib", "lib/python/lib")
    (tree / "round").symlink_to("lib")
    before = everything(tree)
    with pytest.raises(BadRequest):
        files.move("lib", "round/lib")
    assert everything(tree) == before


def test_move_over_a_directory(files: Files, tree: Path) -> None:
    (tree / "old/inner").mkdir(parents=True)
    (tree / "old/inner/file").touch()
    with pytest.raises(Conflict):
        files.move("src", "old")
    files.move("src", "old", replace=True)
    assert sorted(path.name for path in (tree / "old").iterdir()) == ["c", "deep"]


def test_move_a_link(files: Files, tree: Path, tmp_path: Path) -> None:
    (tree / "out").symlink_to(tmp_path / "outside/secret")
    assert files.move("out", "moved") == [FileChange("moved", "moved", None, None, "out")]
    assert (tree / "moved").readlink() == tmp_path / "outside/secret"


def test_delete(files: Files, tree: Path, tmp_path: Path) -> None:
    (tree / "out").symlink_to(tmp_path / "outside")
    outside = everything(tmp_path / "outside")
    assert files.delete("out") == [FileChange("out", "deleted", None, None)]
    assert everything(tmp_path / "outside") == outside
    assert files.delete("a") == [FileChange("a", "deleted", sha(ALPHA), None)]
    assert [change.path for change in files.delete("src")] == ["src/c", "src/deep/d"]
    assert sorted(path.name for path in tree.iterdir()) == ["b", "link"]
    with pytest.raises(NotFound):
        files.delete("src")
    with pytest.raises(BadRequest):
        files.delete("")
    assert list((tmp_path / "journal").iterdir()) == []


def test_delete_a_tree_whatever_its_modes(files: Files, tree: Path) -> None:
    (tree / "src/deep/d").chmod(0o000)
    (tree / "src/deep").chmod(0o000)
    (tree / "src").chmod(0o500)
    files.delete("src")
    assert not (tree / "src").exists()


def test_many_files_are_reported_as_one_directory(files: Files, tree: Path) -> None:
    (tree / "many").mkdir()
    for number in range(MAX_LISTED_CHANGES + 1):
        (tree / f"many/{number}").touch()
    assert files.move("many", "lots") == [FileChange("lots", "moved", None, None, "many")]
    assert files.delete("lots") == [FileChange("lots", "deleted", None, None)]
    (tree / "empty").mkdir()
    assert files.delete("empty") == [FileChange("empty", "deleted", None, None)]


def test_make_directory(files: Files, tree: Path) -> None:
    created = [FileChange("x", "created", None, None), FileChange("x/y", "created", None, None)]
    assert files.make_directory("x/y") == created
    assert files.make_directory("x/y") == []
    assert (tree / "x/y").stat().st_mode & 0o777 == 0o755
    with pytest.raises(Conflict, match="'a' is a file"):
        files.make_directory("a")
    with pytest.raises(BadRequest):
        files.make_directory("a/b")


def test_names_that_are_no_text(files: Files, tree: Path) -> None:
    name = os.fsdecode(b"\xff\xfe\n'")
    files.create(f"{name}/{name}", b"1")
    files.move(f"{name}/{name}", name + "2")
    assert files.read_bytes(name + "2")[0] == b"1"
    with pytest.raises(Conflict) as setup:
        files.create(name + "2", b"")
    str(setup.value).encode()  # can be shown to anybody


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files to others")
def test_what_root_makes_belongs_to_the_trees_owner(tree: Path) -> None:
    for path in [tree, *tree.rglob("*")]:
        os.chown(path, 4711, 4712, follow_symlinks=False)
    os.chown(tree / "b", 815, 816)
    files = opened(tree)
    files.create("new/dir/file", b"1")
    files.write("a", b"2")
    files.write("b", b"3")
    files.make_directory("made")
    owners = {
        str(path.relative_to(tree)): (path.lstat().st_uid, path.lstat().st_gid) for path in tree.rglob("*")
    }
    assert owners.pop("b") == (815, 816)
    assert set(owners.values()) == {(4711, 4712)}
    close(files)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may do anything")
def test_what_an_ordinary_user_may_not_do_changes_nothing(files: Files, tree: Path) -> None:
    (tree / "src/locked/inside").mkdir(parents=True)
    (tree / "src/locked").chmod(0o555)
    (tree / "src").chmod(0o555)
    (tree / "a").chmod(0o000)
    before = {name: about[1:] for name, about in _seen_readable(tree).items()}
    for work in (
        lambda: files.write("src/c", b"1"),
        lambda: files.create("src/new", b"1"),
        lambda: files.delete("src/c"),
        lambda: files.move("src/c", "c"),
        lambda: files.delete("src/deep"),
        lambda: files.delete("src/locked"),
        lambda: files.move("src/deep", "deep"),
        lambda: files.read_bytes("a"),
        lambda: files.write("a", b"1"),
    ):
        with pytest.raises(Denied):
            work()
        assert {name: about[1:] for name, about in _seen_readable(tree).items()} == before
    files.move("a", "moved")  # a file that may not be read may still be moved and removed
    files.delete("moved")
    (tree / "src").chmod(0o755)


def _seen_readable(tree: Path) -> dict[str, tuple[object, ...]]:
    found = {}
    for path in tree.rglob("*"):
        at = path.lstat()
        content = path.read_bytes() if path.is_file() and os.access(path, os.R_OK) else None
        found[str(path.relative_to(tree))] = (None, content, at.st_mode, at.st_mtime_ns)
    return found


@pytest.mark.soak  # `make fresh` runs all tests as an ordinary user
@pytest.mark.skipif(os.geteuid() != 0, reason="runs this suite as an ordinary user")
def test_an_ordinary_user_can_do_the_same() -> None:
    pytest_as(
        65534,
        "workspace/test_file_reads_and_changes.py",
        "workspace/test_change_planning.py",
        "workspace/test_directory_move_by_copy.py",
        "workspace/test_atomic_change_journal.py",
        "workspace/test_change_watcher.py",
        timeout_s=600,
    )


def test_a_full_disk_changes_nothing(tmp_path: Path) -> None:
    """A real one, of 200 KiB, in namespaces of its own."""
    run = "import sys; from tests.workspace.test_file_reads_and_changes import fill_up; fill_up(sys.argv[1])"
    script = 'mount -t tmpfs -o size=200k tmpfs "$2" || exit 77; exec "$0" -c "$1" "$2"'
    ran = subprocess.run(
        [
            "unshare",
            "--user",
            "--map-root-user",
            "--mount",
            "sh",
            "-c",
            script,
            sys.executable,
            run,
            tmp_path,
        ],
        env={"PATH": os.defpath, "PYTHONPATH": f"{ROOT}:{ROOT / 'src'}", "LANG": "C.UTF-8"},
        capture_output=True,
        text=True,
    )
    if ran.returncode == 77 or "unshare failed" in ran.stderr:
        pytest.skip(f"no file system can be mounted here: {ran.stderr.strip()}")
    assert ran.returncode == 0, ran.stderr[-3000:]


def fill_up(place: str) -> None:
    tree = make_place(Path(place))
    before = everything(tree)
    files = opened(tree)
    with pytest.raises(LimitReached, match="No space for 'large'"):
        files.change([Write("a", b"new", None, sha(ALPHA)), Write("large", b"x" * 300_000, None, None)])
    assert everything(tree) == before
    assert files.write("small", b"x" * 10_000).kind == "created"
    close(files)
