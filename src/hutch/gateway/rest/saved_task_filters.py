"""The filters of tasks that a user has saved."""

from typing import Annotated

from fastapi import Path, Request, Response
from pydantic import Field

from hutch.domain.errors import NotFound
from hutch.domain.one_line_text import check_line, echo
from hutch.domain.task import MAX_NAME_CHARS, TaskPriority, TaskState
from hutch.flows.tasks.task_requests import MAX_REPOSITORY_CHARS, check_reader
from hutch.gateway.auth.caller_dependency import Reader
from hutch.gateway.request_and_response_bodies import In, Out, answer
from hutch.gateway.rest.base_route import router, server_of
from hutch.store.saved_task_filters import TaskFilters

routes = router("tasks")

Name = Annotated[str, Path(min_length=1, max_length=MAX_NAME_CHARS, examples=["my bugs"])]
Short = Annotated[str, Field(max_length=MAX_NAME_CHARS)]


class TaskQuery(In):
    """Conditions on tasks; the fields are those of `GET /tasks`."""

    repository: str = Field("", max_length=MAX_REPOSITORY_CHARS)
    states: list[TaskState] = Field(default_factory=list, max_length=10)
    owner: Short = ""
    label: Short = ""
    milestone: Short = ""
    priority: TaskPriority = ""
    text: str = Field("", max_length=200)
    archived: bool = False


class SavedFilterOut(Out):
    """A saved filter."""

    name: str
    query: TaskQuery


class SavedFiltersOut(Out):
    """Your saved filters, by name."""

    items: list[SavedFilterOut]


@routes.get("/task-filters", operation_id="list_task_filters", response_model=SavedFiltersOut)
async def listed(request: Request, caller: Reader) -> Response:
    """Your saved filters of tasks."""
    check_reader(caller)
    found = await TaskFilters(server_of(request).rows, caller.user.id).list()
    return answer({"items": [{"name": name, "query": query} for name, query in found.items()]})


@routes.put("/task-filters/{name}", status_code=204, operation_id="save_task_filter")
async def save(request: Request, caller: Reader, name: Name, body: TaskQuery) -> Response:
    """Save a filter of tasks under a name; it replaces one of the same name. Only you see it."""
    check_reader(caller)
    check_line("The name of a filter", name)
    server = server_of(request)
    query = body.model_dump()
    query["text"] = server.redactor.redact(body.text)
    await TaskFilters(server.rows, caller.user.id).set(server.redactor.redact(name), query)
    return Response(status_code=204)


@routes.delete("/task-filters/{name}", status_code=204, operation_id="delete_task_filter")
async def remove(request: Request, caller: Reader, name: Name) -> Response:
    """Delete a saved filter."""
    check_reader(caller)
    if not await TaskFilters(server_of(request).rows, caller.user.id).delete(name):
        raise NotFound(f"You have no filter {echo(name)}.")
    return Response(status_code=204)
