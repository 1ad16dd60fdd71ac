"""Plans an undo: which version each file gets when the changes of one author are taken back.

The changes are reversed from the newest to the oldest. If a file is still as a change left it, it
gets the version from before that change. If others have changed it since, the reversal is merged
with their changes: the version that the change left is the base. A failed merge is a
conflict, and the caller decides about it. If it is not clear who made a change, a merge shows both
versions of its lines, and brings a deleted file back. Pure: versions are opaque values that can be
compared.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import field, replace
from typing import Generic, Literal, TypeVar

from hutch.system.lazy_dataclass import dataclass

Version = TypeVar("Version")
Reason = Literal[
    "overlap",
    "binary",
    "changed_since",
    "deleted_since",
    "created_again",
    "unclear",  # others may have made the change
    "blocked",  # something else is in its place
    "gone",  # its earlier version is not stored any more
    "not_compared",  # the version that the change left is not stored: others may have changed it since
]
Mode = Literal["refuse", "merge", "keep", "discard"]


@dataclass(frozen=True, slots=True)
class Reversal(Generic[Version]):
    """A change to take back. A version is None if there was no such file."""

    path: str
    before: Version | None  # of a move: at `moved_from`
    after: Version | None
    moved_from: str | None = None
    replaced: Version | None = None  # by a move: what `path` had before
    is_clear: bool = True  # False: others may have made it
    is_stored: bool = True  # False: the version before is not known any more
    can_compare: bool = True  # False: the version after is not known
    seq: int = field(default=0, compare=False)  # of its event
    is_moved: bool = False  # others have moved the file since, to `path`


@dataclass(frozen=True, slots=True)
class Merged(Generic[Version]):
    """The result of a merge of two versions; with conflicts it contains markers."""

    version: Version
    has_conflicts: bool


# Merges (ours, base, theirs) of a path; base is None if both were created. None: they cannot be merged.
Merge = Callable[[str, Version, Version | None, Version], Awaitable[Merged[Version] | None]]


@dataclass(slots=True)
class PlannedFile(Generic[Version]):
    """A file of the plan."""

    current: Version | None
    version: Version | None  # after the undo; with markers if lines conflict
    earliest: Version | None = None  # before the first change that is taken back
    is_merged: bool = False  # changes by others were kept in it
    is_marked: bool = False  # `version` has markers
    is_unclear: bool = False  # others may have made a change of its content
    conflict: Reason | None = None
    is_blocked_by_discarded: bool = False  # what is in its place is itself removed by `discard`

    def is_marked_by(self, mode: Mode) -> bool:
        """True if it gets markers."""
        return self.is_marked and mode == "merge"

    def resolved(self, mode: Mode) -> Version | None:
        """The version that the file gets."""
        if self.conflict is None or mode == "merge":
            return self.version
        is_possible = self.conflict != "blocked" or self.is_blocked_by_discarded
        return (
            self.earliest if mode == "discard" and is_possible and self.conflict != "gone" else self.current
        )


@dataclass(slots=True)
class UndoPlan(Generic[Version]):
    """The files that an undo concerns, by path. It touches no other."""

    files: dict[str, PlannedFile[Version]] = field(default_factory=dict)

    @property
    def conflicts(self) -> dict[str, Reason]:
        return {path: each.conflict for path, each in sorted(self.files.items()) if each.conflict}

    @property
    def merged(self) -> list[str]:
        return sorted(path for path, each in self.files.items() if each.is_merged and not each.conflict)

    def writes(self, mode: Mode) -> dict[str, Version | None]:
        """The new versions of the files that change."""
        resolved = {path: each.resolved(mode) for path, each in sorted(self.files.items())}
        return {path: version for path, version in resolved.items() if version != self.files[path].current}


async def plan_undo(
    reversals: Iterable[Reversal[Version]], current: Mapping[str, Version], merge: Merge[Version]
) -> UndoPlan[Version]:
    """Plan to take back changes, which are given from the oldest to the newest."""
    planning = _Planning(current, merge)
    for change in reversed(_joined(reversals)):
        await planning.reverse(change)
    await planning.mark_unclear()
    return UndoPlan(planning.files)


def _joined(reversals: Iterable[Reversal[Version]]) -> list[Reversal[Version]]:
    """The changes; those of one file that directly follow each other become one."""
    joined: list[Reversal[Version]] = []
    last: dict[str, int] = {}  # the index of the last change of each path
    for each in reversals:
        index = last.get(each.path)
        previous = joined[index] if index is not None else None
        if (
            previous is not None
            and index is not None
            and _is_plain(previous)
            and _is_plain(each)
            and previous.after == each.before
        ):
            joined[index] = replace(each, before=previous.before)
            continue
        last[each.path] = len(joined)
        if each.moved_from is not None:
            last[each.moved_from] = len(joined)
        joined.append(each)
    return joined


def _is_plain(change: Reversal[Version]) -> bool:
    return change.moved_from is None and change.is_clear and change.is_stored and change.can_compare


class _Planning(Generic[Version]):
    def __init__(self, current: Mapping[str, Version], merge: Merge[Version]) -> None:
        self.files: dict[str, PlannedFile[Version]] = {}
        self._current = current
        self._merge = merge

    async def reverse(self, change: Reversal[Version]) -> None:
        concerned = [self._file(change.path)]
        concerned += [self._file(change.moved_from)] if change.moved_from is not None else []
        if not change.is_stored:
            for file in concerned:
                file.conflict = "gone"
        elif change.moved_from is not None:
            await self._move_back(change, *concerned)
        else:
            await self._restore(change, concerned[0])

    async def mark_unclear(self) -> None:
        """Give files whose changes are not clear the versions from before and now, with markers."""
        for path, file in self.files.items():
            if not file.is_unclear or file.is_marked or file.earliest is None:
                continue
            if file.version is None:
                file.version = file.earliest
            elif (merged := await self._merge(path, file.version, None, file.earliest)) is not None:
                file.version, file.is_marked = merged.version, merged.has_conflicts

    def _file(self, path: str) -> PlannedFile[Version]:
        if path not in self.files:
            now = self._current.get(path)
            self.files[path] = PlannedFile(now, now, now)
        return self.files[path]

    async def _restore(self, change: Reversal[Version], file: PlannedFile[Version]) -> None:
        file.earliest = change.before
        if file.version == change.before or change.after == change.before:
            return
        if not change.is_clear:
            file.conflict, file.is_unclear = file.conflict or "unclear", True
        elif not change.can_compare:
            file.conflict = file.conflict or "not_compared"
        elif file.version == change.after and not (change.is_moved and change.before is None):
            file.version = change.before
        else:
            await self._combine(change, file, file)

    async def _move_back(
        self, change: Reversal[Version], target: PlannedFile[Version], source: PlannedFile[Version]
    ) -> None:
        source.earliest, target.earliest = change.before, change.replaced
        if not change.is_clear or source.version is not None:
            reason: Reason = "created_again" if change.is_clear else "unclear"
            for file in (source, target):
                file.conflict = file.conflict or reason
            return
        if target.version == change.after:
            source.version, target.version = change.before, change.replaced
        elif target.version is None and change.before == change.after and change.replaced is None:
            return  # others have deleted it since, wherever it was
        elif await self._combine(change, target, source):
            target.version = change.replaced
        else:
            target.conflict = target.conflict or source.conflict

    async def _combine(
        self, change: Reversal[Version], ours: PlannedFile[Version], result: PlannedFile[Version]
    ) -> bool:
        """Merge a reversal with changes by others into `result`; False if that is impossible."""
        if ours.version is None or change.before is None:
            reason: Reason = "deleted_since" if ours.version is None else "changed_since"
            result.conflict = result.conflict or reason
            return False
        merged = await self._merge(change.path, ours.version, change.after, change.before)
        if merged is None:
            result.conflict = result.conflict or "binary"
            return False
        result.version, result.is_merged = merged.version, True
        if merged.has_conflicts:
            result.is_marked = True
            result.conflict = result.conflict or ("overlap" if change.after is not None else "created_again")
        return True
