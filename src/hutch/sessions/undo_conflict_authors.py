"""Finds whose changes an undo would meet: only the people whose work is in the way of each file.

Of several who have changed a file since, those are named whose change made the merge fail. To find them, the
undo is merged with each version of the file that followed.
"""

from collections.abc import Awaitable, Callable, Sequence

from hutch.domain.errors import NotFound
from hutch.domain.events import Entry, FileChanged
from hutch.sessions.changes_to_undo import UndoTarget
from hutch.sessions.undo_file_version_reader import Version, read_version
from hutch.sessions.undo_planning import Reason
from hutch.sessions.undo_target_versions import Reversals
from hutch.snapshots.path_version_restore import SnapshotVersions
from hutch.workspace.workspace import Workspace

MAX_MERGES = 40  # for one file; with more changes, all authors are named
Group = tuple[str, ...]  # an author, or several of whom one made a change; ids
# The number of conflicts of a path when (ours, base, theirs) are merged.
CountConflicts = Callable[[str, Version, Version, Version], Awaitable[int]]


class ConflictAuthors:
    """The authors for the conflicts of one undo."""

    def __init__(
        self,
        workspace: Workspace,
        entries: Sequence[Entry],
        target: UndoTarget,
        reversals: Reversals,
        *,
        clean: Callable[[str], str],
        count_conflicts: CountConflicts,
    ) -> None:
        self._workspace = workspace
        self._entries = entries
        self._target = target
        self._reversals = reversals
        self._clean = clean
        self._count_conflicts = count_conflicts
        self._counted: dict[tuple[Version, Version, Version], int] = {}

    async def find(self, path: str, reason: Reason) -> list[Group]:
        """The authors of the changes that are in the way; empty if they are not known."""
        if reason == "unclear":
            possible = self._reversals.authors.get(path, ())
            return _distinct([tuple(each for each in possible if each != self._target.author)])
        later = later_changes(self._entries, self._target, self._clean(path), around=reason == "blocked")
        if reason == "deleted_since":
            deletions = [each for each in later if each.kind == "deleted" or each.path != self._clean(path)]
            later = deletions[-1:] or later
        elif reason == "created_again":
            later = [each for each in later if each.kind in ("created", "moved")][-1:] or later
        elif reason == "overlap":
            later = await self._overlapping(path, later) or later
        return _distinct([(each.by,) if each.by else each.possible_authors for each in later])

    async def _overlapping(self, path: str, later: Sequence[FileChanged]) -> list[FileChanged]:
        """The changes after which the undo has more conflicts than before."""
        mine = [each.event for each in self._target.changes if isinstance(each.event, FileChanged)]
        mine = [each for each in mine if each.path == self._clean(path) and each.snapshot]
        if 2 * len(mine) * len(later) > MAX_MERGES:
            return []
        found = []
        for change in later:
            before = await self._version(change.previous_snapshot, path)
            after = await self._version(change.snapshot, path)
            if before is None or after is None:
                continue
            for each in mine:
                old = await self._version(each.previous_snapshot, path)
                new = await self._version(each.snapshot, path)
                is_later = change.previous_snapshot >= each.snapshot
                if is_later and old is not None and new is not None:
                    count = await self._count(path, after, new, old) - await self._count(
                        path, before, new, old
                    )
                    if count > 0:
                        found.append(change)
                        break
        return found

    async def _count(self, path: str, ours: Version, base: Version, theirs: Version) -> int:
        key = (ours, base, theirs)
        if key not in self._counted:
            self._counted[key] = await self._count_conflicts(path, *key)
        return self._counted[key]

    async def _version(self, number: int, path: str) -> Version | None:
        def read() -> Version | None:
            snapshots = self._workspace.snapshots
            return read_version(snapshots, SnapshotVersions(snapshots, number), path) if number else None

        try:
            return await self._workspace.work(read)
        except NotFound:  # the snapshot was deleted
            return None


def later_changes(
    entries: Sequence[Entry], target: UndoTarget, path: str, *, around: bool = False
) -> list[FileChanged]:
    """The changes by others to a file of the target since its first change; the path is as in the log.

    `around`: also changes of files above and below it.
    """
    mine = {each.seq for each in target.changes}
    since = [each.seq for each in target.changes if path in _paths(each.event)]
    first = min(since) if since else min(mine, default=0)
    found = []
    for entry in entries:
        event = entry.event
        if not isinstance(event, FileChanged) or entry.seq in mine or event.cause == "undo":
            continue
        is_near = around and any(f"{each}/".startswith(f"{path}/") for each in _paths(event))
        is_near |= around and any(f"{path}/".startswith(f"{each}/") for each in _paths(event))
        if entry.seq > first and (path in _paths(event) or is_near):
            found.append(event)
    return found


def _paths(event: object) -> list[str]:
    if not isinstance(event, FileChanged):
        return []
    return [event.path, *([event.moved_from] if event.moved_from else [])]


def _distinct(groups: Sequence[Group]) -> list[Group]:
    return list(dict.fromkeys(group for group in groups if group))
