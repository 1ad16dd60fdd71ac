"""Tasks of requests from a forge: an issue or a mention becomes a task before an agent works on it.

The same issue is the same task. All steps can be repeated after a crash: the task is found by the address of
its issue, the assignment by its delivery.
"""

import re
from dataclasses import replace

from hutch.domain.commit_text import one_line
from hutch.domain.errors import Conflict, Denied, HutchError, NotFound, Unavailable
from hutch.domain.ids import new_task_id
from hutch.domain.inputs import MAX_TEXT_CHARS, Prompt
from hutch.domain.request_from_forge import ForgeRequest
from hutch.domain.session import NewSession
from hutch.domain.task import (
    ENDED_STATES,
    MAX_DESCRIPTION_CHARS,
    MAX_LISTED,
    MAX_TITLE_CHARS,
    AcceptanceCriterion,
    Task,
    TaskFilter,
    TaskLink,
    TaskLinkKind,
    task_fields,
)
from hutch.domain.task_assignment import TaskAssignment
from hutch.domain.user import Caller
from hutch.flows import sessions
from hutch.flows.flow_services import Services
from hutch.flows.task_work.assignment_requests import assigned_text, new_assignment
from hutch.flows.task_work.task_dependency_check import waiting_reason
from hutch.flows.task_work.task_prompt import criteria_text
from hutch.flows.tasks.task_requests import task_address, task_repository
from hutch.flows.tasks_file.task_keys import KeySequence
from hutch.store.table_access_interface import Rows
from hutch.store.task_assignments import (
    AssignmentStep,
    RepositoryBusy,
    StartedAssignment,
    TaskAssignments,
)
from hutch.store.tasks import Tasks
from hutch.store.webhook_inbox import StartedByInput, StartedInSession
from hutch.system.clock_without_jumps import wall_ms
from hutch.system.lazy_dataclass import dataclass

_BOX = re.compile(r"^ {0,3}[-*+] \[([ xX])\] +(\S[^\r\n]*)", re.M)
_FENCE = re.compile(r"^ {0,3}(`{3,}+|~{3,}+)[^\n`]*+\n.*?(?:^ {0,3}\1[`~]*+[ \t]*+$|\Z)", re.M | re.S)


class RequestWaits(Exception):
    """The request is performed later; the reason is recorded."""


@dataclass(frozen=True, slots=True)
class BegunRequest:
    """The session that performs a request, and the input with which it continues; 0 for its first prompt."""

    session_id: str
    input: int = 0


async def begin_request(
    services: Services,
    who: Caller,
    request: ForgeRequest,
    new: NewSession,
    *,
    delivery_id: str,
    max_busy: int,
) -> BegunRequest:
    """Begin the work on a request's task in a new session, or in the one that works on the task already.

    The delivery is marked as in progress in the same transaction.
    """
    rows = services.rows
    task = await task_of_request(rows, who, request)
    persona = services.default_persona
    assignment = await assignment_of_request(rows, who, task, request, delivery_id, persona=persona)
    if assignment.delivery_id != delivery_id or assignment.state != "waiting":
        return await _add_to(services, who, assignment, delivery_id, new.prompt)
    if reason := await waiting_reason(Tasks(rows), task):
        await TaskAssignments(rows).explain(assignment, reason)
        raise RequestWaits(f"The task {task.key} {reason}.")
    new = replace(
        new,
        delivery=replace(new.delivery, task=task.id),
        prompt=f"{new.prompt}{criteria_text(task)}",
    )
    also = StartedAssignment(assignment, max_busy, StartedInSession(delivery_id))
    try:
        session = await sessions.create(services, who, new, also=also)
    except RepositoryBusy as error:
        await TaskAssignments(rows).explain(assignment, str(error))
        raise RequestWaits(str(error)) from None
    except Unavailable:
        raise
    except HutchError as error:
        reason = services.redactor.redact(str(error))
        await TaskAssignments(rows).step(assignment, AssignmentStep(state="failed", reason=reason))
        raise
    return BegunRequest(session.id)


async def _add_to(
    services: Services, who: Caller, assignment: TaskAssignment, delivery_id: str, text: str
) -> BegunRequest:
    """Pass a further request about a task to the session that works on it."""
    if not assignment.session_id:
        raise RequestWaits(f"The task waits: {assignment.reason}.")
    asked, also = Prompt(text=text[:MAX_TEXT_CHARS]), StartedByInput(delivery_id)
    try:
        given = await sessions.give(services, who, assignment.session_id, asked, also=also)
    except (NotFound, Conflict, Denied) as error:  # the queue ends the work of a session that is gone
        raise RequestWaits(str(error)) from None
    return BegunRequest(assignment.session_id, given.seq)


async def task_of_request(rows: Rows, who: Caller, request: ForgeRequest) -> Task:
    """The task of an issue or pull request. It is made at the first request, and reopened by a later one."""
    tasks, url = Tasks(rows), request.url.partition("#")[0]
    repository = task_repository(request.repository)
    kind: TaskLinkKind = "pull_request" if request.on_pull else "issue"
    found = await tasks.matching(TaskFilter(repository=repository, link=url), limit=1)
    if found:
        task = found[0]
        if task.fields.state in ENDED_STATES:
            reopened = replace(task, fields=replace(task.fields, state="todo"))
            task = await tasks.change(task, reopened, by=who.user.id, note=f"asked again at {request.url}")
        return task
    now = wall_ms()
    task = Task(
        id=new_task_id(),
        repository=repository,
        address=task_address(request.repository),
        key="",
        fields=task_fields(
            title=one_line(request.title)[:MAX_TITLE_CHARS] or f"#{request.number}",
            criteria=() if request.on_pull else criteria_in(request.body),
        ),
        description=request.body[:MAX_DESCRIPTION_CHARS],
        created_by=who.user.id,
        created_ms=now,
        updated_ms=now,
    )
    return await tasks.add(
        task, lambda used: KeySequence(used).next(), links=(TaskLink(kind, url),), by=who.user.id
    )


def criteria_in(body: str) -> tuple[AcceptanceCriterion, ...]:
    """The check boxes of an issue's text, outside of code."""
    text = _FENCE.sub("\n", body.replace("\r\n", "\n"))
    found: dict[str, AcceptanceCriterion] = {}
    for box, said in _BOX.findall(text):
        words = one_line(said)[:MAX_TITLE_CHARS].strip()
        if words:
            found.setdefault(words, AcceptanceCriterion(words, box != " "))
    return tuple(found.values())[:MAX_LISTED]


async def assignment_of_request(
    rows: Rows, who: Caller, task: Task, request: ForgeRequest, delivery_id: str, *, persona: str
) -> TaskAssignment:
    """The work on a request's task; that of another request, if it is open."""
    assignments = TaskAssignments(rows)
    if (found := await assignments.of_delivery(delivery_id)) is not None:
        return found
    for each in await assignments.of_task(task.id):
        if each.is_open:
            note = f"{request.by} asked again: {request.url}"
            await Tasks(rows).note(task, "progress", note, by=who.user.id)
            return each
    new = new_assignment(task, who, persona=persona, delivery_id=delivery_id)
    try:
        return await assignments.add(new, progress=f"{request.by} asked for it. {assigned_text(new)}")
    except Conflict:  # another request was faster
        return next(each for each in await assignments.of_task(task.id) if each.is_open)
