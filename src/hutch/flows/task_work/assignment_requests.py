"""Requests of users about agents' work on tasks: assign, cancel, list."""

import asyncio
from collections.abc import Sequence

from hutch.domain.errors import BadRequest, Conflict
from hutch.domain.ids import new_assignment_id
from hutch.domain.session import Delivery, NewSession
from hutch.domain.task import ENDED_STATES, PERSONA_OWNER, Task
from hutch.domain.task_assignment import TaskAssignment
from hutch.domain.user import Caller
from hutch.flows import sessions
from hutch.flows.personas import find_persona
from hutch.flows.task_work.task_prompt import task_prompt
from hutch.flows.task_work.task_work_services import TaskWorkServices
from hutch.flows.tasks.task_requests import check_reader, check_writer
from hutch.store.task_assignments import CANCELLED_BY_USER, AssignmentStep, TaskAssignments
from hutch.system.clock_without_jumps import wall_ms

DEFAULT_PERSONA = "engineer"


async def assign_task(
    work: TaskWorkServices,
    who: Caller,
    task: Task,
    *,
    persona: str = "",
    reviewer: str = "",
    model: str = "",
    merges: bool = False,
) -> TaskAssignment:
    """Queue an agent's work on a task. The agent has the caller's rights."""
    check_writer(who)
    new = new_assignment(task, who, persona=persona, reviewer=reviewer, model=model, merges=merges)
    await sessions.check_new(work.services, who, session_of(task, new))
    if reviewer:
        await asyncio.to_thread(find_persona, reviewer, work.services.personas)
    made = await work.assignments.add(new, progress=assigned_text(new))
    work.wake.set()
    return made


def new_assignment(
    task: Task,
    who: Caller,
    *,
    persona: str = "",
    reviewer: str = "",
    model: str = "",
    merges: bool = False,
    delivery_id: str = "",
) -> TaskAssignment:
    """An assignment that is not stored yet. Without a persona it is the task's owner, or the engineer."""
    if task.archived or task.fields.state in ENDED_STATES:
        state = "archived" if task.archived else task.fields.state
        raise Conflict(f"The task {task.key} is {state}. Open it again first.")
    if task.repository and not task.address:
        raise BadRequest(
            f"The address of {task.repository} is not known: the task was made by an older version. Name it "
            f"once: hutch tasks edit {task.key} --address ADDRESS"
        )
    if merges and not task.repository:
        raise BadRequest("A task without a repository has no change that could be merged.")
    owner = task.fields.owner
    named = persona.removeprefix(PERSONA_OWNER)
    if not named and owner.startswith(PERSONA_OWNER):
        named = owner.removeprefix(PERSONA_OWNER)
    now = wall_ms()
    return TaskAssignment(
        id=new_assignment_id(),
        task_id=task.id,
        repository=task.repository,
        address=task.address,
        persona=named or DEFAULT_PERSONA,
        model=model,
        reviewer=reviewer.removeprefix(PERSONA_OWNER),
        merges=merges,
        assigned_by=who.user.id,
        delivery_id=delivery_id,
        reason="is queued",
        created_ms=now,
        updated_ms=now,
    )


def assigned_text(assignment: TaskAssignment) -> str:
    review = f", with a review by {assignment.reviewer}" if assignment.reviewer else ""
    merge = ", merged without a person if nothing objects" if assignment.merges else ""
    return f"Assigned to the agent {assignment.persona}{review}{merge}."


def session_of(task: Task, assignment: TaskAssignment) -> NewSession:
    """The session in which an agent works on a task."""
    return NewSession(
        purpose=f"{task.key} {task.fields.title}"[:200],
        repository=assignment.address,
        persona=assignment.persona,
        model=assignment.model,
        deliver=bool(assignment.address),
        delivery=Delivery(task=task.id, titled=True),
        prompt=task_prompt(task),
    )


async def list_assignments(work: TaskWorkServices, who: Caller, task: Task) -> Sequence[TaskAssignment]:
    """The newest first."""
    check_reader(who)
    return await work.assignments.of_task(task.id)


async def cancel_assignment(work: TaskWorkServices, who: Caller, task: Task) -> TaskAssignment:
    """Take the open assignment of a task back; its sessions end."""
    check_writer(who)
    cancelled = await cancel_open(work.assignments, who, task)
    work.wake.set()
    return cancelled


async def cancel_open(assignments: TaskAssignments, who: Caller, task: Task) -> TaskAssignment:
    """Cancel the open assignment of a task. The queue of the server ends its sessions."""
    found = next((each for each in await assignments.of_task(task.id) if each.is_open), None)
    if found is None:
        raise Conflict(f"No agent is assigned to the task {task.key}.")
    step = AssignmentStep(
        state="cancelled",
        reason=CANCELLED_BY_USER,
        progress=f"{found.persona} no longer works on it.",
        task_state="todo",
    )
    if not await assignments.step(found, step, by=who.user.id):
        raise Conflict(
            f"The work on {task.key} has changed in the meantime. Check its state, then cancel it again."
        )
    return await assignments.get(found.id)
