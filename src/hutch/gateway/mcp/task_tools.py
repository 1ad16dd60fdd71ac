"""Tools of MCP clients for tasks: list, read, create, change, assign."""

from typing import Any

from pydantic import Field

from hutch.domain.task import MAX_DESCRIPTION_CHARS, MAX_NAME_CHARS, TaskFilter, TaskState
from hutch.flows.task_work.assignment_requests import assign_task, list_assignments
from hutch.flows.tasks import task_requests as flow
from hutch.gateway.mcp.session_tool_and_call_types import Call, SessionTool
from hutch.gateway.request_and_response_bodies import In, Out, cursor
from hutch.gateway.rest.task_assignments import AssignmentIn, AssignmentOut
from hutch.gateway.rest.task_request_and_response_bodies import (
    NewTask,
    TaskChange,
    TaskEventOut,
    TaskOut,
    task_values,
)
from hutch.gateway.rest.task_services import task_services_of


class ListTasksArguments(In):
    repository: str = Field("", max_length=flow.MAX_REPOSITORY_CHARS)
    states: list[TaskState] = Field(default_factory=list, max_length=10)
    owner: str = Field(
        "", max_length=MAX_NAME_CHARS, description="A name, `persona:NAME`, or `-` for no owner."
    )
    label: str = Field("", max_length=MAX_NAME_CHARS)
    text: str = Field("", max_length=200, description="In the key, the title or the description.")
    limit: int = Field(20, ge=1, le=200)
    cursor: str = Field("", max_length=80, description="`next` of the previous result.")


class TaskArguments(In):
    task: str = Field(max_length=80, description="The id of a task, or its key, such as T-12.")
    repository: str = Field("", max_length=flow.MAX_REPOSITORY_CHARS, description="Whose key it is.")


class UpdateTaskArguments(TaskArguments):
    change: TaskChange = Field(default_factory=TaskChange)
    comment: str = Field("", max_length=MAX_DESCRIPTION_CHARS)
    progress: bool = Field(False, description="The comment is a line of the progress log.")


class AssignTaskArguments(TaskArguments, AssignmentIn):
    pass


class TaskListOut(Out):
    """Tasks, and the cursor of the next page."""

    tasks: list[TaskOut]
    next: str | None


class TaskPageOut(Out):
    """A task with its history and the work of agents on it."""

    task: TaskOut
    history: list[TaskEventOut]
    assignments: list[AssignmentOut]


async def list_tasks(call: Call, args: ListTasksArguments) -> Any:
    which = TaskFilter(
        repository=args.repository,
        states=tuple(args.states),
        owner=args.owner,
        label=args.label,
        text=args.text,
    )
    services = task_services_of(call.server)
    found = await flow.list_tasks(
        services, call.caller, which, before=cursor(args.cursor), limit=args.limit + 1
    )
    more, found = len(found) > args.limit, found[: args.limit]
    return {"tasks": found, "next": found[-1].id if more else None}


async def get_task(call: Call, args: TaskArguments) -> Any:
    services = task_services_of(call.server)
    task = await flow.find_task(services, call.caller, args.task, args.repository)
    history = await flow.task_history(services, call.caller, task)
    work = await list_assignments(call.server.task_work, call.caller, task)
    return {
        "task": task,
        "history": history,
        "assignments": work,
    }


async def create_task(call: Call, args: NewTask) -> Any:
    values = task_values(args)
    description = values.pop("description", "")
    made = await flow.create_task(
        task_services_of(call.server),
        call.caller,
        values,
        repository=args.repository,
        key=args.key,
        description=description,
    )
    return made


async def update_task(call: Call, args: UpdateTaskArguments) -> Any:
    services = task_services_of(call.server)
    task = await flow.find_task(services, call.caller, args.task, args.repository)
    task = await flow.change_task(
        services, call.caller, task.id, task_values(args.change), revision=args.change.revision
    )
    if args.comment.strip():
        await flow.comment_on_task(services, call.caller, task, args.comment, progress=args.progress)
    return await flow.find_task(services, call.caller, task.id)


async def assign(call: Call, args: AssignTaskArguments) -> Any:
    task = await flow.find_task(task_services_of(call.server), call.caller, args.task, args.repository)
    made = await assign_task(
        call.server.task_work,
        call.caller,
        task,
        persona=args.persona,
        reviewer=args.reviewer,
        model=args.model,
        merges=args.merge,
    )
    return made


TASK_TOOLS = (
    SessionTool(
        "list_tasks",
        "List tasks",
        "Tasks, the newest first.",
        ListTasksArguments,
        TaskListOut,
        list_tasks,
        True,
    ),
    SessionTool(
        "get_task",
        "Read a task",
        "A task, its history, and the work of agents on it.",
        TaskArguments,
        TaskPageOut,
        get_task,
        True,
    ),
    SessionTool("create_task", "Create a task", "Add a task to a repository.", NewTask, TaskOut, create_task),
    SessionTool(
        "update_task",
        "Change a task",
        "Change fields of a task, and comment on it or its progress.",
        UpdateTaskArguments,
        TaskOut,
        update_task,
    ),
    SessionTool(
        "assign_task",
        "Assign a task",
        "Let an agent work on a task, with your rights.",
        AssignTaskArguments,
        AssignmentOut,
        assign,
    ),
)
