"""Tasks: create, list, change, comment, link, and sync with a TASKS.md."""

from typing import Annotated, Any

from fastapi import Path, Query, Request, Response
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
    TaskFilter,
    TaskLink,
    TaskLinkKind,
    TaskPriority,
    TaskState,
)
from hutch.flows.tasks import task_requests as flow
from hutch.flows.tasks.task_file_sync import MAX_FILE_CHARS, sync_text
from hutch.flows.tasks_file.field_merge import FieldConflict
from hutch.flows.tasks_file.task_keys import RenumberedTask
from hutch.gateway.auth.caller_dependency import Reader, Writer
from hutch.gateway.idempotency import ByKey
from hutch.gateway.json_bodies_and_pages import (
    Cursor,
    In,
    Limit,
    NumberCursor,
    Out,
    Page,
    answer,
    fields_from,
    page,
)
from hutch.gateway.rest.base_route import router, server_of

routes = router("tasks")

TaskName = Annotated[str, Path(max_length=80, description="The id of a task, or its key.", examples=["T-12"])]
Repository = Annotated[
    str,
    Query(max_length=flow.MAX_REPOSITORY_CHARS, description="The address of a repository; empty for any."),
]
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

    repository: str = Field(
        "", max_length=flow.MAX_REPOSITORY_CHARS, description="The address of its repository."
    )
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

    repository: str = Field(max_length=flow.MAX_REPOSITORY_CHARS)
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


class TasksFileOut(Out):
    """The result of a sync: write `text` to the file, and keep it as the base of the next one."""

    text: str
    updates: int = Field(description="The number of stored tasks that were added, changed or archived.")
    conflicts: list[TaskConflictOut]
    renumbered: list[RenumberedTaskOut]
    removed_lines: list[str] = Field(description="Keys of archived tasks whose lines were removed.")


def _services(request: Request) -> flow.TaskServices:
    server = server_of(request)
    return flow.TaskServices(server.rows, server.redactor)


def _values(body: NewTask | TaskChange) -> dict[str, Any]:
    values = body.model_dump(exclude_none=True, exclude={"repository", "key", "revision"})
    if "criteria" in values:
        values["criteria"] = flow.criteria_from(values["criteria"])
    return values


@routes.get("/tasks", operation_id="list_tasks", response_model=Page[TaskOut])
async def listed(
    request: Request,
    caller: Reader,
    repository: Repository = "",
    state: Annotated[list[TaskState] | None, Query(max_length=10)] = None,
    owner: Annotated[str, Query(max_length=MAX_NAME_CHARS)] = "",
    label: Annotated[str, Query(max_length=MAX_NAME_CHARS)] = "",
    milestone: Annotated[str, Query(max_length=MAX_NAME_CHARS)] = "",
    priority: TaskPriority = "",
    q: Annotated[str, Query(max_length=200, description="Text in the key, title or description.")] = "",
    link: Annotated[str, Query(max_length=MAX_TITLE_CHARS, description="The target of a link.")] = "",
    archived: bool = False,
    cursor: Cursor = "",
    limit: Limit = 50,
) -> Response:
    """Tasks, the newest first."""
    which = TaskFilter(
        repository=repository,
        states=tuple(state or ()),
        owner=owner,
        label=label,
        milestone=milestone,
        priority=priority,
        text=q,
        link=link,
        archived=archived,
    )
    found = await flow.list_tasks(_services(request), caller, which, before=cursor, limit=limit + 1)
    more = found[limit - 1].id if len(found) > limit else None
    return page(request, found[:limit], more)


@routes.post("/tasks", status_code=201, operation_id="create_task", response_model=TaskOut)
async def create(request: Request, caller: Writer, keyed: ByKey, body: NewTask) -> Response:
    """Create a task."""
    values = _values(body)
    description = values.pop("description", "")
    made = await flow.create_task(
        _services(request),
        caller,
        values,
        repository=body.repository,
        key=body.key,
        description=description,
    )
    return answer(made, 201)


@routes.post("/tasks/sync", operation_id="sync_tasks_file", response_model=TasksFileOut)
async def sync(request: Request, caller: Writer, keyed: ByKey, body: TasksFileIn) -> Response:
    """Merge the text of a TASKS.md with the tasks of its repository."""
    outcome = await sync_text(
        _services(request),
        caller,
        repository=body.repository,
        base=body.base,
        text=body.text,
        allow_removals=body.allow_removals,
        dry_run=body.dry_run,
    )
    result = {
        "text": outcome.text,
        "updates": len(outcome.updates),
        "conflicts": [TaskConflictOut.of(each) for each in outcome.conflicts],
        "renumbered": outcome.renumbered,
        "removed_lines": outcome.removed_lines,
    }
    return answer(result)


@routes.get("/tasks/{task}", operation_id="get_task", response_model=TaskOut)
async def show(request: Request, caller: Reader, task: TaskName, repository: Repository = "") -> Response:
    """One task."""
    return answer(await flow.find_task(_services(request), caller, task, repository))


@routes.patch("/tasks/{task}", operation_id="change_task", response_model=TaskOut)
async def change(
    request: Request, caller: Writer, task: TaskName, body: TaskChange, repository: Repository = ""
) -> Response:
    """Change a task; with `revision`, only if it was not changed since."""
    services = _services(request)
    found = await flow.find_task(services, caller, task, repository)
    return answer(await flow.change_task(services, caller, found.id, _values(body), revision=body.revision))


@routes.get("/tasks/{task}/history", operation_id="get_task_history", response_model=Page[TaskEventOut])
async def history(
    request: Request,
    caller: Reader,
    task: TaskName,
    repository: Repository = "",
    cursor: NumberCursor = "",
    limit: Limit = 50,
) -> Response:
    """Everything that happened to a task, the oldest first: changes, comments, progress."""
    services = _services(request)
    found = await flow.find_task(services, caller, task, repository)
    events = await flow.task_history(services, caller, found, after=int(cursor or 0), limit=limit + 1)
    more = str(events[limit - 1].id) if len(events) > limit else None
    return page(request, events[:limit], more)


@routes.post("/tasks/{task}/comments", status_code=204, operation_id="comment_on_task")
async def comment(
    request: Request,
    caller: Writer,
    keyed: ByKey,
    task: TaskName,
    body: TaskNote,
    repository: Repository = "",
) -> Response:
    """Add a comment to a task, or a line to its progress log."""
    services = _services(request)
    found = await flow.find_task(services, caller, task, repository)
    await flow.comment_on_task(services, caller, found, body.text, progress=body.progress)
    return Response(status_code=204)


@routes.post("/tasks/{task}/links", operation_id="link_task", response_model=TaskOut)
async def link(
    request: Request,
    caller: Writer,
    keyed: ByKey,
    task: TaskName,
    body: TaskLinkIn,
    repository: Repository = "",
) -> Response:
    """Link a session, a change, a pull request or an issue to a task."""
    services = _services(request)
    found = await flow.find_task(services, caller, task, repository)
    return answer(await flow.link_task(services, caller, found, body.kind, body.target))
