"""Versions of single paths: read from snapshots, and written into a workspace.

A restore replaces everything; this replaces only the given paths. Like a restore, it changes
no file that differs from the last snapshot: such a file was changed at this moment.
"""

import hashlib
from collections.abc import Collection, Mapping
from dataclasses import field
from typing import Literal

from hutch.domain.errors import NotFound
from hutch.edit.file_operation_types import FileChange, WrittenFile
from hutch.snapshots.comparison import Difference
from hutch.snapshots.disk_entry_reader import KINDS
from hutch.snapshots.pack_writer import PackWriter
from hutch.snapshots.restore import RestoreRound
from hutch.snapshots.snapshot import Content, Snapshots
from hutch.snapshots.snapshot_tree_layout import (
    DEFAULT_DIRECTORY_MODE,
    EMPTY_BRANCH,
    FILES,
    Branch,
    Item,
    Leaf,
    read_items,
)
from hutch.system.lazy_dataclass import dataclass

MAX_HASHED = 1000  # changed files; more are not listed one by one


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A file or link of a snapshot."""

    mode: int
    blob: bytes
    is_ignored: bool = field(default=False, compare=False)  # outside of what git would commit


@dataclass(frozen=True, slots=True)
class EmptyDirectory:
    """A directory without entries. One with entries is no version: its files are."""

    permissions: int = field(default=DEFAULT_DIRECTORY_MODE, compare=False)


@dataclass(frozen=True, slots=True)
class NewFile:
    """A file that is in no snapshot yet."""

    mode: int
    data: bytes
    is_ignored: bool = field(default=False, compare=False)


@dataclass(frozen=True, slots=True, eq=False)
class NotStored:
    """A file that was found but not stored, so it equals no other. A pipe, socket or device has no content:
    it equals those of its kind."""

    reason: str

    @property
    def is_special(self) -> bool:
        return self.reason in KINDS.values()

    def __eq__(self, other: object) -> bool:
        return self is other or (
            isinstance(other, NotStored) and self.is_special and self.reason == other.reason
        )

    def __hash__(self) -> int:
        return hash(self.reason)


PathVersion = StoredFile | EmptyDirectory | NewFile | NotStored


class SnapshotVersions:
    """The versions of paths in one snapshot. Directories are read once. All methods block."""

    def __init__(self, snapshots: Snapshots, number: int) -> None:
        self._objects = snapshots.storage.objects
        self._top = snapshots.item(number, "")
        self._entries: dict[str, dict[str, Item]] = {}

    def item(self, path: str) -> Item | None:
        if not path:
            return self._top
        above, _, name = path.rpartition("/")
        return self.entries(above).get(name)

    def entries(self, path: str) -> dict[str, Item]:
        """The entries of a directory; none if it is not one."""
        if path not in self._entries:
            item = self.item(path)
            found = read_items(self._objects, item) if isinstance(item, Branch) else {}
            self._entries[path] = found
        return self._entries[path]

    def version(self, path: str) -> PathVersion | None:
        item = self.item(path)
        if isinstance(item, Leaf):
            return StoredFile(item.mode, item.name, item.section != FILES)
        if isinstance(item, Branch):
            return None if self.entries(path) else EmptyDirectory(item.permissions)
        return NotStored(item.reason) if item is not None else None

    def permissions(self, path: str) -> int:
        item = self.item(path)
        return item.permissions if isinstance(item, Branch) else DEFAULT_DIRECTORY_MODE


@dataclass(frozen=True, slots=True)
class PutResult:
    """The files that were changed, and the paths that another process was changing at the same time."""

    changes: tuple[FileChange, ...] = ()  # none if there are very many
    raced: tuple[str, ...] = ()
    written: Mapping[str, WrittenFile] = field(default_factory=dict)  # of these changes


def put_versions(
    snapshots: Snapshots,
    content: Content,
    number: int,
    versions: Mapping[str, PathVersion | None],
    *,
    directories: Mapping[str, int],
    emptied: Collection[str] = (),
) -> PutResult | None:
    """Give paths these versions; None removes a path. Snapshot `number` must be the newest, else nothing is
    done, and the result is None.

    `directories` has the permissions of directories that may have to be made. Those in `emptied` are
    removed if nothing is left in them.
    """
    with snapshots.storage.locked():  # also keeps the collection away from the new blobs
        newest = snapshots.storage.newest()
        if newest is None or newest.id != number:
            return None
        now = SnapshotVersions(snapshots, number)
        listed = _differences(now, _with_blobs(snapshots, versions), directories)
        work = RestoreRound(snapshots, content.tree)
        work.run_listed(listed, sorted(emptied, reverse=True))
        done = [each for each in listed if each.path in work.touched and not _is_directory(each)]
        changes = [_file_change(snapshots, each) for each in done] if len(done) <= MAX_HASHED else []
        written = {each.path: _written(each.new, versions.get(each.path)) for each in done} if changes else {}
    files = {path: file for path, file in written.items() if file is not None}
    return PutResult(tuple(changes), tuple(work.raced), files)


def _is_directory(each: Difference) -> bool:
    return not any(isinstance(item, Leaf) for item in (each.old, each.new))


def _written(item: Item | None, version: PathVersion | None) -> WrittenFile | None:
    match item, version:
        case Leaf(mode), NewFile(data=data):
            return WrittenFile(mode, data)
        case Leaf(mode, blob), _:
            return WrittenFile(mode, blob=blob)
    return None


def _file_change(snapshots: Snapshots, each: Difference) -> FileChange:
    before, after = (_hash(snapshots, item) for item in (each.old, each.new))
    is_new = not isinstance(each.old, Leaf)
    kind: Literal["created", "modified", "deleted"] = "created" if is_new else "modified"
    return FileChange(each.path, kind if isinstance(each.new, Leaf) else "deleted", before, after)


def _hash(snapshots: Snapshots, item: Item | None) -> str | None:
    """The SHA-256 of a file, or of the target of a link."""
    if not isinstance(item, Leaf):
        return None
    digest = hashlib.sha256()
    for chunk in snapshots.storage.objects.chunks(item.name):
        digest.update(chunk)
    return digest.hexdigest()


def _with_blobs(
    snapshots: Snapshots, versions: Mapping[str, PathVersion | None]
) -> dict[str, Leaf | Branch | None]:
    """The items to write; the content of new files is stored first."""
    writer = PackWriter(snapshots.storage.git_dir / "objects")
    found: dict[str, Leaf | Branch | None] = {}
    try:
        for path, version in versions.items():
            match version:
                case None:
                    found[path] = None
                case StoredFile(mode, blob):
                    found[path] = Leaf(mode, blob, FILES, -1)
                case NewFile(mode, data):
                    found[path] = Leaf(mode, writer.add("blob", data), FILES, len(data))
                case EmptyDirectory(permissions):
                    found[path] = EMPTY_BRANCH._replace(permissions=permissions)
                case NotStored(reason):
                    raise NotFound(f"'{path}' was not stored: {reason}.")
        writer.finish()
    finally:
        writer.abandon()
    return found


def _differences(
    now: SnapshotVersions, items: Mapping[str, Leaf | Branch | None], directories: Mapping[str, int]
) -> list[Difference]:
    """The changes to make, in an order that works: removals from the deepest, then the rest from the top."""
    removed = {path for path, item in items.items() if item is None}
    made = {path: item for path, item in items.items() if item is not None}
    above = {path for each in made for path in _parents(each)}
    for path in above - set(made):
        if not isinstance(now.item(path), Branch):
            permissions = directories.get(path, DEFAULT_DIRECTORY_MODE)
            made[path] = EMPTY_BRANCH._replace(permissions=permissions)
    found = [Difference(path, now.item(path), None) for path in sorted(removed, reverse=True)]
    found += [
        Difference(path, None if path in removed else now.item(path), made[path]) for path in sorted(made)
    ]
    return found


def _parents(path: str) -> list[str]:
    parts = path.split("/")
    return ["/".join(parts[:end]) for end in range(1, len(parts))]
