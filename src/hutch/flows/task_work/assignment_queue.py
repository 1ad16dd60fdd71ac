"""Drives agents' work on tasks: begins what may begin, and takes each assignment to its end.

All of its state is in rows. A step is written in the transaction that opens its session or adds its prompt.
So the server after a killed one continues, and no step is taken twice.
"""

import asyncio
import time
from collections.abc import Sequence
from contextlib import suppress

import structlog

from hutch.domain.errors import Conflict, HutchError, LimitReached, Unavailable
from hutch.domain.inputs import End
from hutch.domain.task import ENDED_STATES, Task, TaskFilter, TaskPriority
from hutch.domain.task_assignment import TaskAssignment
from hutch.flows import sessions
from hutch.flows.task_work.assignment_requests import assign_task, session_of
from hutch.flows.task_work.assignment_review_and_merge import follow_proposal, follow_review, follow_work
from hutch.flows.task_work.automatic_assignment import carry_out, plan_assignments
from hutch.flows.task_work.task_dependency_check import waiting_reason
from hutch.flows.task_work.task_work_services import TaskWorkServices
from hutch.flows.tasks.task_requests import TaskServices
from hutch.store.task_assignments import CANCELLED_BY_USER, AssignmentStep, RepositoryBusy, StartedAssignment
from hutch.store.users import Users

CHOICE_INTERVAL_S = 30.0
BUSY_INTERVAL_S, IDLE_INTERVAL_S = 0.5, 3.0
_RANKS: dict[TaskPriority, int] = {"urgent": 0, "high": 1, "medium": 2, "": 3, "low": 4}
logger = structlog.get_logger()


class AssignmentQueue:
    """The queue of one server."""

    def __init__(self, work: TaskWorkServices) -> None:
        self._work = work
        self._next_choice_s = 0.0
        self._ending: set[str] = set()  # sessions that were asked to end

    async def run(self) -> None:
        """Work until cancelled."""
        while True:
            try:
                is_busy = await self.tick()
            except HutchError as error:
                logger.warning("assignments.not_read", problem=str(error))
                is_busy = False
            with suppress(TimeoutError):
                async with asyncio.timeout(BUSY_INTERVAL_S if is_busy else IDLE_INTERVAL_S):
                    await self._work.wake.wait()
            self._work.wake.clear()

    async def tick(self) -> bool:
        """Take the next step of each open assignment, if it is due. True while agents work."""
        if self._work.assigns and time.monotonic() >= self._next_choice_s:
            self._next_choice_s = time.monotonic() + CHOICE_INTERVAL_S
            await self._choose()
        await self._end_cancelled()
        found = await self._work.assignments.unfinished()
        for assignment in found:
            if assignment.state != "waiting":
                await self._take(assignment)
        waiting = [each for each in found if each.state == "waiting"]
        for assignment in await self._by_priority(waiting):
            await self._take(assignment)
        return any(each.state in ("working", "reviewing") for each in found) or bool(waiting)

    async def _end_cancelled(self) -> None:
        """End the sessions of cancelled assignments: a command may have cancelled them."""
        for session_id, user_id in await self._work.assignments.to_end():
            if session_id in self._ending:
                continue
            self._ending.add(session_id)
            try:
                who = await self._work.caller(user_id, from_forge=False)
                await sessions.give(self._work.services, who, session_id, End())
            except HutchError as error:
                logger.info("assignment.session_not_ended", session_id=session_id, problem=str(error))

    async def _choose(self) -> None:
        """Give tasks without an owner to the best candidates, on behalf of the first owner."""
        work, owner = self._work, await Users(self._work.services.rows).first_owner()
        if owner is None:
            return
        who = await work.caller(owner.id, from_forge=False)
        services = TaskServices(work.services.rows, work.services.redactor)
        choices = await plan_assignments(services, who, work.candidates, TaskFilter())
        failed = await carry_out(
            services, who, choices, lambda task, persona: assign_task(work, who, task, persona=persona)
        )
        for each in failed:
            logger.info("task.not_assigned", task=each.task.id, owner=each.owner, problem=each.why)

    async def _take(self, assignment: TaskAssignment) -> None:
        try:
            task = await self._work.tasks.find(assignment.task_id)
            if assignment.state != "proposed" and await self._is_over(assignment, task):
                return
            match assignment.state:
                case "waiting":
                    await self._begin(assignment, task)
                case "working":
                    await follow_work(self._work, assignment)
                case "reviewing":
                    await follow_review(self._work, assignment)
                case "proposed":
                    await follow_proposal(self._work, assignment)
        except (Unavailable, Conflict, LimitReached) as error:  # later: a forge is down, a rate was exceeded
            if str(error) != assignment.reason:
                await self._work.assignments.explain(assignment, self._clean(error))
        except HutchError as error:
            await self._fail(assignment, self._clean(error))
        except Exception:
            logger.exception("assignment.step_failed", assignment=assignment.id)
            await self._fail(assignment, "Hutch itself failed.")

    async def _by_priority(self, waiting: Sequence[TaskAssignment]) -> list[TaskAssignment]:
        """The most urgent first, then the oldest."""
        ranked = []
        for each in waiting:
            task = await self._work.tasks.get(each.task_id)
            if task is not None:
                ranked.append((_RANKS[task.fields.priority], each.id, each))
        return [each for _, _, each in sorted(ranked, key=lambda item: item[:2])]

    async def _begin(self, assignment: TaskAssignment, task: Task) -> None:
        """Open the session of an assignment, unless its task must wait."""
        work = self._work
        if assignment.delivery_id:  # the handler of the forge request begins it
            return
        if reason := await waiting_reason(work.tasks, task):
            await self._explain(assignment, reason)
            return
        who = await work.caller(assignment.assigned_by, from_forge=False)
        try:
            also = StartedAssignment(assignment, work.max_busy)
            await sessions.create(work.services, who, session_of(task, assignment), also=also)
        except RepositoryBusy as error:
            await self._explain(assignment, str(error))

    async def _is_over(self, assignment: TaskAssignment, task: Task) -> bool:
        """Cancel an assignment whose task was closed by a user; its sessions are ended."""
        if not task.archived and task.fields.state not in ENDED_STATES:
            return False
        said = f"{assignment.persona} stops: the task was closed."
        step = AssignmentStep(state="cancelled", reason=CANCELLED_BY_USER, progress=said)
        await self._work.assignments.step(assignment, step)
        return True

    async def _explain(self, assignment: TaskAssignment, reason: str) -> None:
        if reason != assignment.reason:
            await self._work.assignments.explain(assignment, reason)

    async def _fail(self, assignment: TaskAssignment, reason: str) -> None:
        await self._work.assignments.step(
            assignment,
            AssignmentStep(
                state="failed",
                reason=reason,
                progress=f"{assignment.persona} could not continue: {reason}",
                task_state="blocked",
            ),
        )

    def _clean(self, error: HutchError) -> str:
        return self._work.services.redactor.redact(str(error))
