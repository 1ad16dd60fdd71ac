"""Stores the versions of files that a change is about to replace or remove.

A snapshot precedes each change, but a process may write after that snapshot has read a file. The log names
the version that was replaced, so it must be stored, and an undo must not take it back as the author's own.
"""

import hashlib
import os
import stat
from collections.abc import Sequence

from hutch.domain.errors import Conflict, NotFound
from hutch.edit.file_operation_types import Announcement, FileChange, WrittenFile
from hutch.snapshots.confined_directory import Directory
from hutch.snapshots.git_object_reader import object_name
from hutch.snapshots.path_version_restore import SnapshotVersions
from hutch.snapshots.snapshot import Snapshots
from hutch.snapshots.snapshot_tree_layout import Item, Leaf, OmittedEntry, stored_mode
from hutch.workspace.files.change_planning import MAX_FILE_BYTES, open_file
from hutch.workspace.files.change_steps import display_path
from hutch.workspace.link_resolution import resolve_links


def store_replaced(snapshots: Snapshots, tree: Directory, replaced: Sequence[tuple[str, str]]) -> None:
    """Store the files, given by path and hash, that differ from the newest snapshot. Blocks.

    Too large files are left out. Raises Conflict if a file has another hash by now.
    """
    newest = snapshots.storage.newest()
    if newest is None:
        return
    is_single = len(replaced) == 1  # then only its own entry is read of each directory
    versions = None if is_single else SnapshotVersions(snapshots, newest.id)
    changes, written, changed_ns = [], {}, {}
    for given, digest in replaced:
        above, slash, name = given.rpartition("/")
        path = f"{resolve_links(tree, above)}{slash}{name}".lstrip("/")
        item = versions.item(path) if versions else _find(snapshots, newest.id, path)
        found = None if isinstance(item, OmittedEntry) else _read(tree, path)
        if found is None:
            continue
        data, status = found
        if hashlib.sha256(data).hexdigest() != digest:
            raise Conflict(
                f"'{display_path(path)}' was changed by another process at this moment. Read it again and "
                "repeat the change."
            )
        now = (object_name("blob", data), stored_mode(status.st_mode))
        if not isinstance(item, Leaf) or (item.name, item.mode) != now:
            before = None if item is None else ""
            changes.append(FileChange(path, "modified" if item else "created", before, digest))
            written[path] = WrittenFile(status.st_mode, data)
            changed_ns[path] = status.st_ctime_ns
    if changes:
        reason = f"before {changes[0].path} was replaced"
        snapshots.take_versions(Announcement(changes, written), changed_ns, reason)


def _find(snapshots: Snapshots, number: int, path: str) -> Item | None:
    try:
        return snapshots.item(number, path)
    except NotFound:
        return None


def _read(tree: Directory, path: str) -> tuple[bytes, os.stat_result] | None:
    """A file and its status; None if it is not stored in this way."""
    try:
        status = tree.stat(path)
        if not stat.S_ISREG(status.st_mode) or status.st_size > MAX_FILE_BYTES:
            return None
        fd = open_file(tree, path)
    except NotFound:
        return None
    with os.fdopen(fd, "rb") as file:
        return file.read(MAX_FILE_BYTES), os.fstat(fd)
