"""Packs of our own, as git sees them."""

import io
import os
from pathlib import Path

import pytest

from hutch.snapshots.git_object_reader import GitObjects
from hutch.snapshots.pack_writer import FileShrunk, PackWriter
from tests.snapshots.random_trees import git
from tests.workspace.full_disk import files_no_longer_than


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    git("init", "-q", "--bare", ".", cwd=tmp_path)
    return tmp_path


def files(repository: Path) -> list[str]:
    return sorted(path.suffix or path.name[:4] for path in (repository / "objects/pack").iterdir())


def test_git_reads_the_written_packs(repository: Path) -> None:
    writer = PackWriter(repository / "objects")
    contents = [b"", b"x", b"text\n" * 1000, os.urandom(100_000), *(os.urandom(size) for size in range(300))]
    names = [writer.add("blob", content) for content in contents]
    assert files(repository) == ["tmp_"]
    writer.finish()
    assert files(repository) == [".idx", ".pack"]
    for path in (repository / "objects/pack").glob("*.idx"):
        git("verify-pack", str(path), cwd=repository)
    sizes = [int(git("cat-file", "-s", name.hex(), cwd=repository)) for name in names[:10]]
    assert sizes == [len(content) for content in contents[:10]]
    assert [GitObjects(repository / "objects").read(name, "blob") for name in names] == contents
    git("fsck", "--full", "--strict", cwd=repository)


def test_a_large_blob_is_a_pack_of_its_own_and_known_ones_are_not_written(repository: Path) -> None:
    writer = PackWriter(repository / "objects")
    content = os.urandom(1_000_000)
    place = iter([content[at : at + 70_000] for at in range(0, len(content), 70_000)])
    name = writer.add_large(lambda count: next(place), len(content))
    assert files(repository) == [".idx", ".keep", ".pack"]
    assert b"".join(GitObjects(repository / "objects").chunks(name)) == content
    with (repository / "content").open("w+b") as file:
        file.write(content)
        for _ in range(2):
            file.seek(0)
            assert writer.add_large(file.read, len(content), known={name}) == name
    assert files(repository) == [".idx", ".keep", ".pack"]
    writer.finish()
    git("fsck", "--full", "--strict", cwd=repository)


def test_known_or_stored_objects_are_not_written(repository: Path) -> None:
    first = PackWriter(repository / "objects")
    name = first.add("blob", b"content")
    first.abandon()
    assert files(repository) == []
    second = PackWriter(repository / "objects", stored={name})
    assert second.add("blob", b"content") == name
    assert second.add("blob", b"content", known={name}) == name
    second.finish()
    assert files(repository) == []


def test_a_file_that_ends_too_early_leaves_nothing(repository: Path) -> None:
    writer = PackWriter(repository / "objects")
    with (repository / "short").open("w+b") as file:
        file.write(b"x" * 1000)
        file.seek(0)
        with pytest.raises(FileShrunk):
            writer.add_large(file.read, 2000)
    writer.abandon()
    assert files(repository) == []


@pytest.mark.parametrize("size", [0, 20, 1500, 5000, 5030], ids=lambda size: f"{size} bytes")
def test_a_full_disk_leaves_nothing(repository: Path, size: int) -> None:
    with files_no_longer_than(size):
        writer = PackWriter(repository / "objects")
        with pytest.raises(OSError, match="too large"):
            writer.add_large(io.BytesIO(os.urandom(100_000)).read, 100_000)
        with pytest.raises(OSError, match="too large"):
            writer.add("blob", os.urandom(5000))
            writer.finish()
        writer.abandon()
        other = PackWriter(repository / "objects")
        other.add("blob", os.urandom(5000))
        other.abandon()
    assert files(repository) == []


def test_git_reads_the_index_of_a_pack_with_many_objects(repository: Path) -> None:
    """The index is written in parts, by the first byte of a name."""
    writer = PackWriter(repository / "objects")
    names = [writer.add("blob", b"%d\n" % number) for number in range(20_000)]
    writer.finish()
    [index] = (repository / "objects/pack").glob("*.idx")
    listed = git("verify-pack", "-v", str(index), cwd=repository).splitlines()
    assert {line.split()[0] for line in listed if " blob " in line} == {name.hex() for name in names}
    assert GitObjects(repository / "objects").read(names[-1], "blob") == b"19999\n"
