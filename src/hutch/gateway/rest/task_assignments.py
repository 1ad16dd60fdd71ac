"""Agents' work on tasks: assign, list, cancel."""

from typing import Annotated

from fastapi import Path, Query, Request, Response
from pydantic import Field

from hutch.domain.task import MAX_NAME_CHARS, TaskFilter
from hutch.domain.task_assignment import CriterionEvidence, TaskAssignment
from hutch.flows.task_work import assignment_requests as flow
from hutch.flows.task_work.automatic_assignment import (
    Choice,
    carry_out,
    check_candidates,
    plan_assignments,
)
from hutch.flows.tasks.task_requests import MAX_REPOSITORY_CHARS, find_task
from hutch.gateway.auth.caller_dependency import Reader, Writer
from hutch.gateway.idempotency import ByKey
from hutch.gateway.request_and_response_bodies import In, Out, answer, fields_from
from hutch.gateway.rest.base_route import router, server_of
from hutch.gateway.rest.task_services import task_services

routes = router("tasks")

TaskName = Annotated[str, Path(max_length=80, description="The id of a task, or its key.", examples=["T-12"])]
Repository = Annotated[
    str, Query(max_length=MAX_REPOSITORY_CHARS, description="The address of a repository; empty for any.")
]


class AssignmentIn(In):
    """An agent to assign."""

    persona: str = Field(
        "", max_length=MAX_NAME_CHARS, description="By default the task's owner, or engineer."
    )
    reviewer: str = Field(
        "",
        max_length=MAX_NAME_CHARS,
        description="A persona that must review the change.",
        examples=["reviewer"],
    )
    model: str = Field("", max_length=500, description="`provider:name`; see /models.")
    merge: bool = Field(
        False,
        description="Merge the change without a person, if the evidence is complete and no review objects.",
    )


@fields_from(CriterionEvidence)
class CriterionEvidenceOut(Out):
    """A test or a file that shows that a criterion is met."""


@fields_from(TaskAssignment)
class AssignmentOut(Out):
    """An agent's work on a task."""

    id: str = Field(examples=["asg_01jd2m4c9k7w6t0q8n5x3vbaeh"])
    reason: str = Field(description="Why it is in its state, or what it waits for.")
    evidence: list[CriterionEvidenceOut]
    files: list[str] = Field(description="The files of its change.")


class AutomaticAssignmentIn(In):
    """A request to assign tasks automatically."""

    repository: str = Field("", max_length=MAX_REPOSITORY_CHARS, description="Empty for all.")
    dry_run: bool = Field(True, description="Only show who would get which task, and why.")


class ChoiceOut(Out):
    """A task, who should do it, and why. `owner` is empty if nobody fits."""

    task_id: str
    key: str
    title: str
    owner: str
    why: str


class ChoicesOut(Out):
    """The choices of an automatic assignment."""

    items: list[ChoiceOut]
    failed: list[ChoiceOut] = Field(description="Those that could not be carried out, with the reason.")


class AssignmentsOut(Out):
    """The assignments of a task, the newest first."""

    items: list[AssignmentOut]


@routes.post(
    "/tasks/{task}/assignments", status_code=201, operation_id="assign_task", response_model=AssignmentOut
)
async def assign(
    request: Request,
    caller: Writer,
    keyed: ByKey,
    task: TaskName,
    body: AssignmentIn,
    repository: Repository = "",
) -> Response:
    """Assign a task to an agent, which works with your rights as soon as there is a place."""
    found = await find_task(task_services(request), caller, task, repository)
    made = await flow.assign_task(
        server_of(request).task_work,
        caller,
        found,
        persona=body.persona,
        reviewer=body.reviewer,
        model=body.model,
        merges=body.merge,
    )
    return answer(made, 201)


@routes.post("/tasks/assign", operation_id="assign_automatically", response_model=ChoicesOut)
async def assign_automatically(
    request: Request, caller: Writer, keyed: ByKey, body: AutomaticAssignmentIn
) -> Response:
    """Give the tasks without an owner to the best candidates of `tasks.skills`; or only show the choices."""
    services, work = task_services(request), server_of(request).task_work
    await check_candidates(work.services.rows, work.services.personas, work.candidates)
    which = TaskFilter(repository=body.repository)
    choices = await plan_assignments(services, caller, work.candidates, which)
    failed = []
    if not body.dry_run:
        failed = await carry_out(
            services,
            caller,
            choices,
            lambda task, persona: flow.assign_task(work, caller, task, persona=persona),
        )
    return answer(
        {"items": [_choice(each) for each in choices], "failed": [_choice(each) for each in failed]}
    )


def _choice(choice: Choice) -> dict[str, str]:
    task = choice.task
    return {
        "task_id": task.id,
        "key": task.key,
        "title": task.fields.title,
        "owner": choice.owner,
        "why": choice.why,
    }


@routes.get("/tasks/{task}/assignments", operation_id="list_assignments", response_model=AssignmentsOut)
async def listed(request: Request, caller: Reader, task: TaskName, repository: Repository = "") -> Response:
    """The work of agents on a task, the newest first."""
    found = await find_task(task_services(request), caller, task, repository)
    return answer({"items": await flow.list_assignments(server_of(request).task_work, caller, found)})


@routes.post(
    "/tasks/{task}/assignments/cancel", operation_id="cancel_assignment", response_model=AssignmentOut
)
async def cancel(
    request: Request, caller: Writer, keyed: ByKey, task: TaskName, repository: Repository = ""
) -> Response:
    """Take a task back from its agent; its session ends."""
    found = await find_task(task_services(request), caller, task, repository)
    return answer(await flow.cancel_assignment(server_of(request).task_work, caller, found))
