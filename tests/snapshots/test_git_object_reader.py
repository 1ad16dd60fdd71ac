"""Git's objects, read as git reads them."""

import os
import random
from pathlib import Path

import pytest

from hutch.domain.errors import Unavailable
from hutch.snapshots.git_object_reader import (
    EMPTY_TREE,
    MAX_CACHED_TREES,
    TREE,
    GitObjects,
    format_tree,
    object_name,
    parse_tree,
)
from hutch.snapshots.pack_writer import PackWriter
from tests.snapshots.random_trees import git


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """Many versions of a file, so that packing makes chains of deltas, and a large one."""
    place = tmp_path / "repository"
    place.mkdir()
    git("init", "-q", ".", cwd=place)
    rng = random.Random(1)
    lines = [f"{rng.random()}\n" for _ in range(400)]
    for number in range(12):
        lines[rng.randrange(400)] = f"changed {number}\n"
        (place / "text").write_text("".join(lines))
        (place / f"dir{number}").mkdir()
        (place / f"dir{number}/x").write_text(str(number))
        git("add", ".", cwd=place)
        git("commit", "-q", "-m", str(number), cwd=place)
    (place / "large").write_bytes(rng.randbytes(3_000_000))
    git("add", ".", cwd=place)
    git("commit", "-q", "-m", "large", cwd=place)
    return place


def every(repository: Path) -> list[tuple[str, str]]:
    words = ("cat-file", "--batch-all-objects", "--batch-check=%(objectname) %(objecttype)")
    return [(line.split()[0], line.split()[1]) for line in git(*words, cwd=repository).splitlines()]


@pytest.mark.parametrize("packing", ["loose", "offsets", "names", "both"])
def test_every_object_is_read_as_git_wrote_it(repository: Path, packing: str) -> None:
    if packing != "loose":
        offsets = "false" if packing == "names" else "true"
        git("-c", f"repack.useDeltaBaseOffset={offsets}", "repack", "-a", "-d", "-q", "-f", cwd=repository)
        deltas = git("verify-pack", "-v", *_indexes(repository), cwd=repository)
        assert "chain length = 2" in deltas
    if packing == "both":
        (repository / "text").write_text("one more")
        git("commit", "-q", "-a", "-m", "more", cwd=repository)
    objects = GitObjects(repository / ".git/objects")
    for name, kind in every(repository):
        data = objects.read(bytes.fromhex(name), kind)
        assert object_name(kind, data).hex() == name
        assert bytes.fromhex(name) in objects
        if kind == "blob":
            assert b"".join(objects.chunks(bytes.fromhex(name))) == data
        if kind == "tree":
            assert format_tree(parse_tree(data)) == data


def test_borrowed_objects_are_found_however_far(repository: Path, tmp_path: Path) -> None:
    name = bytes.fromhex(git("rev-parse", "HEAD:text", cwd=repository))
    before = repository / ".git/objects"
    for number in range(8):  # git gives up at five
        here = tmp_path / f"borrower{number}"
        (here / "info").mkdir(parents=True)
        (here / "info/alternates").write_text(f"{os.path.relpath(before, here)}\n")
        before = here
    assert GitObjects(before).read(name, "blob") == (repository / "text").read_bytes()


def test_packs_that_come_and_go_are_noticed(repository: Path) -> None:
    objects = GitObjects(repository / ".git/objects")
    name = bytes.fromhex(git("rev-parse", "HEAD:text", cwd=repository))
    text = objects.read(name, "blob")
    git("repack", "-a", "-d", "-q", cwd=repository)
    assert objects.read(name, "blob") == text
    (repository / "text").write_text("more")
    git("commit", "-q", "-a", "-m", "more", cwd=repository)
    git("repack", "-a", "-d", "-q", cwd=repository)
    assert objects.read(name, "blob") == text


def test_objects_in_many_small_packs_and_a_large_one_are_found_until_they_are_deleted(tmp_path: Path) -> None:
    (tmp_path / "pack").mkdir()
    objects, names = GitObjects(tmp_path), {}
    for number in range(300):
        writer = PackWriter(tmp_path)
        texts = [b"%d %d" % (number, each) for each in range(1000 if number == 7 else 2)]
        names |= {writer.add("blob", text): text for text in texts}
        writer.finish()
        name, text = next(reversed(names.items()))
        assert objects.read(name, "blob") == text  # it has only just come
    for reader in (objects, GitObjects(tmp_path)):
        assert all(reader.read(name, "blob") == text for name, text in names.items())
        assert b"\1" * 20 not in reader
    one, other = (next(name for name, text in names.items() if text == each) for each in (b"5 1", b"6 1"))
    for path in (tmp_path / "pack").glob("*.idx"):
        if one in path.read_bytes():
            path.with_suffix(".pack").unlink()
            path.unlink()
    assert (one in objects, other in objects) == (False, True)


def test_trees_that_were_read_before_stay_the_same(tmp_path: Path) -> None:
    """More trees than are kept, and one that is too large to be kept."""
    (tmp_path / "pack").mkdir()
    blob = object_name("blob", b"x")
    sizes = [*range(1, 2 * MAX_CACHED_TREES), 5000]
    trees = [[(0o100644, b"file-%05d" % number, blob) for number in range(size)] for size in sizes]
    writer = PackWriter(tmp_path)
    names = [writer.add("tree", format_tree(tree)) for tree in trees]
    writer.finish()
    reader = GitObjects(tmp_path)
    for _ in range(2):
        assert [list(reader.tree(name)) for name in names] == trees
        assert reader.changed_names(names[0], names[2]) == {b"file-00001", b"file-00002"}
        assert reader.changed_names(names[3], names[3]) == set()


def test_missing_objects_and_wrong_kinds_are_reported(repository: Path) -> None:
    objects = GitObjects(repository / ".git/objects")
    tree = bytes.fromhex(git("rev-parse", "HEAD^{tree}", cwd=repository))
    with pytest.raises(Unavailable, match="is missing"):
        objects.read(b"\1" * 20, "blob")
    with pytest.raises(Unavailable, match="is a tree, not a blob"):
        objects.read(tree, "blob")
    assert b"\1" * 20 not in objects
    assert objects.tree(None) == objects.tree(EMPTY_TREE) == ()


def test_a_pack_that_ends_too_early_is_named(repository: Path) -> None:
    git("repack", "-a", "-d", "-q", "-f", cwd=repository)
    [pack] = (repository / ".git/objects/pack").glob("*.pack")
    large = bytes.fromhex(git("rev-parse", "HEAD:large", cwd=repository))
    located = git("verify-pack", "-v", *_indexes(repository), cwd=repository)
    offset = next(int(line.split()[4]) for line in located.splitlines() if line.startswith(large.hex()))
    pack.chmod(0o600)
    os.truncate(pack, offset + 1000)
    with pytest.raises(Unavailable, match=f"The pack file {pack} ends too early"):
        GitObjects(repository / ".git/objects").read(large, "blob")


def test_directories_sort_as_if_they_ended_in_a_slash(tmp_path: Path) -> None:
    for name in ("a-", "a0", "a.c", "b"):
        (tmp_path / name).write_text("x")
    for name in ("a", "a.b", "b.c"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "x").write_text("x")
    git("init", "-q", ".", cwd=tmp_path)
    git("add", ".", cwd=tmp_path)
    tree = bytes.fromhex(git("write-tree", cwd=tmp_path))
    entries = GitObjects(tmp_path / ".git/objects").tree(tree)
    assert [(name, mode == TREE) for mode, name, _ in entries] == [
        *((b"a-", False), (b"a.b", True), (b"a.c", False), (b"a", True), (b"a0", False)),
        *((b"b", False), (b"b.c", True)),
    ]
    assert object_name("tree", format_tree(sorted(entries))) == tree


def _indexes(repository: Path) -> list[str]:
    return [str(path) for path in (repository / ".git/objects/pack").glob("*.idx")]
