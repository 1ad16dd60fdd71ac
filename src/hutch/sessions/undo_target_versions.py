"""Reads from the snapshots which versions of files the changes of an undo lead back to.

The log names a changed file without secrets, and counts files if there are many. The two snapshots
around a change have their real paths and all their versions. Differences between the snapshots of a
run that the log does not mention are the work of an unknown author, for example in the log of an
earlier version of Hutch.
"""

import hashlib
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import field

from hutch.domain.errors import NotFound
from hutch.domain.events import FileChanged, FilesChanged
from hutch.sessions.changes_to_undo import Change, TargetChange, UndoTarget
from hutch.sessions.undo_file_version_reader import StagedFiles, Version, is_append_only, read_version
from hutch.sessions.undo_planning import Reversal
from hutch.snapshots.comparison import Difference, differences
from hutch.snapshots.path_version_restore import NotStored, SnapshotVersions, StoredFile
from hutch.snapshots.snapshot import Snapshots
from hutch.snapshots.snapshot_tree_layout import EMPTY_BRANCH, FILES, Branch, Leaf
from hutch.system.lazy_dataclass import dataclass

Pair = tuple[int, int]  # the snapshots before and after a change


@dataclass(slots=True)
class Reversals:
    """The changes to take back, oldest first."""

    changes: list[Reversal[Version]] = field(default_factory=list)
    directories: dict[str, int] = field(default_factory=dict)  # permissions of directories that were removed
    made: set[str] = field(default_factory=set)  # directories that were made for these files
    authors: dict[str, tuple[str, ...]] = field(default_factory=dict)  # possible ones of unclear changes


def read_reversals(
    snapshots: Snapshots, target: UndoTarget, recorded: Sequence[Change], clean: Callable[[str], str]
) -> Reversals:
    """Read the versions. Blocks.

    `recorded` are all changes of the log; `clean` gives a path as the log has it.
    """
    reading = _Reading(snapshots, target, recorded, clean)
    for change in target.changes:
        reading.add(change)
    if target.is_run and target.first < target.last:
        reading.add_unrecorded(target.first, target.last)
    return reading.found


class _Reading:
    def __init__(
        self,
        snapshots: Snapshots,
        target: UndoTarget,
        recorded: Sequence[Change],
        clean: Callable[[str], str],
    ) -> None:
        self.found = Reversals()
        self._snapshots = snapshots
        self._clean = clean
        self._pairs: dict[Pair, _PairChanges | None] = {}
        self._recorded: dict[Pair, list[Change]] = defaultdict(list)
        for event in recorded:
            if event.snapshot:
                self._recorded[(event.previous_snapshot, event.snapshot)].append(event)

    def add(self, change: TargetChange) -> None:
        event = change.event
        if not event.snapshot:
            self._add_unstored(event)
            return
        pair = self._pair((event.previous_snapshot, event.snapshot))
        if pair is None:
            names = [f"{each or '.'}/" for each in getattr(event, "directories", {})]
            names = names or [getattr(event, "path", "./")]
            self.found.changes += [Reversal(name, None, None, is_stored=False) for name in names]
            return
        if isinstance(event, FilesChanged):
            is_clear = change.is_clear and pair.is_clear(event)
            for path in pair.counted(event):
                self._reverse(pair, path, is_clear=is_clear, event=event, seq=change.seq)
        else:
            for path in pair.paths.get(event.path, ()):
                self._reverse(pair, path, is_clear=change.is_clear, event=event, seq=change.seq)

    def _add_unstored(self, event: Change) -> None:
        """Add a change without a snapshot: others have changed the file before the next one was taken.

        A log of an earlier version of Hutch has only such changes; they are found as unrecorded.
        """
        for old, new in list(self._recorded):
            if old and old == event.previous_snapshot and (pair := self._pair((old, new))) is not None:
                for path in pair.paths.get(getattr(event, "path", ""), ()):
                    self._reverse(pair, path, is_clear=False, event=event)

    def add_unrecorded(self, first: int, last: int) -> None:
        """Add the differences of a run that no event mentions."""
        whole = self._pair((first, last))
        if whole is None:
            return
        mentioned: set[str] = set()
        for old, new in list(self._recorded):
            if first <= old and new <= last and (pair := self._pair((old, new))) is not None:
                mentioned |= pair.mentioned()
        for path in sorted(whole.files - mentioned):
            if not isinstance(whole.old.item(path) or whole.new.item(path), Branch):
                self._reverse(whole, path, is_clear=False, event=None)

    def _reverse(
        self, pair: "_PairChanges", path: str, *, is_clear: bool, event: Change | None, seq: int = 0
    ) -> None:
        if is_append_only(path):
            return
        moved_from = pair.find_source(event) if isinstance(event, FileChanged) else None
        before = read_version(self._snapshots, pair.old, path if moved_from is None else moved_from)
        after = read_version(self._snapshots, pair.new, path)
        replaced = None if moved_from is None else read_version(self._snapshots, pair.old, path)
        is_stored = not any(isinstance(each, NotStored) for each in (before, replaced))
        if seq and isinstance(event, FileChanged) and event.before is not None:
            is_stored = is_stored and self._has_hash(before, event.before)
        self.found.changes.append(
            Reversal(
                path,
                before,
                after,
                moved_from,
                replaced,
                is_clear=is_clear,
                is_stored=is_stored,
                can_compare=not isinstance(after, NotStored) or after.is_special,
                seq=seq,
            )
        )
        if not is_clear:
            known, more = self.found.authors.get(path, ()), event.possible_authors if event else ()
            self.found.authors[path] = tuple(dict.fromkeys((*known, *more)))
        self.found.made |= pair.made.intersection(_parents(path))
        for parent in _parents(moved_from or path):
            if parent not in self.found.directories and isinstance(pair.old.item(parent), Branch):
                self.found.directories[parent] = pair.old.permissions(parent)

    def _has_hash(self, version: Version | None, expected: str) -> bool:
        """True if a stored version has the hash that the log names; others may have written it since."""
        file = version.file if isinstance(version, StagedFiles) else version
        if not isinstance(file, StoredFile):
            return False
        digest = hashlib.sha256()
        for chunk in self._snapshots.storage.objects.chunks(file.blob):
            digest.update(chunk)
        return digest.hexdigest() == expected

    def _pair(self, numbers: Pair) -> "_PairChanges | None":
        """The changes between two snapshots; None if one is not stored any more."""
        if numbers not in self._pairs:
            try:
                found = _PairChanges(self._snapshots, numbers, self._recorded.get(numbers, []), self._clean)
            except NotFound:
                found = None
            self._pairs[numbers] = found
        return self._pairs[numbers]


class _PairChanges:
    """The differences between two snapshots, and the events about them."""

    def __init__(
        self, snapshots: Snapshots, numbers: Pair, events: Sequence[Change], clean: Callable[[str], str]
    ) -> None:
        self.numbers = numbers
        objects = snapshots.storage.objects
        before, after = numbers
        old = snapshots.item(before, "") if before else EMPTY_BRANCH
        self.old = SnapshotVersions(snapshots, before) if before else _Nothing()
        self.new = SnapshotVersions(snapshots, after)
        self.made: set[str] = set()
        self._ignored: dict[str, bool] = {}  # of each changed file
        self.paths: dict[str, list[str]] = defaultdict(list)  # real paths, by path in the log
        for each in differences(objects, old, snapshots.item(after, "")):
            if isinstance(each.new, Branch) and not isinstance(each.old, Branch):
                self.made.add(each.path)
            if _is_file(each) or self._is_empty_directory(each):
                self._ignored[each.path] = _is_ignored(each)
                self.paths[clean(each.path)].append(each.path)
        self._listed = {event.path for event in events if isinstance(event, FileChanged)}
        self._listed |= {
            event.moved_from for event in events if isinstance(event, FileChanged) and event.moved_from
        }
        self._summaries = [event for event in events if isinstance(event, FilesChanged)]

    @property
    def files(self) -> set[str]:
        return set(self._ignored)

    def counted(self, summary: FilesChanged) -> Iterator[str]:
        """The files that a summary counts."""
        for name, paths in self.paths.items():
            if name not in self._listed:
                yield from (path for path in paths if self._ignored[path] == summary.ignored)

    def is_clear(self, summary: FilesChanged) -> bool:
        """False if there is a summary of another author for the same files."""
        same = [each for each in self._summaries if each.ignored == summary.ignored]
        return len({(each.by, each.possible_authors) for each in same}) == 1

    def mentioned(self) -> set[str]:
        """The files that the log lists or counts."""
        counted = {path for summary in self._summaries for path in self.counted(summary)}
        return counted | {path for name in self._listed for path in self.paths.get(name, ())}

    def find_source(self, event: FileChanged) -> str | None:
        """The real path from which a file was moved."""
        found = self.paths.get(event.moved_from or "", [])
        return found[0] if event.moved_from and found else None

    def _is_empty_directory(self, each: Difference) -> bool:
        return any(
            isinstance(item, Branch) and not isinstance(other, Branch) and not versions.entries(each.path)
            for item, other, versions in ((each.old, each.new, self.old), (each.new, each.old, self.new))
        )


class _Nothing(SnapshotVersions):
    """The state before the first snapshot."""

    def __init__(self) -> None:
        self._entries = {"": {}}
        self._top = EMPTY_BRANCH


def _is_file(each: Difference) -> bool:
    return any(item is not None and not isinstance(item, Branch) for item in (each.old, each.new))


def _is_ignored(each: Difference) -> bool:
    sections = [item.section for item in (each.old, each.new) if isinstance(item, Leaf)]
    return bool(sections) and FILES not in sections


def _parents(path: str) -> list[str]:
    parts = path.split("/")
    return ["/".join(parts[:end]) for end in range(1, len(parts))]
