"""Reads a file from a snapshot by its path in the log.

The log shows bytes of a name that are not UTF-8 as U+FFFD, so several files may have the same path there.
The hash in the log says which of them is meant.
"""

import hashlib

from hutch.domain.lone_surrogate_replacement import replace_surrogates
from hutch.snapshots.snapshot import Snapshots
from hutch.snapshots.snapshot_tree_layout import Branch, Item, Leaf, read_items
from hutch.workspace.files.partial_read import Bytes
from hutch.workspace.workspace import Workspace

REPLACEMENT = "\ufffd"


async def read_recorded(
    workspace: Workspace, number: int, path: str, start: int, length: int, sha256: str | None
) -> Bytes:
    """Bytes of a file as it is in a snapshot, with its path there."""
    if REPLACEMENT in path:
        path = await workspace.work(_find_path, workspace.snapshots, number, path, sha256)
    return await workspace.read_snapshot(number, path, start, length)


def _find_path(snapshots: Snapshots, number: int, path: str, sha256: str | None) -> str:
    """The path in the snapshot; the same one if no file there is shown in this way. Blocks."""
    found: dict[str, Item] = {"": snapshots.storage.top(snapshots.get(number))}
    for name in path.split("/"):
        found = {
            f"{above}/{each}" if above else each: item
            for above, branch in found.items()
            if isinstance(branch, Branch)
            for each, item in read_items(snapshots.storage.objects, branch).items()
            if replace_surrogates(each) == name
        }
    same = (each for each, item in found.items() if isinstance(item, Leaf))
    if len(found) > 1:
        same = (each for each in same if _hash(snapshots, number, each) == sha256)
    return next(same, path)


def _hash(snapshots: Snapshots, number: int, path: str) -> str:
    digest = hashlib.sha256()
    for chunk in snapshots.read(number, path):
        digest.update(chunk)
    return digest.hexdigest()
