"""TASKS.md files on branches, which the server keeps in step with the tasks."""

from typing import Annotated

from fastapi import Query, Request, Response
from pydantic import Field

from hutch.domain.errors import NotFound
from hutch.domain.one_line_text import echo
from hutch.domain.tasks_file_on_branch import TasksFileMode, TasksFileOnBranch
from hutch.flows.task_work import tasks_file_on_branch_sync as flow
from hutch.flows.tasks.task_requests import MAX_REPOSITORY_CHARS
from hutch.gateway.auth.caller_dependency import Reader, Writer
from hutch.gateway.request_and_response_bodies import In, Out, answer, fields_from
from hutch.gateway.rest.base_route import router, server_of
from hutch.gateway.rest.task_request_and_response_bodies import TaskConflictOut
from hutch.gateway.rest.task_services import task_services

routes = router("tasks")


class TasksFileOnBranchIn(In):
    """The file to keep in step."""

    repository: str = Field(
        max_length=MAX_REPOSITORY_CHARS, description="A directory of the server's machine."
    )
    branch: str = Field("", max_length=300, description="By default the current one.")
    path: str = Field("", max_length=1000, description=f"By default `{flow.DEFAULT_PATH}`.")
    mode: TasksFileMode = Field("commit", description="Commit to the branch, or propose a change for it.")
    allow_removals: bool = Field(False, description="Accept that most of the tasks are gone.")


@fields_from(TasksFileOnBranch, "repository branch path mode change_id problem synced_ms")
class TasksFileOnBranchOut(Out):
    """A file that is kept in step with the tasks."""

    change_id: str = Field(description="The change of the text, open or closed; empty if there is none.")
    problem: str = Field(description="Why the last sync failed; empty if it did not.")


class ConnectedFileOut(TasksFileOnBranchOut):
    """The result of the first sync."""

    updates: int
    conflicts: list[TaskConflictOut]


class TasksFilesOut(Out):
    """The files that are kept in step."""

    items: list[TasksFileOnBranchOut]


@routes.get("/tasks-files", operation_id="list_tasks_files", response_model=TasksFilesOut)
async def listed(request: Request, caller: Reader) -> Response:
    """The TASKS.md files on branches that are kept in step with tasks that you may see."""
    found = await flow.list_files(task_services(request), caller)
    return answer({"items": [TasksFileOnBranchOut.of(each) for each in found]})


@routes.put("/tasks-files", operation_id="connect_tasks_file", response_model=ConnectedFileOut)
async def connect(request: Request, caller: Writer, body: TasksFileOnBranchIn) -> Response:
    """Sync a TASKS.md on a branch now, and from now on: by commits, or by a change for it."""
    file, outcome = await flow.connect_file(
        server_of(request).task_work,
        task_services(request),
        caller,
        repository=body.repository,
        branch=body.branch,
        path=body.path,
        mode=body.mode,
        allow_removals=body.allow_removals,
    )
    shown = {name: getattr(file, name) for name in TasksFileOnBranchOut.model_fields}
    conflicts = [TaskConflictOut.of(each) for each in outcome.conflicts]
    return answer({**shown, "updates": len(outcome.updates), "conflicts": conflicts})


@routes.delete("/tasks-files", status_code=204, operation_id="disconnect_tasks_file")
async def disconnect(
    request: Request,
    caller: Writer,
    repository: Annotated[str, Query(min_length=1, max_length=MAX_REPOSITORY_CHARS)],
) -> Response:
    """Stop syncing the file of a repository. The file and the tasks stay."""
    if not await flow.disconnect_file(task_services(request), caller, repository):
        raise NotFound(f"No file of {echo(repository)} is synced.")
    return Response(status_code=204)
