"""How a directory is laid out in git's objects."""

import json
import os
import stat
import subprocess
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hutch.snapshots.git_object_reader import GitObjects
from hutch.snapshots.pack_writer import PackWriter
from hutch.snapshots.snapshot_tree_layout import (
    EMPTY_BRANCH,
    FILES,
    IGNORED,
    PRIVATE,
    Branch,
    Item,
    Leaf,
    OmittedEntry,
    build_branch,
    is_refused_by_git,
    read_items,
    read_snapshot_tree,
    write_snapshot_tree,
)
from tests.hypothesis_examples import examples
from tests.snapshots.random_trees import git


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("repository")
    git("init", "-q", "--bare", ".", cwd=place)
    return place


def git_takes(repository: Path, name: bytes, mode: int) -> bool:
    """The result of git's own check of names, with the protection of all file systems on."""
    for key in ("core.protectHFS", "core.protectNTFS"):
        git("config", key, "true", cwd=repository)
    ran = subprocess.run(
        ["git", "update-index", "--add", "-z", "--index-info"],
        cwd=repository,
        input=b"%o %s\t%s\0" % (mode, b"e69de29bb2d1d6434b8b29ae775ad8c2e48c5391", name),
        env={"PATH": os.defpath, "GIT_DIR": str(repository)},
        capture_output=True,
        check=False,
    )
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=repository, env={"PATH": os.defpath}, capture_output=True, check=True
    )
    (repository / "index").unlink(missing_ok=True)
    return ran.returncode == 0 and name in listed.stdout.split(b"\0")


NAMES = [
    *(
        b".git",
        b".GIT",
        b".Git",
        b"git~1",
        b"GIT~1",
        b".git ",
        b".git.",
        b".git . .",
        b".git::$INDEX_ALLOCATION",
    ),
    *(b".git:x", b".git\\x", b"git~1\\x", b".git\\", ".g\u200cit".encode(), "\ufeff.git".encode()),
    *(
        ".gi\u206at".encode(),
        b".gitx",
        b".gi",
        b"git",
        b"git~2",
        b".gitignore",
        b".gitmodules",
        b"x.git",
        b".git-",
    ),
    *(
        b"GITMOD~1",
        b"gitmod~4",
        b"gi7eba~1",
        b"gi7eb~12",
        b"gi7eb~1",
        b"gi~12345",
        b"~1234567",
        ".gitm\u200codules".encode(),
        b".gitmodules ",
        b".GITMODULES",
        b"a\\b",
        b"a:b",
        b"CON",
        b"...",
    ),
]


@pytest.mark.parametrize("mode", [0o100644, 0o120000], ids=["file", "link"])
@pytest.mark.parametrize("name", NAMES, ids=ascii)
def test_git_refuses_what_we_refuse(repository: Path, name: bytes, mode: int) -> None:
    assert is_refused_by_git(name, plain=mode != 0o120000) is not git_takes(repository, name, mode)


names = st.sampled_from(["a", "b", ".git", os.fsdecode(b"\xff"), "+", "=", "ü", "x\ny"])
modes = st.sampled_from([0o100644, 0o100755, 0o100600, 0o100000, 0o101777]) | st.just(stat.S_IFLNK | 0o777)
leaves = st.builds(
    Leaf, mode=modes, name=st.just(b"\1" * 20), section=st.sampled_from([FILES, PRIVATE]), size=st.just(-1)
)
omitted = st.builds(OmittedEntry, reason=st.just("fifo"), size=st.integers(0, 1 << 50))
trees = st.none() | st.just(b"\2" * 20)
branches = st.builds(
    Branch,
    permissions=st.sampled_from([0o755, 0o700, 0o1777]),
    files=trees,
    beside=trees,
    notes=st.just(b"\3" * 20),
    link=st.none(),
    file_count=st.just(0),
    size=st.just(0),
    ignored_size=st.just(0),
    omitted=st.just(0),
)


@settings(max_examples=examples(60), deadline=None)
@given(items=st.dictionaries(names, leaves | omitted | branches, max_size=6))
def test_a_written_layout_is_read_back(items) -> None:
    with tempfile.TemporaryDirectory() as place:
        objects = Path(place) / "objects"
        (objects / "pack").mkdir(parents=True)
        writer = PackWriter(objects)
        branch = build_branch(items, writer, permissions=0o755, link=None, known=frozenset())
        tree = write_snapshot_tree(writer, branch)
        writer.finish()
        found = read_snapshot_tree(GitObjects(objects), tree)
        assert found.trees == branch.trees
        assert read_items(GitObjects(objects), found) == items


def test_the_entries_of_a_directory_are_counted(tmp_path: Path) -> None:
    (tmp_path / "pack").mkdir()
    writer = PackWriter(tmp_path)
    below = EMPTY_BRANCH._replace(files=b"\1" * 20, file_count=3, size=30, ignored_size=5, omitted=1)
    items = {
        "a": Leaf(0o100644, b"\1" * 20, FILES, 10),
        "b": Leaf(0o100644, b"\1" * 20, IGNORED, 7),
        "c": Leaf(0o100644, b"\1" * 20, PRIVATE, 100),
        "d": OmittedEntry("fifo", 0),
        "e": below,
    }
    branch = build_branch(items, writer, permissions=0o755, link=None, known=frozenset())
    writer.abandon()
    assert (branch.file_count, branch.size, branch.ignored_size, branch.omitted) == (4, 40, 12, 2)


def test_the_notes_of_a_very_large_directory_are_as_those_of_a_small_one(tmp_path: Path) -> None:
    (tmp_path / "pack").mkdir()
    writer = PackWriter(tmp_path)
    # More than one piece of each kind, more text than is parsed by one call, names out of order.
    modes = {f'f{number * 7919 % 20_011}ü"': 0o600 for number in range(20_011)}
    items: dict[str, Item] = {name: Leaf(0o100600, b"\1" * 20, FILES, -1) for name in modes}
    items |= {f"p{number * 7919 % 9_001}": OmittedEntry("fifo", 0) for number in range(9_001)}
    branch = build_branch(items, writer, permissions=0o755, link=None, known=frozenset())
    writer.finish()
    objects = GitObjects(tmp_path)
    [(_, _, blob)] = objects.tree(branch.notes)
    notes = {
        "modes": {os.fsencode(name).decode("latin-1"): mode for name, mode in modes.items()},
        "absent": {name: ["fifo", 0] for name in items if name not in modes},
    }
    text = json.dumps(notes, sort_keys=True, separators=(",", ":")).encode()
    assert objects.read(blob, "blob") == text
    assert read_items(objects, branch) == items


def test_the_notes_of_an_empty_directory(tmp_path: Path) -> None:
    (tmp_path / "pack").mkdir()
    writer = PackWriter(tmp_path)
    branch = build_branch({}, writer, permissions=0o755, link=None, known=frozenset())
    writer.finish()
    [(_, _, blob)] = GitObjects(tmp_path).tree(branch.notes)
    assert GitObjects(tmp_path).read(blob, "blob") == b"{}"
