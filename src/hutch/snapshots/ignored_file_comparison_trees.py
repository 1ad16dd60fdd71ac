"""Trees of the files that git ignores and that differ between two snapshots, so that git can compare them.

A snapshot stores them under other names (`snapshot_tree_layout.py`), beside what git would commit. Git's own
directories are left out.
"""

from collections.abc import Mapping
from pathlib import Path

from hutch.snapshots.comparison import differences
from hutch.snapshots.git_object_reader import TREE, format_tree
from hutch.snapshots.pack_writer import PackWriter
from hutch.snapshots.snapshot import Snapshots, make_borrowing_directory
from hutch.snapshots.snapshot_tree_layout import FILES, Item, Leaf, git_mode

MAX_FILES = 10_000
_Files = dict[str, Leaf]


def write_ignored_trees(snapshots: Snapshots, old: int, new: int, git_dir: Path) -> tuple[str, str, bool]:
    """Write two trees to a new git directory. Returns their names, and whether files are missing. Blocks."""
    storage = snapshots.storage
    first, second = (storage.top(snapshots.get(number)) for number in (old, new))
    before: _Files = {}
    after: _Files = {}
    is_cut = False
    for each in differences(storage.objects, first, second):
        sides = [item for item in (each.old, each.new) if isinstance(item, Leaf)]
        if not sides or any(item.section == FILES for item in sides) or ".git" in each.path.split("/"):
            continue
        if len(before) + len(after) >= MAX_FILES:
            is_cut = True
            break
        for files, item in ((before, each.old), (after, each.new)):
            if isinstance(item, Leaf):
                files[each.path] = item
    make_borrowing_directory(git_dir, storage)
    writer = PackWriter(git_dir / "objects")
    try:
        names = [_write(writer, files) for files in (before, after)]
        writer.finish()
    finally:
        writer.abandon()
    return names[0].hex(), names[1].hex(), is_cut


def _write(writer: PackWriter, files: Mapping[str, Item]) -> bytes:
    """Write the tree of these files, from the deepest directory to the top."""
    entries: dict[str, list[tuple[int, bytes, bytes]]] = {"": []}
    for path, item in files.items():
        directory, _, name = path.rpartition("/")
        while directory not in entries:
            entries[directory] = []
            directory = directory.rpartition("/")[0]
        if isinstance(item, Leaf):
            entries[path.rpartition("/")[0]].append((git_mode(item.mode), _raw(name), item.name))
    for directory in sorted(entries, key=lambda each: each.count("/") if each else -1, reverse=True):
        tree = writer.add("tree", format_tree(entries[directory]))
        if not directory:
            return tree
        above, _, name = directory.rpartition("/")
        entries[above].append((TREE, _raw(name), tree))
    raise AssertionError("the top is the last one")


def _raw(name: str) -> bytes:
    return name.encode(errors="surrogateescape")
