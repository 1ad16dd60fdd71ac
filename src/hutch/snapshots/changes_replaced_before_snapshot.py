"""Changes that another process has replaced before a snapshot could read them.

Their author knows what was changed. So a snapshot of its own is made of the newest one and these
changes, and precedes the snapshot of the files as they are. The log refers to both.
"""

import hashlib
import stat
from collections.abc import Callable, Iterable, Mapping
from functools import partial

from hutch.edit.file_operation_types import Announcement, FileChange
from hutch.snapshots.disk_entry_reader import EntryReader
from hutch.snapshots.git_object_reader import GitObjects, object_name
from hutch.snapshots.ignore_rules import GITIGNORE, MAX_GITIGNORE_BYTES
from hutch.snapshots.pack_writer import PackWriter
from hutch.snapshots.snapshot_section_choice import Base, Context
from hutch.snapshots.snapshot_tree_layout import (
    EMPTY_BRANCH,
    FILES,
    Branch,
    Item,
    Leaf,
    OmittedEntry,
    build_branch,
    read_items,
    stored_mode,
)
from hutch.system.lazy_dataclass import dataclass

FindItem = Callable[[str], Item | None]


@dataclass(slots=True)
class _Counts:
    """Differences to the newest snapshot."""

    files: int = 0
    bytes: int = 0
    omitted: int = 0


class LostChanges:
    """Finds the announced changes that a scan does not show, and adds them to the newest snapshot."""

    def __init__(self, objects: GitObjects, top: Branch, base: Base, announced: Announcement) -> None:
        """`top` is the top directory of the newest snapshot, with its counts."""
        self._objects = objects
        self._top = top
        self._base = base
        self._written = announced.written
        self._announced = _final_changes(announced)
        self._items: dict[str, dict[str, Item]] = {}  # of directories, by path
        self._counts = _Counts()

    def are_any(self, find_scanned: FindItem) -> bool:
        """True if the scan shows another file than the one that was announced, or none."""
        return any(self._is_lost(path, find_scanned(path)) for path in self._announced)

    def add_all(self, reader: EntryReader, writer: PackWriter) -> Branch:
        """The top directory with all announced changes, also those that the scan shows."""
        found = {path: self._item(path, change, reader) for path, change in self._announced.items()}
        changed: set[str] = set()
        for path, item in found.items():
            is_removed = self._announced[path] is None and self._find(path) is not None
            if item is not None or is_removed:
                self._put(path, item)
                changed.update(_parents(path))
        changed -= {path for path, item in found.items() if item is not None}  # a file replaced a directory
        for path in sorted(changed, key=lambda each: each.count("/"), reverse=True):
            self._put(path, self._build(path, writer))
        counts, top = self._counts, self._build("", writer)
        return top._replace(
            file_count=self._top.file_count + counts.files,
            size=self._top.size + counts.bytes,
            omitted=self._top.omitted + counts.omitted,
        )

    def _is_lost(self, path: str, scanned: Item | None) -> bool:
        change = self._announced[path]
        if change is None:  # a directory may have taken its place
            return isinstance(scanned, Leaf | OmittedEntry)
        if isinstance(scanned, OmittedEntry):  # it is too large, or may be: nothing is known about it
            return path in self._written
        return not isinstance(scanned, Leaf) or (scanned.name, scanned.mode) != self._expected(path, change)

    def _expected(self, path: str, change: FileChange) -> tuple[bytes, int]:
        """The blob and the mode that the change has left at a path."""
        if (written := self._written.get(path)) is not None:
            return written.blob or object_name("blob", written.data), stored_mode(written.mode)
        source = self._find(change.moved_from or path)
        return (source.name, source.mode) if isinstance(source, Leaf) else (b"", 0)

    def _item(self, path: str, change: FileChange | None, reader: EntryReader) -> Item | None:
        """The item of a changed path; None if it was removed, or its content is not known."""
        if change is None:
            return None
        if (written := self._written.get(path)) is not None:
            chunks: Callable[[], Iterable[bytes]] = (
                partial(self._objects.chunks, written.blob) if written.blob else lambda: (written.data,)
            )
            mode = stored_mode(written.mode)
            return reader.store(chunks, mode=mode, section=self._section(path, mode))
        source = self._find(change.moved_from or path)
        if not isinstance(source, Leaf) or self._hash(source) != change.after:
            return None  # it was changed before it was moved
        return source._replace(section=self._section(path, source.mode), size=self._size(source))

    def _section(self, path: str, mode: int) -> int:
        """The section of a file by the rules of the newest snapshot."""
        context = Context.top()
        for directory in ("", *_parents(path)):
            if directory:
                context, _ = context.below(directory, self._base)
            rules = self._entries(directory).get(GITIGNORE)
            if context.state != FILES or not isinstance(rules, Leaf) or not stat.S_ISREG(rules.mode):
                continue
            if self._size(rules) <= MAX_GITIGNORE_BYTES:
                context = context.inside(directory, self._objects.read(rules.name, "blob"), rules.name)
        return context.section_of(path, mode, self._base)

    def _find(self, path: str) -> Item | None:
        above, _, name = path.rpartition("/")
        return self._entries(above).get(name) if path else self._top

    def _entries(self, directory: str) -> dict[str, Item]:
        if directory not in self._items:
            found = self._find(directory)
            self._items[directory] = read_items(self._objects, found) if isinstance(found, Branch) else {}
        return self._items[directory]

    def _put(self, path: str, item: Item | None) -> None:
        above, _, name = path.rpartition("/")
        entries = self._entries(above)
        for each, sign in ((entries.pop(name, None), -1), (item, 1)):
            if isinstance(each, Leaf) and each.section == FILES:
                self._counts.files += sign
                self._counts.bytes += sign * (self._size(each) if each.size < 0 else each.size)
            self._counts.omitted += sign * isinstance(each, OmittedEntry)
        if item is not None:
            entries[name] = item

    def _build(self, path: str, writer: PackWriter) -> Branch:
        old = self._find(path)
        if not isinstance(old, Branch):
            old = EMPTY_BRANCH
        known = {tree for tree in old.trees if tree is not None}
        entries, permissions = self._entries(path), old.permissions
        return build_branch(entries, writer, permissions=permissions, link=old.link, known=known)

    def _size(self, leaf: Leaf) -> int:
        return sum(map(len, self._objects.chunks(leaf.name)))

    def _hash(self, leaf: Leaf) -> str:
        digest = hashlib.sha256()
        for chunk in self._objects.chunks(leaf.name):
            digest.update(chunk)
        return digest.hexdigest()


def _final_changes(announced: Announcement) -> Mapping[str, FileChange | None]:
    """The last change of each path; None if it was removed. Changes of whole directories are left out."""
    final: dict[str, FileChange | None] = {}
    for change in announced.changes:
        if change.before is None and change.after is None:
            continue
        if change.moved_from is not None:
            final[change.moved_from] = None
        final[change.path] = change if change.after is not None else None
    return final


def _parents(path: str) -> list[str]:
    parts = path.split("/")
    return ["/".join(parts[:end]) for end in range(1, len(parts))]
