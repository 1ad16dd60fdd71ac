"""Tasks: create, list, change, comment, link, and sync with a TASKS.md."""

from typing import Annotated

from fastapi import Path, Query, Request, Response

from hutch.domain.task import MAX_NAME_CHARS, MAX_TITLE_CHARS, TaskFilter, TaskPriority, TaskState
from hutch.flows.task_work.github_issue_import import import_issues
from hutch.flows.tasks import task_requests as flow
from hutch.flows.tasks.tasks_file_sync_and_import import sync_text
from hutch.gateway.auth.caller_dependency import Reader, Writer
from hutch.gateway.idempotency import ByKey
from hutch.gateway.request_and_response_bodies import Cursor, Limit, NumberCursor, Page, answer, page
from hutch.gateway.rest.base_route import router, server_of
from hutch.gateway.rest.task_request_and_response_bodies import (
    ImportedIssuesOut,
    IssueImportIn,
    NewTask,
    TaskChange,
    TaskConflictOut,
    TaskEventOut,
    TaskLinkIn,
    TaskNote,
    TaskOut,
    TasksFileIn,
    TasksFileOut,
    task_values,
)
from hutch.gateway.rest.task_services import task_services

routes = router("tasks")

TaskName = Annotated[str, Path(max_length=80, description="The id of a task, or its key.", examples=["T-12"])]
Repository = Annotated[
    str,
    Query(max_length=flow.MAX_REPOSITORY_CHARS, description="The address of a repository; empty for any."),
]


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
    found = await flow.list_tasks(task_services(request), caller, which, before=cursor, limit=limit + 1)
    more = found[limit - 1].id if len(found) > limit else None
    return page(request, found[:limit], more)


@routes.post("/tasks", status_code=201, operation_id="create_task", response_model=TaskOut)
async def create(request: Request, caller: Writer, keyed: ByKey, body: NewTask) -> Response:
    """Create a task."""
    values = task_values(body)
    description = values.pop("description", "")
    made = await flow.create_task(
        task_services(request),
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
        task_services(request),
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
        "changed": [
            {"kind": each.kind, "key": each.key, "title": each.fields.title} for each in outcome.updates
        ],
        "conflicts": [TaskConflictOut.of(each) for each in outcome.conflicts],
        "renumbered": outcome.renumbered,
        "removed_lines": outcome.removed_lines,
    }
    return answer(result)


@routes.post("/tasks/import-issues", operation_id="import_issues", response_model=ImportedIssuesOut)
async def import_github_issues(
    request: Request, caller: Writer, keyed: ByKey, body: IssueImportIn
) -> Response:
    """Create tasks from the open issues of a repository on GitHub, and end tasks whose issue was closed.

    At most the 1,000 issues that were changed last are read.
    """
    services = server_of(request).services
    return answer(await import_issues(services, task_services(request), caller, body.repository))


@routes.get("/tasks/{task}", operation_id="get_task", response_model=TaskOut)
async def show(request: Request, caller: Reader, task: TaskName, repository: Repository = "") -> Response:
    """One task."""
    return answer(await flow.find_task(task_services(request), caller, task, repository))


@routes.patch("/tasks/{task}", operation_id="change_task", response_model=TaskOut)
async def change(
    request: Request, caller: Writer, task: TaskName, body: TaskChange, repository: Repository = ""
) -> Response:
    """Change a task; with `revision`, only if it was not changed since."""
    services = task_services(request)
    found = await flow.find_task(services, caller, task, repository)
    return answer(
        await flow.change_task(services, caller, found.id, task_values(body), revision=body.revision)
    )


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
    services = task_services(request)
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
    services = task_services(request)
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
    services = task_services(request)
    found = await flow.find_task(services, caller, task, repository)
    return answer(await flow.link_task(services, caller, found, body.kind, body.target))
