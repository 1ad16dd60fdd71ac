"""Three-way merge of the fields of one task: the last synced state, the file, and the stored task.

A field that one side changed gets that side's value. If both changed it to different values, the file's
is used and both are reported. Labels, dependencies and criteria are merged entry by entry.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from hutch.domain.task import AcceptanceCriterion, TaskFields
from hutch.system.lazy_dataclass import dataclass

SCALARS = ("title", "state", "owner", "priority", "estimate", "milestone")
NOTHING = TaskFields(title="")  # the base of a task that was never synced
REMOVED = "(removed)"
CHANGED = "(changed)"


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldConflict:
    """A field that the file and the stored task changed to different values; the file's was used.

    `field` is `task` if one side removed the task that the other changed; it was kept then.
    """

    key: str
    field: str
    base: str
    file: str
    stored: str

    @property
    def remedy(self) -> str:
        if self.field == "task":
            return f"The task was kept. To remove it on both sides: hutch tasks edit {self.key} --archive"
        return (
            f"The value of the file was used. To use the other: hutch tasks edit {self.key} "
            f"--{self.field} '{self.stored}'"
        )


def merge_fields(
    key: str, base: TaskFields | None, file: TaskFields, stored: TaskFields
) -> tuple[TaskFields, list[FieldConflict]]:
    """The merged fields, and the conflicts."""
    if file == stored:
        return file, []
    old = base or NOTHING
    if stored == old:
        return file, []
    if file == old:
        return stored, []
    merged: dict[str, Any] = {}
    conflicts = []
    for name in SCALARS:
        was, there, here = (getattr(side, name) for side in (old, file, stored))
        merged[name] = here if there == was else there
        if there != was and here not in (was, there):
            conflicts.append(FieldConflict(key=key, field=name, base=was, file=there, stored=here))
    return (
        replace(
            file,
            **merged,
            labels=_merge_names(old.labels, file.labels, stored.labels),
            depends_on=_merge_names(old.depends_on, file.depends_on, stored.depends_on),
            criteria=_merge_criteria(old.criteria, file.criteria, stored.criteria),
        ),
        conflicts,
    )


def _merge_names(base: Iterable[str], file: Iterable[str], stored: Iterable[str]) -> tuple[str, ...]:
    old, there, here = set(base), set(file), set(stored)
    return tuple(sorted((there & here) | (there - old) | (here - old)))


def _merge_criteria(
    base: Sequence[AcceptanceCriterion],
    file: Sequence[AcceptanceCriterion],
    stored: Sequence[AcceptanceCriterion],
) -> tuple[AcceptanceCriterion, ...]:
    """In the order of the file, then those that only the stored task has.

    One that a side removed goes, unless the other side ticked or unticked it. One that both sides have added
    is ticked if one of them has ticked it.
    """
    old, there, here = _by_text(base), _by_text(file), _by_text(stored)
    merged = []
    for name in [*there, *(name for name in here if name not in there)]:
        was, in_file, in_store = old.get(name), there.get(name), here.get(name)
        if in_file is not None and in_store is not None:
            merged.append((name[0], in_store if in_file == bool(was) else in_file))
        elif (found := in_file if in_file is not None else in_store) is not None and found != was:
            merged.append((name[0], found))
    return tuple(AcceptanceCriterion(text, done) for text, done in merged)


def _by_text(criteria: Iterable[AcceptanceCriterion]) -> dict[tuple[str, int], bool]:
    """The marks by text; the same text for the second time is another criterion."""
    seen: Counter[str] = Counter()
    found = {}
    for each in criteria:
        found[each.text, seen[each.text]] = each.done
        seen[each.text] += 1
    return found
