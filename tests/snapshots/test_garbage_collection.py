"""Storage packed and collected, while snapshots are taken."""

import asyncio
import os
import random
from pathlib import Path

import pytest

from hutch.forge.host_git import Git
from hutch.snapshots.confined_directory import Directory
from hutch.snapshots.disk_entry_reader import SnapshotLimits
from hutch.snapshots.garbage_collection import MAX_PACKS, collect, is_due
from hutch.snapshots.prebuilt_base_file_index import index_base
from hutch.snapshots.snapshot import Content, Snapshots
from tests.snapshots.random_trees import git

GIT = Git({"PATH": os.defpath})
pytestmark = pytest.mark.anyio


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    place = tmp_path / "tree"
    place.mkdir()
    return place


@pytest.fixture
def snapshots(tmp_path: Path) -> Snapshots:
    return Snapshots(tmp_path, limits=SnapshotLimits(large_bytes=50_000))


def take(snapshots: Snapshots, tree: Path):
    with Directory.at(tree) as directory:
        return snapshots.take(Content(directory), "test")


def fsck(snapshots: Snapshots) -> None:
    git("fsck", "--full", "--strict", cwd=snapshots.storage.git_dir)


async def test_packs_that_a_killed_collection_left_without_an_index_are_removed(
    snapshots: Snapshots, tree: Path
) -> None:
    for text in ("one", "two"):
        (tree / "text").write_text(text)
        take(snapshots, tree)
    packs = snapshots.storage.git_dir / "objects/pack"
    await collect(GIT, snapshots.storage)
    [left] = packs.glob("*.pack")
    for suffix in (".pack", ".rev", ".keep"):
        (packs / f"pack-{'0' * 40}{suffix}").write_bytes(left.read_bytes())
    await collect(GIT, snapshots.storage)
    assert {path.name for path in packs.iterdir()} == {left.name, left.with_suffix(".idx").name}
    assert b"".join(snapshots.read(1, "text")) == b"one"


async def test_many_versions_of_a_file_take_little_space(snapshots: Snapshots, tree: Path) -> None:
    lines = [f"line {number} {random.Random(number).random()}\n" for number in range(500)]
    texts = []
    for number in range(MAX_PACKS):
        lines[number] = f"changed {number}\n"
        texts.append("".join(lines))
        (tree / "text").write_text(texts[-1])
        take(snapshots, tree)
    assert is_due(snapshots.storage)
    done = await collect(GIT, snapshots.storage)
    assert done.packs == 1 and done.bytes_after < done.bytes_before / 5
    assert not is_due(snapshots.storage)
    for number, text in enumerate(texts, 1):  # read through deltas
        assert b"".join(snapshots.read(number, "text")) == text.encode()
    fsck(snapshots)
    again = await collect(GIT, snapshots.storage)
    assert (again.bytes_after, again.packs) == (done.bytes_after, 1)


async def test_objects_that_no_snapshot_needs_are_deleted_and_the_rest_stays(
    snapshots: Snapshots, tree: Path
) -> None:
    large = {number: os.urandom(100_000) for number in range(1, 5)}
    for content in large.values():
        (tree / "large").write_bytes(content)
        (tree / "small").write_bytes(content[:1000])
        take(snapshots, tree)
    snapshots.delete([1, 3])
    done = await collect(GIT, snapshots.storage)
    assert 200_000 < done.bytes_after < 250_000
    for number in (2, 4):
        assert b"".join(snapshots.read(number, "large")) == large[number]
        assert b"".join(snapshots.read(number, "small")) == large[number][:1000]
    fsck(snapshots)


async def test_content_that_returns_after_deletion_is_stored_again(snapshots: Snapshots, tree: Path) -> None:
    """An object that lies about unreachable must not be relied on: it is about to be collected."""
    contents = [os.urandom(100_000), b"small", os.urandom(100_000)]
    (tree / "large").write_bytes(contents[0])
    (tree / "small").write_bytes(contents[1])
    take(snapshots, tree)
    (tree / "large").write_bytes(contents[2])
    (tree / "small").write_bytes(b"else")
    take(snapshots, tree)
    snapshots.delete([1])
    collecting = asyncio.create_task(collect(GIT, snapshots.storage))
    await asyncio.sleep(0.01)
    (tree / "large").write_bytes(contents[0])
    (tree / "small").write_bytes(contents[1])
    taken = await asyncio.to_thread(take, snapshots, tree)
    await collecting
    assert b"".join(snapshots.read(taken.id, "large")) == contents[0]
    assert b"".join(snapshots.read(taken.id, "small")) == contents[1]
    fsck(snapshots)


async def test_all_may_be_deleted_and_the_next_is_whole(snapshots: Snapshots, tree: Path) -> None:
    """Unchanged files are not read again, but must still be stored."""
    (tree / "same").write_text("same")
    take(snapshots, tree)
    await asyncio.sleep(0.05)
    taken = take(snapshots, tree)
    snapshots.delete([taken.id])
    await collect(GIT, snapshots.storage)
    (tree / "new").write_text("new")
    taken = take(snapshots, tree)
    assert b"".join(snapshots.read(taken.id, "same")) == b"same"
    await collect(GIT, snapshots.storage)
    assert [each.id for each in snapshots.list()] == [2]
    fsck(snapshots)


async def test_snapshots_are_taken_and_deleted_while_it_works(snapshots: Snapshots, tree: Path) -> None:
    rng = random.Random(1)
    for _ in range(12):
        (tree / f"f{rng.randrange(5)}").write_bytes(rng.randbytes(rng.choice((10, 60_000))))
        take(snapshots, tree)
        collecting = asyncio.create_task(collect(GIT, snapshots.storage))
        while not collecting.done():
            (tree / f"f{rng.randrange(5)}").write_bytes(rng.choice((b"1", b"2", b"3" * 60_000)))
            await asyncio.to_thread(take, snapshots, tree)
            if rng.random() < 0.3:
                await asyncio.to_thread(snapshots.delete, [rng.choice(snapshots.list()).id])
        await collecting
        fsck(snapshots)
        with Directory.at(tree) as directory:
            fresh = Snapshots(tree.parent, limits=snapshots.limits)
            fresh.cache.path.unlink()
            assert fresh.take(Content(directory), "without a cache").tree == snapshots.list()[-1].tree


async def test_objects_of_the_base_are_not_packed_again(tmp_path: Path, tree: Path) -> None:
    lower = tmp_path / "base/tree"
    (lower / ".git").mkdir(parents=True)
    (lower / ".git/pack").write_bytes(os.urandom(5 << 20))  # stays where it is, in no git storage at all
    (lower / "file").write_bytes(os.urandom(100_000))
    base = index_base(lower, tmp_path / "base/index")
    (tmp_path / "place").mkdir()
    snapshots = Snapshots(tmp_path / "place", base=base)
    (tree / "more").write_text("more")
    with Directory.at(tree) as upper, Directory.at(lower) as whole:
        snapshots.take(Content(whole, upper), "first")
    done = await collect(GIT, snapshots.storage)
    assert done.bytes_after < 5000
    assert b"".join(snapshots.read(1, "file")) == (lower / "file").read_bytes()
    assert b"".join(snapshots.read(1, ".git/pack")) == (lower / ".git/pack").read_bytes()
    assert b"".join(snapshots.read(1, "more")) == b"more"
