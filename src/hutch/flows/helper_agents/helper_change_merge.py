"""Merges the changes of a helper into the files of its parent, all of them or none.

The base is the state that the helper began with. A file that the parent has not changed since gets the
helper's version; a text that both changed is merged line by line; what cannot be merged is a conflict.
"""

import posixpath
import stat
from collections.abc import Mapping, Sequence

from hutch.domain.errors import Conflict, LimitReached
from hutch.edit.text_merge import Labels, merge_texts
from hutch.snapshots.path_version_restore import (
    NewFile,
    PathVersion,
    PutResult,
    SnapshotVersions,
    put_versions,
)
from hutch.snapshots.snapshot import Snapshots
from hutch.snapshots.snapshot_tree_layout import Branch, Item, Leaf
from hutch.system.lazy_dataclass import dataclass
from hutch.workspace.workspace import Workspace, snapshot_content

MAX_BYTES = 128 << 20  # of all changed files: they are merged in memory
MAX_ROUNDS = 4


@dataclass(frozen=True, slots=True)
class FileContent:
    """The content of a file, or the target of a link, with its mode."""

    mode: int
    data: bytes


@dataclass(frozen=True, slots=True)
class HelperChange:
    """A file that a helper changed; None where there was or is no file."""

    path: str
    base: FileContent | None
    theirs: FileContent | None


@dataclass(frozen=True, slots=True)
class MergeResult:
    """The files that a merge changed or would change, and its conflicts with their reasons."""

    files: tuple[str, ...]
    conflicts: Mapping[str, str]


@dataclass(slots=True)
class _Plan:
    versions: dict[str, PathVersion | None]
    conflicts: dict[str, str]


async def read_changes(workspace: Workspace, first: int, last: int) -> list[HelperChange]:
    """The changes of a helper between two snapshots of its workspace, without files that git ignores."""
    paths: dict[str, None] = {}
    for change in await workspace.changes(first, last):
        paths |= {each: None for each in (change.old_path, change.path) if each}
    return await workspace.work(_read_pairs, workspace.snapshots, list(paths), first, last)


async def merge_changes(
    workspace: Workspace, changes: Sequence[HelperChange], name: str, *, marks_conflicts: bool
) -> MergeResult:
    """Merge changes into a workspace. If there are conflicts, nothing is changed, unless they are to be
    marked in the files."""
    for _ in range(MAX_ROUNDS):
        number = (await workspace.snapshot(f"before the changes of {name}")).id
        plan = await _plan(workspace, number, changes, name)
        unmarked = {path: why for path, why in plan.conflicts.items() if path not in plan.versions}
        if plan.conflicts and (unmarked or not marks_conflicts):
            return MergeResult((), plan.conflicts)
        put = await workspace.change_observed(_put, workspace, number, plan.versions)
        if put is not None:
            if put.raced:
                raise Conflict(f"Other programs write to {', '.join(put.raced[:5])}. Stop them, then merge.")
            return MergeResult(tuple(sorted(plan.versions)), plan.conflicts)
    raise Conflict("The files keep changing during the merge. Stop what writes to them first.")


async def _plan(workspace: Workspace, number: int, changes: Sequence[HelperChange], name: str) -> _Plan:
    plan = _Plan({}, {})
    deleted = {each.path for each in changes if each.theirs is None}
    for change in changes:
        ours, blocked = await workspace.work(_read_ours, workspace.snapshots, number, change.path, deleted)
        if blocked and change.theirs is not None:
            plan.conflicts[change.path] = blocked
        elif ours == change.base:
            plan.versions[change.path] = _version(change.theirs)
        elif ours != change.theirs:
            await _merge_texts(workspace, plan, change, ours, name)
    return plan


async def _merge_texts(
    workspace: Workspace, plan: _Plan, change: HelperChange, ours: FileContent | None, name: str
) -> None:
    base, theirs = change.base, change.theirs
    if ours is None or theirs is None:
        plan.conflicts[change.path] = "deleted here" if ours is None else f"deleted by {name}, changed here"
        return
    if not (stat.S_ISREG(ours.mode) and stat.S_ISREG(theirs.mode)):
        plan.conflicts[change.path] = "not a file on both sides"
        return
    labels = Labels("yours", "before", name)
    texts = {"ours": ours.data, "base": base.data if base else b"", "theirs": theirs.data}
    merged = await merge_texts(workspace.git, **texts, labels=labels)
    if merged is None:
        plan.conflicts[change.path] = "not a text that can be merged"
        return
    mode = theirs.mode if base is not None and ours.mode == base.mode else ours.mode
    plan.versions[change.path] = NewFile(mode, merged.data)
    if merged.conflicts:
        where = "place" if merged.conflicts == 1 else "places"
        plan.conflicts[change.path] = f"both changed the same lines, in {merged.conflicts} {where}"


def _version(content: FileContent | None) -> PathVersion | None:
    return None if content is None else NewFile(content.mode, content.data)


def _read_pairs(snapshots: Snapshots, paths: Sequence[str], first: int, last: int) -> list[HelperChange]:
    found, size = [], 0
    old, new = SnapshotVersions(snapshots, first), SnapshotVersions(snapshots, last)
    for path in paths:
        base, theirs = (_read(snapshots, versions.item(path)) for versions in (old, new))
        size += sum(len(each.data) for each in (base, theirs) if each)
        if size > MAX_BYTES:
            raise LimitReached(
                f"The changes are larger than {MAX_BYTES >> 20} MiB. Let the helper make fewer changes.",
                limit="helper_changes",
            )
        found.append(HelperChange(path, base, theirs))
    return found


def _read_ours(
    snapshots: Snapshots, number: int, path: str, deleted: set[str]
) -> tuple[FileContent | None, str]:
    """The file at a path, and why no file can be written there; empty if one can be."""
    now, above = SnapshotVersions(snapshots, number), posixpath.dirname(path)
    while above:
        if isinstance(now.item(above), Leaf) and above not in deleted:
            return None, f"'{above}' is a file here"
        above = posixpath.dirname(above)
    item = now.item(path)
    if item is not None and not isinstance(item, Leaf):
        return None, "a directory here" if isinstance(item, Branch) else "not a plain file here"
    return _read(snapshots, item), ""


def _read(snapshots: Snapshots, item: Item | None) -> FileContent | None:
    if not isinstance(item, Leaf):
        return None
    data = bytearray()
    for chunk in snapshots.storage.objects.chunks(item.name):
        data += chunk
        if len(data) > MAX_BYTES:
            raise LimitReached(f"A file is larger than {MAX_BYTES >> 20} MiB.", limit="helper_changes")
    return FileContent(item.mode, bytes(data))


def _put(workspace: Workspace, number: int, versions: Mapping[str, PathVersion | None]) -> PutResult | None:
    emptied = {
        posixpath.dirname(path) for path, version in versions.items() if version is None and "/" in path
    }
    new = [each.data for each in versions.values() if isinstance(each, NewFile)]
    workspace.quota.check_space(more_bytes=sum(map(len, new)), more_files=len(new))
    with workspace.files.exclusive():
        content = snapshot_content(workspace.mount)
        snapshots = workspace.snapshots
        return put_versions(snapshots, content, number, versions, directories={}, emptied=emptied)
