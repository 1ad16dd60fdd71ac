"""Finds the changes of others that an undo of a run would remove.

An undo restores the files from before the run. Changes after the run's last snapshot are the work
of others. So are files that users wrote through the API while it ran, and files that their commands
may have changed in the meantime. An undo names these files before it removes any.
"""

from collections.abc import Sequence

from hutch.domain.errors import NotFound, WorkWouldBeLost
from hutch.domain.events import Entry, FileChanged, RunEnded, RunStarted, SnapshotTaken
from hutch.domain.surrogates import replace_surrogates
from hutch.sessions.peoples_commands import spans
from hutch.sessions.rewind import before_last_run, effective_entries
from hutch.snapshots.comparison import differences
from hutch.snapshots.snapshot import Snapshots
from hutch.snapshots.tree_layout import Item, Leaf
from hutch.workspace.workspace import Workspace

REFS = (".git/HEAD", ".git/packed-refs", ".git/refs")
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
    others = {path for path in changed if replace_surrogates(path) in written}
    for old, new in ((ended_with, now), *spans(counted, run_id, before, now)):
        try:
            others |= await _changed(workspace, old, new)
        except NotFound:  # that snapshot was dropped: the author of these changes is unknown
            return sorted(changed)
    return sorted(changed & others)


async def _changed(workspace: Workspace, old: int, new: int) -> set[str]:
    """The files, and the branches, tags and stashes of the repository, that differ between two snapshots."""
    files = {each.path for each in await workspace.changes(old, new)}
    return files | await workspace.work(_changed_refs, workspace.snapshots, old, new)


def _changed_refs(snapshots: Snapshots, old: int, new: int) -> set[str]:
    found: set[str] = set()
    for path in REFS:
        before, after = (_entry(snapshots, number, path) for number in (old, new))
        found |= {
            each.path
            for each in differences(snapshots.storage.objects, before, after, path)
            if isinstance(each.old or each.new, Leaf)
        }
    return found


def _entry(snapshots: Snapshots, number: int, path: str) -> Item | None:
    try:
        return snapshots.item(number, path)
    except NotFound:
        return None


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
            case FileChanged(path=path, by=by, moved_from=moved_from) if by and entry.seq > to_seq:
                written |= {path, moved_from or path}
    return last, written
