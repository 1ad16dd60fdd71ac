"""Brings a `TASKS.md` and the stored tasks of its repository together.

The base is the text of the file after the last sync. It says which side changed a field: the file, if
it differs from the base, and the stored task likewise. Nothing is dropped: a task that one side removed
and the other changed stays, and a line that is no task is never touched.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Literal, NamedTuple

from hutch.domain.task import TaskFields, TaskState
from hutch.flows.tasks_file.hidden_task_comment import status_in
from hutch.flows.tasks_file.task_keys import KnownTask, RenumberedTask, assign_keys
from hutch.flows.tasks_file.task_line import BOX_STATES
from hutch.flows.tasks_file.tasks_file_parser import FileTask, TasksFile
from hutch.flows.tasks_file.tasks_file_writer import TaskToWrite, write_tasks
from hutch.flows.tasks_file.three_way_field_merge import CHANGED, REMOVED, FieldConflict, merge_fields
from hutch.system.lazy_dataclass import dataclass

UpdateKind = Literal["added", "changed", "archived", "restored"]
Clean = Callable[[TaskFields], TaskFields]  # removes secrets, which stay in the file only


@dataclass(frozen=True, slots=True)
class StoredTask:
    """A stored task as a sync sees it."""

    key: str
    fields: TaskFields
    revision: int
    archived: bool = False


@dataclass(frozen=True, slots=True)
class TaskUpdate:
    """A change of the store that makes it equal to the file. `notes` become the description of a new task."""

    kind: UpdateKind
    key: str
    fields: TaskFields
    revision: int  # before the update; 0 for a new task
    notes: str = ""


@dataclass(frozen=True, slots=True)
class SyncOutcome:
    """The new text of the file, the updates of the store, and what a person should know."""

    text: str
    updates: tuple[TaskUpdate, ...]
    conflicts: tuple[FieldConflict, ...]
    renumbered: tuple[RenumberedTask, ...]
    removed_lines: tuple[str, ...]  # keys of tasks whose lines were removed, because they were archived


class _Side(NamedTuple):  # made faster than a dataclass
    """A task of a file, with the file."""

    file: TasksFile
    task: FileTask
    clean: Clean | None = None

    @property
    def fields(self) -> TaskFields:
        fields = self.file.fields(self.task)
        return fields if self.clean is None else self.clean(fields)

    def as_written(self, fields: TaskFields) -> TaskFields:
        """Fields as the file has them: with the secrets that are in its own texts."""
        if self.clean is None:
            return fields
        own = self.file.fields(self.task)
        cleaned = self.clean(own)
        texts = {
            name: getattr(own, name)
            for name in ("title", "milestone", "estimate")
            if getattr(fields, name) == getattr(cleaned, name)
        }
        raw = dict(zip((each.text for each in cleaned.criteria), own.criteria, strict=True))
        criteria = tuple(
            replace(each, text=raw[each.text].text) if each.text in raw else each for each in fields.criteria
        )
        return replace(fields, **texts, criteria=criteria)

    @property
    def heading_state(self) -> TaskState | None:
        return self.file.sections[self.task.section].state


class _Sync:
    """One sync, while it is computed."""

    def __init__(
        self, base: TasksFile, file: TasksFile, stored: Mapping[str, StoredTask], clean: Clean | None
    ) -> None:
        self._file, self._stored, self._clean = file, stored, clean
        self._base: dict[str, _Side] = {}
        for task in base.tasks:
            if task.line.key:
                self._base.setdefault(task.line.key, _Side(base, task, clean))
        self._updates: list[TaskUpdate] = []
        self._conflicts: list[FieldConflict] = []
        self._changed: list[tuple[FileTask, TaskToWrite]] = []
        self._removed: list[FileTask] = []
        self._added: list[TaskToWrite] = []

    def run(self) -> SyncOutcome:
        keys, renumbered = assign_keys(self._file.tasks, self._known())
        for task in self._file.tasks:
            self._merge(task, keys[task.number])
        in_file = set(keys.values())
        for key, stored in self._stored.items():
            if key not in in_file and not stored.archived:
                self._merge_missing(stored)
        return SyncOutcome(
            write_tasks(self._file, self._changed, self._removed, self._added),
            tuple(self._updates),
            tuple(self._conflicts),
            tuple(renumbered),
            tuple(keys[task.number] for task in self._removed),
        )

    def _known(self) -> dict[str, KnownTask]:
        known: dict[str, KnownTask] = {}
        for key, side in self._base.items():
            stored = self._stored.get(key)
            is_listed = stored is not None and not stored.archived
            known[key] = KnownTask(side.task.line.title, synced=True, listed=is_listed)
        for key, stored in self._stored.items():
            if key not in known:
                known[key] = KnownTask(stored.fields.title, synced=False, listed=not stored.archived)
        return known

    def _merge(self, task: FileTask, key: str) -> None:
        """Merge a task of the file with the stored one."""
        stored, base = self._stored.get(key), self._base.get(key)
        side = _Side(self._file, task, self._clean)
        in_file = fields = side.fields
        if (state := _state_in_file(side, base)) != fields.state:
            fields = replace(fields, state=state)
        if stored is None:
            self._updates.append(TaskUpdate("added", key, fields, 0, self._file.notes(task)))
            self._changed.append((task, TaskToWrite(key, side.as_written(fields), 1)))
        elif stored.archived:
            self._merge_archived(side, key, fields, stored, base)
        else:
            merged = fields
            if fields != stored.fields:
                merged, conflicts = merge_fields(key, base.fields if base else None, fields, stored.fields)
                self._conflicts += conflicts
            revision = stored.revision
            if merged != stored.fields:
                self._updates.append(TaskUpdate("changed", key, merged, revision))
                revision += 1
            if merged != in_file or task.line.key != key:
                self._changed.append((task, TaskToWrite(key, side.as_written(merged), revision)))

    def _merge_archived(
        self, side: _Side, key: str, fields: TaskFields, stored: StoredTask, base: _Side | None
    ) -> None:
        """Remove the line of a task that was archived, or restore the task if its line was changed."""
        if base and base.fields == fields:
            self._removed.append(side.task)
            return
        if base:
            self._conflicts.append(
                FieldConflict(key=key, field="task", base=base.fields.title, file=CHANGED, stored=REMOVED)
            )
        self._updates.append(TaskUpdate("restored", key, fields, stored.revision))
        self._changed.append((side.task, TaskToWrite(key, side.as_written(fields), stored.revision + 1)))

    def _merge_missing(self, stored: StoredTask) -> None:
        """Archive a stored task whose line was removed; write one that is new or was changed since."""
        base = self._base.get(stored.key)
        if base and base.fields == stored.fields:
            self._updates.append(TaskUpdate("archived", stored.key, stored.fields, stored.revision))
            return
        if base:
            self._conflicts.append(
                FieldConflict(
                    key=stored.key, field="task", base=base.fields.title, file=REMOVED, stored=CHANGED
                )
            )
        self._added.append(TaskToWrite(stored.key, stored.fields, stored.revision))


def _state_in_file(side: _Side, base: _Side | None) -> TaskState:
    """The state that the file gives a task: what was changed since the base decides, the box first.

    A ticked box beats the hidden comment, so that ticking it is enough.
    """
    line, under = side.task.line, side.heading_state
    if base is None:
        return line.state(under)
    old = base.task.line
    box, old_box = BOX_STATES.get(line.box), BOX_STATES.get(old.box)
    if box != old_box:
        return box or line.open_state(under)
    status = status_in(line.pairs)
    if box is None and status and status != "done" and status != status_in(old.pairs):
        return status
    if under != base.heading_state:
        return under or base.fields.state
    return line.state(under)


def sync_tasks_file(
    base_text: str, file_text: str, stored: Iterable[StoredTask], clean: Clean | None = None
) -> SyncOutcome:
    """The outcome of a sync; with the same sides again it changes nothing."""
    file = TasksFile(file_text)
    base = file if base_text == file_text else TasksFile(base_text, file.parsed_lines)
    return _Sync(base, file, {task.key: task for task in stored}, clean).run()
