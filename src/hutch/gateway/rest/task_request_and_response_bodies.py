"""The bodies of requests and responses about tasks."""

from typing import Annotated, Any

from pydantic import Field

from hutch.domain.task import (
    MAX_DESCRIPTION_CHARS,
    MAX_LISTED,
    MAX_NAME_CHARS,
    MAX_TITLE_CHARS,
    AcceptanceCriterion,
    Task,
    TaskEvent,
    TaskFields,
    TaskLink,
    TaskLinkKind,
    TaskPriority,
    TaskState,
)
from hutch.flows.tasks.task_requests import MAX_REPOSITORY_CHARS, criteria_from
from hutch.flows.tasks.tasks_file_sync_and_import import MAX_FILE_CHARS
from hutch.flows.tasks_file.file_and_stored_task_merge import UpdateKind
from hutch.flows.tasks_file.task_keys import RenumberedTask
from hutch.flows.tasks_file.three_way_field_merge import FieldConflict
from hutch.gateway.request_and_response_bodies import In, Out, fields_from

Name = Annotated[str, Field(max_length=MAX_NAME_CHARS)]
Names = Annotated[list[Name], Field(max_length=MAX_LISTED)]
Title = Annotated[str, Field(max_length=MAX_TITLE_CHARS)]


class CriterionIn(In):
    """A condition that is checked at the end."""

    text: Title
    done: bool = False


Criteria = Annotated[list[CriterionIn], Field(max_length=MAX_LISTED)]


class NewTask(In):
    """A task to create."""

    repository: str = Field("", max_length=MAX_REPOSITORY_CHARS, description="The address of its repository.")
    key: str = Field("", max_length=40, description="Unique in its repository; the next one by default.")
    title: Title = Field(examples=["Fix flaky login"])
    description: str = Field("", max_length=MAX_DESCRIPTION_CHARS)
    state: TaskState = "todo"
    owner: Name = Field("", description="A user's name, or `persona:NAME`.")
    priority: TaskPriority = ""
    estimate: Name = Field("", examples=["3h"])
    milestone: Name = ""
    labels: Names = Field(default_factory=list)
    depends_on: Names = Field(default_factory=list, description="Keys of tasks in the same repository.")
    criteria: Criteria = Field(default_factory=list)


class TaskChange(In):
    """Fields to change; those that are absent stay as they are."""

    revision: int = Field(0, ge=0, description="Refuse the change if the task has another one; 0 for any.")
    title: Title | None = None
    description: str | None = Field(None, max_length=MAX_DESCRIPTION_CHARS)
    state: TaskState | None = None
    owner: Name | None = None
    priority: TaskPriority | None = None
    estimate: Name | None = None
    milestone: Name | None = None
    labels: Names | None = None
    depends_on: Names | None = None
    criteria: Criteria | None = None
    archived: bool | None = None
    address: str | None = Field(
        None, max_length=MAX_REPOSITORY_CHARS, description="How git reaches the repository of an old task."
    )


def task_values(body: NewTask | TaskChange) -> dict[str, Any]:
    """The values of a body for the flows."""
    values = body.model_dump(exclude_none=True, exclude={"repository", "key", "revision"})
    if "criteria" in values:
        values["criteria"] = criteria_from(values["criteria"])
    return values


class TaskNote(In):
    """A comment, or a line of the progress log."""

    text: str = Field(min_length=1, max_length=MAX_DESCRIPTION_CHARS)
    progress: bool = False


class TaskLinkIn(In):
    """Something that belongs to a task."""

    kind: TaskLinkKind
    target: Title = Field(description="The id of a session or change, or a URL.")


class TasksFileIn(In):
    """The text of a TASKS.md, and its text after the last sync."""

    repository: str = Field(max_length=MAX_REPOSITORY_CHARS)
    base: str = Field("", max_length=MAX_FILE_CHARS, description="Empty if it was never synced.")
    text: str = Field(max_length=MAX_FILE_CHARS)
    allow_removals: bool = Field(False, description="Accept that most of the tasks are gone.")
    dry_run: bool = Field(False, description="Store nothing.")


@fields_from(AcceptanceCriterion)
class CriterionOut(Out):
    """A condition that is checked at the end."""


@fields_from(TaskLink)
class TaskLinkOut(Out):
    """Something that belongs to a task."""


@fields_from(TaskFields)
class TaskFieldsOut(Out):
    """The fields that a TASKS.md can express."""

    labels: list[str]
    depends_on: list[str]
    criteria: list[CriterionOut]


@fields_from(Task)
class TaskOut(Out):
    """A task."""

    id: str = Field(examples=["tsk_01jd2m4c9k7w6t0q8n5x3vbaeh"])
    key: str = Field(examples=["T-12"])
    fields: TaskFieldsOut
    links: list[TaskLinkOut]
    archived: bool = Field(description="Removed from lists and from the file.")


@fields_from(TaskEvent)
class TaskEventOut(Out):
    """Something that happened to a task."""

    changes: dict[str, Any] = Field(description="The old and the new value of each field.")


@fields_from(FieldConflict)
class TaskConflictOut(Out):
    """A field that both sides changed; the value of the file was used."""

    remedy: str


@fields_from(RenumberedTask)
class RenumberedTaskOut(Out):
    """A line whose key belonged to another task."""


class SyncedTaskOut(Out):
    """A stored task that a sync has changed."""

    kind: UpdateKind
    key: str
    title: str


class TasksFileOut(Out):
    """The result of a sync: write `text` to the file, and keep it as the base of the next one."""

    text: str
    updates: int = Field(description="The number of stored tasks that were added, changed or archived.")
    changed: list[SyncedTaskOut]
    conflicts: list[TaskConflictOut]
    renumbered: list[RenumberedTaskOut]
    removed_lines: list[str] = Field(description="Keys of archived tasks whose lines were removed.")


class IssueImportIn(In):
    """The repository whose issues become tasks."""

    repository: str = Field(min_length=1, max_length=MAX_REPOSITORY_CHARS, description="Its address.")


class ImportedIssuesOut(Out):
    """The result of an import: keys of tasks."""

    added: list[str]
    ended: list[str] = Field(description="Tasks whose issue was closed.")
