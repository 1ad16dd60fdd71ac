"""The assignments of tasks to agents, as rows.

A step of an assignment is one transaction: it names the state it leaves, so two servers, or a killed one
and its successor, never take the same step twice.
"""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

from sqlalchemy import ColumnElement, Connection, func, insert, select, update

from hutch.domain.errors import Conflict, NotFound
from hutch.domain.one_line_text import echo
from hutch.domain.session import SessionInput
from hutch.domain.task import Task, TaskLink, TaskState
from hutch.domain.task_assignment import (
    BUSY_ASSIGNMENT_STATES,
    OPEN_ASSIGNMENT_STATES,
    AssignmentState,
    CriterionEvidence,
    TaskAssignment,
)
from hutch.store.schema import sessions, usage
from hutch.store.session_creation import OpenedSession
from hutch.store.table_access_interface import ExtraWrite, Rows
from hutch.store.task_rows import history_row
from hutch.store.task_tables import task_assignments, task_history, tasks
from hutch.store.tasks import change_in, link_in, task_in
from hutch.store.usage_from_events import NANO
from hutch.system.clock_without_jumps import wall_ms
from hutch.system.lazy_dataclass import dataclass

MAX_REASON_CHARS = 2000
MAX_PAST_WORK = 500
CANCELLED_BY_USER = "cancelled by a user"


class RepositoryBusy(Conflict):
    """As many agents work on the repository as may."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignmentStep:
    """The next state of an assignment, and its effect on the task."""

    state: AssignmentState
    reason: str = ""
    progress: str = ""  # a line of the task's progress log
    task_state: TaskState | None = None
    links: tuple[TaskLink, ...] = ()
    values: Mapping[str, Any] | None = None  # further columns


@dataclass(frozen=True, slots=True)
class PastWork:
    """An assignment that has ended, for the choice of the next one."""

    persona: str
    done: bool
    files: tuple[str, ...]
    cost_usd: float  # 0 when the price of its model is unknown


class TaskAssignments:
    """The assignments of an installation."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows

    async def add(self, new: TaskAssignment, *, progress: str) -> TaskAssignment:
        """Queue work on a task, and make the persona its owner. A task has one open assignment at most."""

        def add(connection: Connection) -> TaskAssignment:
            there = _select_where(connection, task_assignments.c.task_id == new.task_id, _is_open())
            if there:
                if new.delivery_id and there[0].delivery_id == new.delivery_id:
                    return there[0]
                raise Conflict(
                    f"An agent is assigned to this task already: {there[0].persona} ({there[0].state}). "
                    "Cancel that first."
                )
            connection.execute(insert(task_assignments).values(_row(new)))
            task = task_in(connection, new.task_id)
            state = "todo" if task.fields.state == "blocked" else task.fields.state
            owned = replace(task, fields=replace(task.fields, owner=f"persona:{new.persona}", state=state))
            change_in(connection, task, owned, new.assigned_by, "")
            _note(connection, task, progress, new.assigned_by)
            return new

        return await self._rows.change(add)

    async def get(self, assignment_id: str) -> TaskAssignment:
        found = await self._where(task_assignments.c.id == assignment_id)
        if not found:
            raise NotFound(f"There is no assignment {echo(assignment_id, 80)}.")
        return found[0]

    async def of_task(self, task_id: str) -> list[TaskAssignment]:
        """The newest first."""
        return (await self._where(task_assignments.c.task_id == task_id))[::-1]

    async def of_delivery(self, delivery_id: str) -> TaskAssignment | None:
        return next(iter(await self._where(task_assignments.c.delivery_id == delivery_id)), None)

    async def unfinished(self) -> list[TaskAssignment]:
        """All open assignments, the oldest first."""
        return await self._where(_is_open())

    async def to_end(self) -> list[tuple[str, str]]:
        """Open sessions of assignments that a user has cancelled, each with the user who had assigned it."""
        cancelled = (
            task_assignments.c.state == "cancelled",
            task_assignments.c.reason == CANCELLED_BY_USER,
            sessions.c.state != "ended",
        )
        here = sessions.c.id.in_([task_assignments.c.session_id, task_assignments.c.review_session_id])
        statement = select(sessions.c.id, task_assignments.c.assigned_by).join(task_assignments, here)
        return await self._rows.fetch(
            lambda connection: [(row[0], row[1]) for row in connection.execute(statement.where(*cancelled))]
        )

    async def past_work(self, *, limit: int = MAX_PAST_WORK) -> list[PastWork]:
        """The newest assignments that ended well or badly, with what their sessions have cost."""
        ended = select(task_assignments).where(task_assignments.c.state.in_(("done", "failed")))
        newest = ended.order_by(task_assignments.c.id.desc()).limit(limit)

        def fetch(connection: Connection) -> list[PastWork]:
            found = [_assignment(row) for row in connection.execute(newest).mappings()]
            ids = [each.session_id for each in found]
            totals = select(usage.c.session_id, func.sum(usage.c.cost_nano_usd))
            totals = totals.where(usage.c.session_id.in_(ids)).group_by(usage.c.session_id)
            costs = {row[0]: int(row[1]) / NANO for row in connection.execute(totals)}
            return [
                PastWork(each.persona, each.state == "done", each.files, costs.get(each.session_id, 0.0))
                for each in found
            ]

        return await self._rows.fetch(fetch)

    async def step(self, assignment: TaskAssignment, step: AssignmentStep, *, by: str = "hutch") -> bool:
        """Take a step; False if another process has taken one since `assignment` was read."""
        return await self._rows.change(lambda connection: step_in(connection, assignment, step, by))

    async def explain(self, assignment: TaskAssignment, reason: str) -> None:
        """Store the reason why an assignment waits, without a line in the history of its task."""
        here = (task_assignments.c.id == assignment.id, task_assignments.c.state == assignment.state)
        values = {"reason": reason[:MAX_REASON_CHARS]}
        statement = update(task_assignments).where(*here).values(values)
        await self._rows.change(lambda connection: connection.execute(statement).rowcount)

    async def prove(
        self, assignment_id: str, evidence: CriterionEvidence, *, progress: str, by: str
    ) -> TaskAssignment:
        """Add evidence for a criterion of an open assignment's task, and tick the criterion."""

        def prove(connection: Connection) -> TaskAssignment:
            found = _open(connection, assignment_id)
            others = tuple(each for each in found.evidence if each.criterion != evidence.criterion)
            proved = replace(found, evidence=(*others, evidence), updated_ms=wall_ms())
            _write(connection, proved)
            task = task_in(connection, found.task_id)
            criteria = tuple(
                replace(each, done=True) if each.text == evidence.criterion else each
                for each in task.fields.criteria
            )
            change_in(connection, task, replace(task, fields=replace(task.fields, criteria=criteria)), by, "")
            _note(connection, task, progress, by)
            return proved

        return await self._rows.change(prove)

    async def withdraw(self, assignment: TaskAssignment, criteria: Collection[str], *, why: str) -> None:
        """Remove evidence that does not hold at the end, and untick its criteria."""

        def withdraw(connection: Connection) -> None:
            found = _open(connection, assignment.id)
            kept = tuple(each for each in found.evidence if each.criterion not in criteria)
            _write(connection, replace(found, evidence=kept, updated_ms=wall_ms()))
            task = task_in(connection, found.task_id)
            unticked = tuple(
                replace(each, done=False) if each.text in criteria else each for each in task.fields.criteria
            )
            changed = replace(task, fields=replace(task.fields, criteria=unticked))
            change_in(connection, task, changed, "hutch", why)

        await self._rows.change(withdraw)

    async def _where(self, *which: ColumnElement[bool]) -> list[TaskAssignment]:
        return await self._rows.fetch(lambda connection: _select_where(connection, *which))


@dataclass(frozen=True, slots=True)
class StartedAssignment:
    """Marks an assignment as begun, in the transaction that opens its session.

    If it was begun meanwhile, or the repository has no place for another agent, nothing is opened.
    """

    assignment: TaskAssignment
    max_busy: int  # agents that may work on the repository at the same time
    also: ExtraWrite[OpenedSession] | None = None

    def write(self, connection: Connection, made: OpenedSession) -> None:
        assignment = self.assignment
        if assignment.repository:
            busy = (task_assignments.c.state.in_(BUSY_ASSIGNMENT_STATES),)
            here = task_assignments.c.repository == assignment.repository
            counted = select(func.count()).select_from(task_assignments).where(here, *busy)
            if connection.execute(counted).scalar_one() >= self.max_busy:
                agents = "1 agent works" if self.max_busy == 1 else f"{self.max_busy} agents work"
                raise RepositoryBusy(f"waits for a place: {agents} on {assignment.repository}")
        step = AssignmentStep(
            state="working",
            progress=f"{assignment.persona} began to work in session {made.session.id}.",
            task_state="doing",
            links=(TaskLink("session", made.session.id),),
            values={"session_id": made.session.id, "input": 0},
        )
        if not step_in(connection, assignment, step, "hutch"):
            raise Conflict(f"The assignment {assignment.id} has begun already.")
        if self.also:
            self.also.write(connection, made)


@dataclass(frozen=True, slots=True)
class StartedReview:
    """Notes the session that reviews the change of an assignment, in the transaction that opens it."""

    assignment: TaskAssignment

    def write(self, connection: Connection, made: OpenedSession) -> None:
        step = AssignmentStep(
            state="reviewing",
            progress=f"{self.assignment.reviewer} reviews the change in session {made.session.id}.",
            links=(TaskLink("session", made.session.id),),
            values={"review_session_id": made.session.id},
        )
        if not step_in(connection, self.assignment, step, "hutch"):
            raise Conflict(f"The review of {self.assignment.id} has begun already.")


@dataclass(frozen=True, slots=True)
class StartedRework:
    """Notes that the agent continues after a review, in the transaction that adds the prompt."""

    assignment: TaskAssignment
    progress: str

    def write(self, connection: Connection, made: SessionInput) -> None:
        step = AssignmentStep(
            state="working",
            progress=self.progress,
            task_state="doing",
            values={"input": made.seq, "reworks": self.assignment.reworks + 1, "review_session_id": ""},
        )
        if not step_in(connection, self.assignment, step, "hutch"):
            raise Conflict(f"The assignment {self.assignment.id} continues already.")


def step_in(connection: Connection, assignment: TaskAssignment, step: AssignmentStep, by: str) -> bool:
    """Take a step within a transaction; False if the assignment is no longer in the state that it leaves."""
    here = (
        task_assignments.c.id == assignment.id,
        task_assignments.c.state == assignment.state,
        task_assignments.c.reworks == assignment.reworks,
    )
    values = {"state": step.state, "reason": step.reason[:MAX_REASON_CHARS], "updated_ms": wall_ms()}
    values |= step.values or {}
    if connection.execute(update(task_assignments).where(*here).values(values)).rowcount != 1:
        return False
    task = task_in(connection, assignment.task_id)
    if step.task_state is not None and task.fields.state != step.task_state:
        changed = replace(task, fields=replace(task.fields, state=step.task_state))
        change_in(connection, task, changed, by, step.reason)
    for each in step.links:
        link_in(connection, task, each, by)
    if step.progress:
        _note(connection, task, step.progress, by)
    return True


def _is_open() -> ColumnElement[bool]:
    return task_assignments.c.state.in_(OPEN_ASSIGNMENT_STATES)


def _open(connection: Connection, assignment_id: str) -> TaskAssignment:
    found = _select_where(connection, task_assignments.c.id == assignment_id, _is_open())
    if not found:
        raise Conflict("The work on this task has ended.")
    return found[0]


def _select_where(connection: Connection, *which: ColumnElement[bool]) -> list[TaskAssignment]:
    statement = select(task_assignments).where(*which).order_by(task_assignments.c.id)
    return [_assignment(row) for row in connection.execute(statement).mappings()]


def _write(connection: Connection, assignment: TaskAssignment) -> None:
    here = task_assignments.c.id == assignment.id
    connection.execute(update(task_assignments).where(here).values(_row(assignment)))


def _note(connection: Connection, task: Task, text: str, by: str) -> None:
    revision = select(tasks.c.revision).where(tasks.c.id == task.id)
    now = int(connection.execute(revision).scalar_one())
    connection.execute(insert(task_history).values(history_row(task.id, "progress", now, by, text, {})))


def _row(assignment: TaskAssignment) -> dict[str, Any]:
    evidence: Sequence[CriterionEvidence] = assignment.evidence
    values = {**asdict(assignment), "evidence": json.dumps([asdict(each) for each in evidence])}
    return {**values, "reason": assignment.reason[:MAX_REASON_CHARS], "files": json.dumps(assignment.files)}


def _assignment(row: Mapping[Any, Any]) -> TaskAssignment:
    evidence = tuple(CriterionEvidence(**each) for each in json.loads(row["evidence"]))
    return TaskAssignment(**{**row, "evidence": evidence, "files": tuple(json.loads(row["files"]))})
