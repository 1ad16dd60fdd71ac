"""Undo and redo in a live session: takes back changes of files, and keeps those of others.

Everything is written from one snapshot. If another process changes a file at that moment, the file
is planned again. An undo that was interrupted is repeated; files that it had changed already stay.
"""

import stat
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import field
from typing import Any

from hutch.domain.errors import Conflict
from hutch.domain.events import Entry, FileChanged, FilesChanged
from hutch.edit.text_merge import MAX_MERGE_BYTES, Labels, merge_texts
from hutch.sessions.changes_to_undo import UndoTarget
from hutch.sessions.undo_conflict_authors import ConflictAuthors
from hutch.sessions.undo_file_version_reader import StagedFiles, Version, current_versions, is_work
from hutch.sessions.undo_moved_files import follow, moved_paths
from hutch.sessions.undo_occupied_paths import check_places
from hutch.sessions.undo_planning import Merged, Mode, PlannedFile, Reason, UndoPlan, plan_undo
from hutch.sessions.undo_refusal import MAX_LISTED, MAX_NAMED, refuse_undo
from hutch.sessions.undo_target_versions import Reversals, read_reversals
from hutch.snapshots.path_version_restore import (
    NewFile,
    PathVersion,
    PutResult,
    SnapshotVersions,
    StoredFile,
    put_versions,
)
from hutch.system.lazy_dataclass import dataclass
from hutch.workspace.files.file_reads_and_changes import CheckPath
from hutch.workspace.workspace import Workspace, snapshot_content

MAX_ROUNDS = 4
MAX_MERGE_S = 60.0  # for all files; what takes longer counts as a conflict
Clean = Callable[[str], str]  # gives a path as the log has it


@dataclass(frozen=True, slots=True)
class UndoResult:
    """The effect of an undo on the files."""

    before: int  # snapshots
    after: int
    files: tuple[str, ...] = ()  # changed
    merged: tuple[str, ...] = ()  # with later changes by others
    marked: tuple[str, ...] = ()  # with conflict markers
    kept: Mapping[str, Reason] = field(default_factory=dict)  # left as they were, and why
    discarded: tuple[str, ...] = ()  # without later changes by others

    def fields(self, clean: Clean) -> dict[str, Any]:
        """The fields of an event about it."""
        names = ("files", "merged", "marked", "kept", "discarded")
        lists = {name: tuple(map(clean, list(getattr(self, name))[:MAX_LISTED])) for name in names}
        counts = {"files_count": len(self.files), "discarded_count": len(self.discarded)}
        reasons = {clean(path): reason for path, reason in list(self.kept.items())[:MAX_LISTED]}
        return {"before": self.before, "after": self.after, "reasons": reasons, **lists, **counts}


class FileUndo:
    """Takes back the changes of a target in a workspace."""

    def __init__(
        self,
        workspace: Workspace,
        target: UndoTarget,
        entries: Sequence[Entry],
        *,
        clean: Clean,
        names: Mapping[str, str],
        check: CheckPath | None = None,
    ) -> None:
        self._workspace = workspace
        self._target = target
        self._entries = entries
        self._clean = clean
        self._names = names  # of users, by id
        self._check_path = check  # raises for files that the user may not change
        self._reversals = Reversals()
        self._moved: Mapping[tuple[str, int], str] = {}  # files that others have moved since
        self._merge_until = 0.0
        self._planned: tuple[int, UndoPlan[Version]] | None = None  # the last plan, and its snapshot

    async def prepare(self) -> None:
        """Read the versions of all changes."""
        events = [each.event for each in self._entries]
        recorded = [event for event in events if isinstance(event, FileChanged | FilesChanged)]
        self._reversals = await self._workspace.work(
            read_reversals, self._workspace.snapshots, self._target, recorded, self._clean
        )
        mine = {each.seq for each in self._target.changes}
        self._moved = moved_paths(self._reversals.changes, self._entries, mine, self._clean)

    async def check(self, number: int) -> UndoPlan[Version]:
        """Plan the undo of the files as in a snapshot; refuse if that meets changes by others."""
        plan = await self._plan(number)
        if plan.conflicts:
            finder = ConflictAuthors(
                self._workspace,
                self._entries,
                self._target,
                self._reversals,
                clean=self._clean,
                count_conflicts=self._count_conflicts,
            )
            named = list(plan.conflicts.items())[:MAX_NAMED]
            authors = {path: await finder.find(path, reason) for path, reason in named}
            title, names = self._target.title, self._names
            raise refuse_undo(title, plan.conflicts, authors, names=names, clean=self._clean)
        return plan

    async def check_paths(self, number: int) -> None:
        """Refuse if the user may not change the files of the plan."""
        plan = await self._plan(number)
        touched = [path for path, file in plan.files.items() if file.conflict or file.version != file.current]
        await self._workspace.work(self._refuse_paths, touched)

    def _refuse_paths(self, paths: Iterable[str]) -> None:
        if (check := self._check_path) is not None:
            for path in paths:
                check(path)

    async def perform(self, number: int, mode: Mode) -> UndoResult:
        """Write the files, which are as in snapshot `number`."""
        plan = await self.check(number) if mode == "refuse" else await self._plan(number)
        files: dict[str, PlannedFile[Version]] = {}  # written
        pending, after = plan, number
        for left in reversed(range(MAX_ROUNDS)):
            writes = pending.writes(mode)
            put = await self._put(after, writes) if writes else PutResult()
            files |= {path: pending.files[path] for path in writes if put and path not in put.raced}
            if put is not None and not put.raced:
                break
            if not left:
                raise Conflict("Files keep changing while they are undone. Stop what writes to them first.")
            after = (await self._workspace.snapshot("during an undo")).id
            again = await self._plan(after)
            unwritten = {path: each for path, each in again.files.items() if path not in files}
            pending = UndoPlan(unwritten)
            plan.files |= unwritten
        if files:
            after = (await self._workspace.snapshot("after an undo")).id
        conflicts = plan.conflicts
        return UndoResult(
            before=number,
            after=after,
            files=tuple(sorted(files)),
            merged=tuple(path for path in plan.merged if path in files),
            marked=tuple(path for path in conflicts if path in files and files[path].is_marked_by(mode)),
            kept={path: reason for path, reason in conflicts.items() if path not in files},
            discarded=tuple(path for path in conflicts if path in files and mode == "discard"),
        )

    async def _plan(self, number: int) -> UndoPlan[Version]:
        if self._planned is None or self._planned[0] != number:
            self._planned = (number, await self._make_plan(number))
        return self._planned[1]

    async def _make_plan(self, number: int) -> UndoPlan[Version]:
        paths = {each.path for each in self._reversals.changes}
        paths |= {each.moved_from for each in self._reversals.changes if each.moved_from is not None}
        paths.update(self._moved.values())
        work, snapshots = self._workspace.work, self._workspace.snapshots
        current = await work(current_versions, snapshots, number, sorted(paths))
        self._merge_until = time.monotonic() + MAX_MERGE_S
        changes = follow(self._reversals.changes, self._moved, current)
        plan = await plan_undo(changes, current, self._merge)
        for path, file in plan.files.items():
            if file.conflict and not is_work(path, is_ignored=_is_ignored(file)):
                file.conflict, file.version = None, file.current
        await work(check_places, plan, SnapshotVersions(snapshots, number))
        return plan

    async def _put(self, number: int, writes: Mapping[str, Version | None]) -> PutResult | None:
        versions = {
            path: each.file if isinstance(each, StagedFiles) else each for path, each in writes.items()
        }
        await self._workspace.work(self._refuse_paths, versions)
        return await self._workspace.change_observed(
            _put, self._workspace, number, versions, self._reversals.directories, self._reversals.made
        )

    async def _merge(
        self, path: str, ours: Version, base: Version | None, theirs: Version
    ) -> Merged[Version] | None:
        if ".git" in path.split("/") or time.monotonic() > self._merge_until:  # markers would break git
            return None
        sides = [await self._workspace.work(self._read, each) for each in (ours, base, theirs)]
        if any(each is None for each in sides):
            return None
        (ours_mode, ours_data), (base_mode, base_data), (theirs_mode, data) = (
            each or (0, b"") for each in sides
        )
        labels = Labels("now", f"after {self._target.title}", f"before {self._target.title}")
        git = self._workspace.git
        text = await merge_texts(git, ours=ours_data, base=base_data, theirs=data, labels=labels)
        if text is None:
            return None
        mode = theirs_mode if base is not None and ours_mode == base_mode else ours_mode
        for same, same_mode, same_data in ((ours, ours_mode, ours_data), (theirs, theirs_mode, data)):
            if not text.conflicts and (same_mode, same_data) == (mode, text.data):
                return Merged(same, has_conflicts=False)
        is_ignored = isinstance(ours, StoredFile | NewFile) and ours.is_ignored
        return Merged(NewFile(mode, text.data, is_ignored), has_conflicts=text.conflicts > 0)

    async def _count_conflicts(self, path: str, ours: Version, base: Version, theirs: Version) -> int:
        merged = await self._merge(path, ours, base, theirs)
        if merged is None or not isinstance(merged.version, NewFile):
            return 0
        return sum(line.startswith(b"<<<<<<< now") for line in merged.version.data.splitlines())

    def _read(self, version: Version | None) -> tuple[int, bytes] | None:
        """Mode and content of a file; None if it is no text. Blocks."""
        match version:
            case None:
                return 0, b""
            case NewFile(mode, data):
                return mode, data
            case StoredFile(mode, blob) if stat.S_ISREG(mode):
                data = b""
                for chunk in self._workspace.snapshots.storage.objects.chunks(blob):
                    data += chunk
                    if len(data) > MAX_MERGE_BYTES:
                        return None
                return mode, data
        return None


def _is_ignored(file: PlannedFile[Version]) -> bool:
    versions = [
        each.file if isinstance(each, StagedFiles) else each for each in (file.current, file.earliest)
    ]
    return any(isinstance(each, StoredFile) and each.is_ignored for each in versions)


def _put(
    workspace: Workspace,
    number: int,
    versions: Mapping[str, PathVersion | None],
    directories: Mapping[str, int],
    emptied: Collection[str],
) -> PutResult | None:
    with workspace.files.exclusive():
        return put_versions(
            workspace.snapshots,
            snapshot_content(workspace.mount),
            number,
            versions,
            directories=directories,
            emptied=emptied,
        )
