"""From a name in a directory to something that a snapshot can hold."""

import os
import stat
import threading
from pathlib import Path

import pytest

from hutch.snapshots.disk_entry_reader import EntryReader, SnapshotLimits
from hutch.snapshots.disk_walk import stat_key
from hutch.snapshots.git_object_reader import GitObjects, object_name
from hutch.snapshots.pack_writer import PackWriter
from hutch.snapshots.snapshot_tree_layout import FILES, IGNORED, Leaf, OmittedEntry


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    place = tmp_path / "tree"
    place.mkdir()
    (tmp_path / "objects/pack").mkdir(parents=True)
    return place


def reader(tree: Path, limits: SnapshotLimits | None = None, attributes: str | None = None) -> EntryReader:
    writer = PackWriter(tree.parent / "objects")
    return EntryReader(writer, limits or SnapshotLimits(), ignored_bytes=0, attributes=attributes)


def read(tree: Path, name: str, by: EntryReader, *, place: int = FILES, before=None):
    fd = os.open(tree, os.O_RDONLY)
    try:
        found = os.stat(name, dir_fd=fd, follow_symlinks=False)
        return by.read_entry(fd, name, found, section=place, before=before, known=frozenset())
    finally:
        os.close(fd)


def test_files_links_and_the_rest(tree: Path) -> None:
    (tree / "file").write_bytes(b"content")
    (tree / "file").chmod(0o6755)
    (tree / "link").symlink_to("/anywhere")
    os.mkfifo(tree / "pipe")
    by = reader(tree)
    file, key = read(tree, "file", by)
    assert file == Leaf(stat.S_IFREG | 0o755, object_name("blob", b"content"), FILES, 7)
    assert key == stat_key((tree / "file").stat())
    link, key = read(tree, "link", by)
    assert link == Leaf(stat.S_IFLNK | 0o777, object_name("blob", b"/anywhere"), FILES, 9)
    assert key == stat_key((tree / "link").lstat())
    assert read(tree, "pipe", by) == (OmittedEntry("fifo", 0), None)
    by.writer.abandon()


def test_devices_are_noted_and_hide_names_only_in_an_overlay(tree: Path) -> None:
    os.mknod(tree / "gone", stat.S_IFCHR, os.makedev(0, 0))
    by = reader(tree)
    assert read(tree, "gone", by) == (OmittedEntry("device", 0), None)
    by = reader(tree, attributes="user.overlay.")
    assert read(tree, "gone", by) == (None, stat_key((tree / "gone").stat()))
    (tree / "marked").touch()
    os.setxattr(tree / "marked", "user.overlay.whiteout", b"y")
    assert read(tree, "marked", by) == (None, stat_key((tree / "marked").stat()))
    by = reader(tree, attributes="trusted.overlay.")  # what a user can write says nothing there
    item, _ = read(tree, "marked", by)
    assert isinstance(item, Leaf)
    by.writer.abandon()


def test_space_for_ignored_files_is_counted(tree: Path) -> None:
    by = reader(tree, SnapshotLimits(ignored_bytes=100, ignored_file_bytes=60))
    (tree / "a").write_bytes(b"a" * 60)
    (tree / "b").write_bytes(b"b" * 50)
    first, _ = read(tree, "a", by, place=IGNORED)
    assert isinstance(first, Leaf)
    second, _ = read(tree, "b", by, place=IGNORED)
    assert second == OmittedEntry("ignored, and over the limit for all ignored files", 50)
    (tree / "a").write_bytes(b"a" * 50)
    again, _ = read(tree, "a", by, place=IGNORED, before=first)
    assert isinstance(again, Leaf)
    second, _ = read(tree, "b", by, place=IGNORED)
    assert isinstance(second, Leaf)
    (tree / "c").write_bytes(b"c" * 61)
    third, _ = read(tree, "c", by, place=IGNORED)
    assert third == OmittedEntry("ignored, and larger than an ignored file may be", 61)
    by.writer.abandon()


@pytest.mark.parametrize("large_bytes", [1 << 30, 10], ids=["small", "large"])
def test_a_file_that_always_changes_is_stored_as_it_was_read(tree: Path, large_bytes: int) -> None:
    """Stored content is named by its own hash, and a file that changed while it was read has no key."""
    stop = threading.Event()
    path = tree / "file"
    path.write_bytes(b"x" * 50_000)

    def write() -> None:
        number = 0
        while not stop.is_set():
            number += 1
            with path.open("r+b") as file:
                file.write(b"%06d" % number * 8000)
                file.truncate(40_000 + number % 10_000)

    thread = threading.Thread(target=write)
    thread.start()
    by = reader(tree, SnapshotLimits(large_bytes=large_bytes))
    try:
        leaves = [read(tree, "file", by)[0] for _ in range(100)]
    finally:
        stop.set()
        thread.join()
    by.writer.finish()
    objects = GitObjects(tree.parent / "objects")
    for leaf in leaves:
        if isinstance(leaf, Leaf):
            data = b"".join(objects.chunks(leaf.name))
            assert (len(data), object_name("blob", data)) == (leaf.size, leaf.name)
        else:
            assert leaf == OmittedEntry("changes too fast", leaf.size)
    assert sum(isinstance(leaf, Leaf) for leaf in leaves) > 10
