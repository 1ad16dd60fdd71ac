"""The changes between two snapshots as events: one for each file, or counts when there are too many.

Does no input or output of its own; memory does not depend on the number of changes. Many snapshots may be
taken while one build runs, so the number of listed files is limited over time, not only in each of them.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import field, replace
from typing import Any, Literal

from hutch.domain.current_actor_and_author import Actor
from hutch.domain.events import Event, FileChanged, FilesChanged
from hutch.edit.file_operation_types import FileChange
from hutch.snapshots.snapshot_tree_layout import FILES, Item, Leaf
from hutch.system.lazy_dataclass import dataclass

MAX_LISTED = 1000  # files of one author and cause that are listed one by one,
LISTED_PER_S = 10.0  # and that many more in each second afterwards
MAX_SOURCES = 256  # whose listed files are counted
MAX_DIRECTORIES = 1000  # that are counted
MAX_NAMED_DIRECTORIES = 10
DIRECTORY_DEPTH = 2

Kind = Literal["created", "modified", "deleted"]


@dataclass(frozen=True, slots=True)
class Attribution:
    """The fields of an event that say who changed a file, and how."""

    actor: Actor
    possible_authors: tuple[str, ...] = ()
    alone: bool = False  # nothing else was at work, not even a job of the same author

    @classmethod
    def to(cls, actors: Sequence[Actor]) -> "Attribution":
        """Attribute a change to those who were at work, the last of whom began last."""
        if not actors:
            return UNKNOWN
        if len({actor.by for actor in actors}) == 1:
            in_front = [
                actor for actor in actors if actor.cause != "job"
            ]  # rather than what an earlier one left
            return cls((in_front or actors)[-1], alone=len(actors) == 1)
        causes = {actor.cause for actor in actors}
        cause = actors[0].cause if len(causes) == 1 else "unknown"
        return cls(Actor(cause=cause), tuple(sorted({actor.by for actor in actors})))

    def fields(self) -> dict[str, Any]:
        actor = self.actor
        return {
            "by": actor.by,
            "cause": actor.cause,
            "source": actor.source,
            "call_id": actor.call_id,
            "possible_authors": self.possible_authors,
            "alone": self.alone,
        }


UNKNOWN = Attribution(Actor())


def file_changed(
    change: FileChange,
    attribution: Attribution,
    clean: Callable[[str], str],
    *,
    previous_snapshot: int,
    snapshot: int,
) -> FileChanged:
    """The event of one changed file. `clean` removes secrets from a path; `snapshot` is 0 if none has it."""
    return FileChanged(
        path=clean(change.path),
        kind=change.kind,
        before=change.before,
        after=change.after,
        moved_from=None if change.moved_from is None else clean(change.moved_from),
        previous_snapshot=previous_snapshot,
        snapshot=snapshot,
        **attribution.fields(),
    )


class ListingBudget:
    """How many files of each author and cause may still be listed one by one, over all snapshots."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._listed: dict[Attribution, tuple[float, float]] = {}  # how many, and when

    def spend(self, attribution: Attribution, count: int) -> bool:
        """True if so many files may be listed now; then they count."""
        now = self._now()
        attribution = replace(attribution, alone=False)
        listed, at = self._listed.pop(attribution, (0.0, now))
        listed = max(0.0, listed - (now - at) * LISTED_PER_S)
        is_allowed = listed + count <= MAX_LISTED
        self._listed[attribution] = (listed + count * is_allowed, now)
        if len(self._listed) > MAX_SOURCES:
            del self._listed[next(iter(self._listed))]
        return is_allowed


@dataclass(frozen=True, slots=True)
class Changed:
    """One changed file: its items before and after."""

    path: str
    old: Item | None
    new: Item | None

    @property
    def kind(self) -> Kind:
        return "created" if self.old is None else "deleted" if self.new is None else "modified"

    @property
    def is_ignored(self) -> bool:
        sections = [each.section for each in (self.old, self.new) if isinstance(each, Leaf)]
        return bool(sections) and FILES not in sections


@dataclass(slots=True)
class _Counts:
    kinds: Counter[str] = field(default_factory=Counter)
    directories: Counter[str] = field(default_factory=Counter)

    def add(self, path: str, kind: Kind) -> None:
        self.kinds[kind] += 1
        directory = "/".join(path.split("/")[:-1][:DIRECTORY_DEPTH])
        if directory in self.directories or len(self.directories) < MAX_DIRECTORIES:
            self.directories[directory] += 1


class ChangeBatch:
    """Collects the changes between two snapshots."""

    def __init__(self, previous_snapshot: int, snapshot: int, budget: ListingBudget) -> None:
        self._budget = budget
        self._snapshots = {"previous_snapshot": previous_snapshot, "snapshot": snapshot}
        self._listed: dict[Attribution, list[Changed] | None] = {}  # None: there are too many
        self._counted: dict[tuple[Attribution, bool], _Counts] = {}  # by whether git ignores them

    def add(self, changed: Changed, attribution: Attribution) -> None:
        if changed.is_ignored:
            self._count(changed, attribution, ignored=True)
            return
        listed = self._listed.setdefault(attribution, [])
        if listed is not None and len(listed) < MAX_LISTED:
            listed.append(changed)
            return
        for each in listed or ():
            self._count(each, attribution, ignored=False)
        self._listed[attribution] = None
        self._count(changed, attribution, ignored=False)

    def events(
        self, hash_of: Callable[[Item | None], str | None], clean: Callable[[str], str]
    ) -> Iterator[Event]:
        """The events; `hash_of` gives the SHA-256 of an item, and `clean` removes secrets from a path."""
        for attribution, listed in self._listed.items():
            if listed and not self._budget.spend(attribution, len(listed)):
                self._listed[attribution] = None
                for each in listed:
                    self._count(each, attribution, ignored=False)
        for attribution, listed in self._listed.items():
            for each in listed or ():
                change = FileChange(each.path, each.kind, hash_of(each.old), hash_of(each.new))
                yield file_changed(change, attribution, clean, **self._snapshots)
        for (attribution, is_ignored), counts in self._counted.items():
            yield FilesChanged(
                **counts.kinds,
                ignored=is_ignored,
                directories={
                    clean(name): count
                    for name, count in counts.directories.most_common(MAX_NAMED_DIRECTORIES)
                },
                **attribution.fields(),
                **self._snapshots,
            )

    def _count(self, changed: Changed, attribution: Attribution, *, ignored: bool) -> None:
        self._counted.setdefault((attribution, ignored), _Counts()).add(changed.path, changed.kind)
