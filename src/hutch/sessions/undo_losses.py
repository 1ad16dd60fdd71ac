"""Finds the changes of others that an undo of a run would remove.

An undo restores the files from before the run. Changes after the run's last snapshot are the work
of others. So are files that users wrote through the API while it ran, and files that their commands
may have changed in the meantime. An undo names these files before it removes any.
"""

from collections.abc import Sequence
from collections.abc import Set as AbstractSet

from hutch.domain.author import AGENT
from hutch.domain.errors import NotFound, WorkWouldBeLost
from hutch.domain.events import Entry, FileChanged, RunEnded, RunStarted, SnapshotTaken
from hutch.domain.surrogates import replace_surrogates
from hutch.sessions.rewind_point import before_last_run, effective_entries
from hutch.sessions.user_command_changes import spans
from hutch.snapshots.comparison import Difference, differences
from hutch.snapshots.git_object_reader import GitObjects
from hutch.snapshots.snapshot import Snapshots
from hutch.snapshots.tree_layout import FILES, Branch, Leaf, read_items
from hutch.workspace.workspace import Workspace

# Parts of a git directory that people create. The rest is bookkeeping, which any `git status` may change.
GIT_WORK = frozenset({"HEAD", "packed-refs", "refs", "config", "hooks", "info"})
GIT_BOOKKEEPING = frozenset({"objects", "logs"})
CACHES = frozenset(
    {"__pycache__", ".pytest_cache", ".mypy_cache", ".ruff_cache"}
)  # their tools create them again
LAST_SNAPSHOTS = ("after the run", "when the agent was done")  # may be recorded after run.ended
MAX_LISTED = 100
MAX_NAMED = 10  # in a sentence


async def lost_by_undo(entries: Sequence[Entry], workspace: Workspace) -> list[str]:
    """The files that would lose changes that the last run did not make."""
    found = before_last_run(entries)
    if found is None or not found[1]:
        return []
    to_seq, before, run_id = found
    counted = effective_entries(entries)
    ended_with, written = _of_run(counted, run_id, to_seq, before)
    now = (await workspace.snapshot("before undo")).id
    changed = await _changed(workspace, before, now)
    others = {path for path in changed if _is_written(replace_surrogates(path), written)}
    for old, new in ((ended_with, now), *spans(counted, run_id, before, now)):
        try:
            others |= await _changed(workspace, old, new)
        except NotFound:  # that snapshot was dropped: the author of these changes is unknown
            return sorted(changed)
    return sorted(changed & others)


def _is_written(path: str, written: AbstractSet[str]) -> bool:
    """Whether users wrote this file, or moved or removed a directory above it."""
    parts = path.split("/")
    return path in written or any("/".join(parts[:end]) + "/" in written for end in range(1, len(parts)))


async def _changed(workspace: Workspace, old: int, new: int) -> set[str]:
    """The paths that differ between two snapshots and may be the work of users.

    Includes ignored files and new empty directories, because an undo removes them, and the parts of git
    directories that people create.
    """
    return await workspace.work(_differing, workspace.snapshots, old, new)


def _differing(snapshots: Snapshots, old: int, new: int) -> set[str]:
    objects = snapshots.storage.objects
    before, after = (snapshots.item(number, "") for number in (old, new))
    return {each.path for each in differences(objects, before, after) if _may_be_work(objects, each)}


def _may_be_work(objects: GitObjects, difference: Difference) -> bool:
    old, new = difference.old, difference.new
    parts = difference.path.split("/")
    if ".git" in parts[:-1]:
        inside = frozenset(parts[parts.index(".git") + 1 :])
        if not inside & GIT_WORK or inside & GIT_BOOKKEEPING:
            return False
    leaves = [each for each in (old, new) if isinstance(each, Leaf)]
    if leaves:
        return not (CACHES.intersection(parts[:-1]) and all(each.section != FILES for each in leaves))
    return isinstance(new, Branch) and not isinstance(old, Branch) and not read_items(objects, new)


def would_lose(paths: Sequence[str]) -> WorkWouldBeLost:
    """The refusal of an undo, which names the files."""
    shown = [replace_surrogates(path) for path in paths[:MAX_LISTED]]
    more = f" and {len(paths) - MAX_NAMED} more" if len(paths) > MAX_NAMED else ""
    named = ", ".join(shown[:MAX_NAMED])
    return WorkWouldBeLost(
        "An undo of the last run would remove changes that others made, or that commands may have made while "
        f"it worked, in {named}{more}. "
        "Nothing was undone. Save a copy of these files, or undo anyway with `discard` "
        "(hutch undo --discard-others).",
        paths=tuple(shown),
    )


def _of_run(entries: Sequence[Entry], run_id: str, to_seq: int, before: int) -> tuple[int, set[str]]:
    """The last snapshot of a run, and the files that users wrote through the API while it ran."""
    last, inside, written = before, False, set[str]()
    for entry in entries:
        match entry.event:
            case RunStarted(run_id=id) if id == run_id:
                inside = True
            case RunEnded(run_id=id) if id == run_id:
                inside = False
            case SnapshotTaken(snapshot=number, reason=reason) if entry.seq > to_seq:
                if inside or reason in LAST_SNAPSHOTS:
                    last = max(last, number)
            case FileChanged(path=path, kind=kind, by=by, moved_from=source) if (
                by not in ("", AGENT) and entry.seq > to_seq
            ):
                written |= {path, source or path}
                if kind in ("moved", "deleted"):  # for many files, the event names only the directory
                    written |= {f"{path}/", f"{source or path}/"}
    return last, written
