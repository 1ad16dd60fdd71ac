"""Syncs the stored tasks of a repository with the text of its TASKS.md.

The client keeps the text of its last sync, because each clone of a repository has a state of its own.
It gets the merged text back. If it fails to write it, the next sync finds both sides equal.
"""

import asyncio
from collections.abc import Iterable
from dataclasses import replace

from hutch.domain.errors import BadRequest, Conflict
from hutch.domain.ids import new_task_id
from hutch.domain.lone_surrogate_replacement import replace_surrogates
from hutch.domain.task import MAX_DESCRIPTION_CHARS, Task
from hutch.domain.user import Caller
from hutch.flows.tasks.task_requests import (
    TaskServices,
    check_repository,
    check_writer,
    redacted_fields,
    task_address,
    task_repository,
)
from hutch.flows.tasks_file.backlog_folder_conversion import BacklogImport
from hutch.flows.tasks_file.file_and_stored_task_merge import (
    Clean,
    StoredTask,
    SyncOutcome,
    TaskUpdate,
    UpdateKind,
    sync_tasks_file,
)
from hutch.system.clock_without_jumps import wall_ms

MAX_FILE_CHARS = 8 << 20
MAX_ATTEMPTS = 5  # if tasks are changed while the sync is computed
MIN_REMOVALS = 5  # fewer are never suspicious


async def sync_text(
    services: TaskServices,
    who: Caller,
    *,
    repository: str,
    base: str,
    text: str,
    allow_removals: bool = False,
    dry_run: bool = False,
) -> SyncOutcome:
    """Merge a file with the stored tasks, and store the result unless it is a dry run.

    A file that has lost most of its tasks is refused: an open code fence hides them, for example.
    """
    check_writer(who)
    if max(len(base), len(text)) > MAX_FILE_CHARS:
        raise BadRequest(f"A file of tasks has at most {MAX_FILE_CHARS:,} characters.")
    name = task_repository(repository)
    check_repository(services, who, name)
    if not name and who.user.role != "owner":  # the tasks without a repository belong to their users
        raise BadRequest("Name the repository of the file.")
    clean = await asyncio.to_thread(_cleaner, services, base, text)
    for _ in range(MAX_ATTEMPTS):
        stored = {task.key: task for task in await services.tasks.of_repository(name)}
        outcome = await asyncio.to_thread(
            sync_tasks_file, base, text, [_as_stored(task) for task in stored.values()], clean
        )
        if not allow_removals:
            _check_removals(outcome, stored.values())
        if dry_run:
            return outcome
        pairs = [
            _pair(services, stored.get(update.key), update, repository, who) for update in outcome.updates
        ]
        try:
            await services.tasks.change_all(pairs, by=who.user.id, note="synced with the file")
        except Conflict:
            continue
        await _note_conflicts(services, who, outcome, name)
        return outcome
    raise Conflict("The tasks were changed again and again during the sync. Repeat it.")


def _as_stored(task: Task) -> StoredTask:
    return StoredTask(task.key, task.fields, task.revision, task.archived)


def _check_removals(outcome: SyncOutcome, stored: Iterable[Task]) -> None:
    listed = sum(not task.archived for task in stored)
    gone = [update.key for update in outcome.updates if update.kind == "archived"]
    if len(gone) > MIN_REMOVALS and len(gone) * 2 > listed:
        raise Conflict(
            f"The file no longer shows {len(gone)} of {listed} tasks, such as {gone[0]}. Look for a code "
            "fence or comment that is not closed. If they were removed on purpose, allow it: --allow-removals"
        )


def _cleaner(services: TaskServices, *texts: str) -> Clean | None:
    """Redacts fields that come from a file; None if its texts have no secret. Blocks the thread."""
    if all(services.redactor.redact(text) == text for text in dict.fromkeys(texts)):
        return None
    return lambda fields: redacted_fields(services, fields)


def _pair(
    services: TaskServices, old: Task | None, update: TaskUpdate, repository: str, who: Caller
) -> tuple[Task | None, Task]:
    """The old and the new state of a task that a sync changes."""
    if old is not None:
        return old, replace(old, fields=update.fields, archived=update.kind == "archived")
    now, notes = wall_ms(), replace_surrogates(update.notes)[:MAX_DESCRIPTION_CHARS]
    return None, Task(
        id=new_task_id(),
        repository=task_repository(repository),
        address=task_address(repository) if repository.strip() else "",
        key=update.key,
        fields=update.fields,
        description=services.redactor.redact(notes),
        created_by=who.user.id,
        created_ms=now,
        updated_ms=now,
    )


async def _note_conflicts(services: TaskServices, who: Caller, outcome: SyncOutcome, repository: str) -> None:
    """Both values of a conflict stay in the history of the task."""
    for conflict in outcome.conflicts:
        task = await services.tasks.find(conflict.key, repository)
        values = {conflict.field: (conflict.stored, conflict.file)}
        await services.tasks.note(task, "conflict", conflict.remedy, by=who.user.id, changes=values)


async def import_backlog(
    services: TaskServices, who: Caller, found: BacklogImport, *, repository: str
) -> tuple[int, int]:
    """Store the tasks of a Backlog.md folder; the numbers of added and of changed ones."""
    check_writer(who)
    name = task_repository(repository)
    check_repository(services, who, name)
    stored = {task.key: task for task in await services.tasks.of_repository(name)}
    pairs: list[tuple[Task | None, Task]] = []
    for task in found.tasks:
        kind: UpdateKind = "archived" if task.archived else "changed"
        update = TaskUpdate(kind, task.key, redacted_fields(services, task.fields), 0, task.description)
        old, new = _pair(services, stored.get(task.key), update, repository, who)
        description = services.redactor.redact(task.description)
        new = replace(new, description=description or new.description, archived=task.archived)
        if old != new:
            pairs.append((old, new))
    await services.tasks.change_all(pairs, by=who.user.id, note="imported from Backlog.md")
    added = sum(old is None for old, _ in pairs)
    return added, len(pairs) - added
