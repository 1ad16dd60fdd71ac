"""The index of a base, built once, so that no workspace on it has to read the files.

The index is stored beside the base: the listing of every directory, and the git
objects that the base's own `.git` does not have. An overlay's snapshots start from
it, and a copy of the base is adopted with it, without reading the files again.
"""

import json
import marshal
import mmap
import os
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

from hutch.domain.errors import Unavailable
from hutch.snapshots.confined_directory import Directory
from hutch.snapshots.disk_entry_reader import SnapshotLimits
from hutch.snapshots.git_object_reader import GITLINK, TREE, GitObjects
from hutch.snapshots.pack_writer import PackWriter
from hutch.snapshots.snapshot_section_choice import EmptyBase
from hutch.snapshots.snapshot_tree_layout import FILES, PRIVATE, Branch, Leaf
from hutch.snapshots.stat_cache import (
    MAGIC,
    MARSHAL,
    Listing,
    decode_listing,
    encode_frame,
    encode_listing,
    read_frame,
)
from hutch.snapshots.workspace_scan import Scan

LISTINGS, OFFSETS, ABOUT = "listings", "offsets", "about.json"
UNLIMITED = SnapshotLimits(
    entries=10_000_000,
    path_bytes=1 << 30,
    file_bytes=1 << 50,
    new_bytes=1 << 50,
    ignored_file_bytes=1 << 50,
    ignored_bytes=1 << 50,
)


class BaseIndex:
    """The index of a base, read on demand."""

    def __init__(self, place: Path, tree: Path) -> None:
        self.path = place
        self.objects = place / "objects"
        try:
            self._offsets: dict[str, int] = marshal.loads((place / OFFSETS).read_bytes())
            about = json.loads((place / ABOUT).read_text())
            with (place / LISTINGS).open("rb") as file:
                self._data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except (OSError, ValueError, EOFError, TypeError) as error:
            raise Unavailable(
                f"The index {place} of a base cannot be read: {error}. Remove the base."
            ) from None
        self.links: Mapping[str, bytes] = {path: bytes.fromhex(name) for path, name in about["links"].items()}
        self.elsewhere = {bytes.fromhex(name): tree / path for name, path in about["elsewhere"].items()}
        self.listing = lru_cache(maxsize=256)(self._listing)

    @property
    def top(self) -> Branch:
        listing = self.listing("")
        assert listing is not None
        return listing.branch

    def tracks(self, path: str, name: str) -> bool:
        listing = self.listing(path)
        item = listing.items.get(name) if listing else None
        return isinstance(item, Leaf) and item.section == FILES

    def _listing(self, path: str) -> Listing | None:
        offset = self._offsets.get(path)
        if offset is None:
            return None
        value, _ = read_frame(self._data, offset)
        return decode_listing(value)


def index_base(tree: Path, into: Path, *, commit_tree: str | None = None) -> BaseIndex:
    """Index the base that is checked out at `tree`; `into` is a new directory beside it.

    `commit_tree` is the tree of the checked-out commit in the base's own `.git`: its files count as
    tracked even if a rule ignores them, and its submodules stay submodules.
    """
    objects = into / "objects"
    (objects / "pack").mkdir(parents=True)
    own = tree / ".git/objects"
    borrowed: GitObjects | None = None
    if commit_tree is not None:
        (objects / "info").mkdir()
        (objects / "info/alternates").write_text(f"{os.path.relpath(own, objects)}\n")
        borrowed = GitObjects(own)
    committed = _Committed(borrowed, bytes.fromhex(commit_tree)) if borrowed and commit_tree else EmptyBase()
    writer = PackWriter(objects, stored=borrowed or frozenset(), refer=True)
    try:
        with Directory.at(tree) as directory:
            scan = Scan(
                directory,
                writer,
                GitObjects(objects),
                listings={},
                base=committed,
                limits=UNLIMITED,
                texts={},
                adopting=True,
                skipped={},
            )
            found = scan.run()
        writer.finish()
    finally:
        writer.abandon()
    listings = {path: listing for path, listing in found.changed.items() if listing}
    elsewhere = {
        item.name.hex(): f"{path}/{name}" if path else name
        for path, listing in listings.items()
        for name, item in listing.items.items()
        if isinstance(item, Leaf) and item.section == PRIVATE and item.size >= UNLIMITED.large_bytes
    }
    offsets = {}
    with (into / LISTINGS).open("wb") as file:
        file.write(MAGIC)
        for path, listing in listings.items():
            offsets[path] = file.tell()
            file.write(encode_frame(encode_listing(listing)))
    (into / OFFSETS).write_bytes(marshal.dumps(offsets, MARSHAL))
    links = {path: name.hex() for path, name in committed.links.items()}
    (into / ABOUT).write_text(json.dumps({"links": links, "elsewhere": elsewhere}))
    return BaseIndex(into, tree)


class _Committed(EmptyBase):
    """The commit that a base was checked out from."""

    def __init__(self, objects: GitObjects, tree: bytes) -> None:
        self.objects = objects
        self.links = {}
        self._trees: dict[str, dict[str, tuple[int, bytes]]] = {}
        waiting = [("", tree)]
        while waiting:
            path, name = waiting.pop()
            entries = {os.fsdecode(raw): (mode, entry) for mode, raw, entry in objects.tree(name)}
            self._trees[path] = entries
            for text, (mode, entry) in entries.items():
                below = f"{path}/{text}" if path else text
                if mode == TREE:
                    waiting.append((below, entry))
                elif mode == GITLINK:
                    self.links[below] = entry

    def tracks(self, path: str, name: str) -> bool:
        return name in self._trees.get(path, {})
