"""Evidence that a criterion of a task is met: a test that passed, or a file of the workspace.

It is checked when the agent names it, and again at the end: the test must have passed when it last ran, and
the change must not delete the file.
"""

from collections.abc import Sequence
from dataclasses import replace

from hutch.agent.persona import Persona
from hutch.agent.run_persona_tools_and_rules import Equipment, equip
from hutch.agent.tools.interface import Context
from hutch.agent.tools.model_written_paths import existing
from hutch.agent.tools.update_task import UpdateTask
from hutch.domain.errors import BadRequest, Conflict, NotFound
from hutch.domain.git_patch import Patch
from hutch.domain.session import Session
from hutch.domain.task import AcceptanceCriterion
from hutch.domain.task_assignment import CriterionEvidence
from hutch.sessions.live_session import LiveSession
from hutch.store.table_access_interface import Rows
from hutch.store.task_assignments import TaskAssignments
from hutch.store.tasks import Tasks
from hutch.store.test_runs import StoredTests
from hutch.system.clock_without_jumps import wall_ms
from hutch.system.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class SessionTask:
    """The task of a session, as its agent may change it: progress and evidence, nothing else."""

    rows: Rows
    session: Session
    assignment_id: str

    async def progress(self, text: str) -> str:
        task = await Tasks(self.rows).find(self.session.delivery.task)
        await Tasks(self.rows).note(task, "progress", text, by="hutch")
        return "Noted."

    async def prove(self, criterion: int, evidence: str, context: Context) -> str:
        task = await Tasks(self.rows).find(self.session.delivery.task)
        wanted = criterion_of(task.fields.criteria, criterion)
        found = await find_evidence(self.rows, self.session.id, wanted.text, evidence, context)
        where = f" in test run {found.test_run}" if found.test_run else ""
        said = f"Criterion {criterion} is met: {wanted.text} ({found.kind} {found.target}{where})"
        await TaskAssignments(self.rows).prove(self.assignment_id, found, progress=said, by="hutch")
        return f"Criterion {criterion} is marked as met."


async def equip_for_task(live: LiveSession, persona: Persona, session: Session) -> Equipment:
    """The equipment of an agent that is assigned to a task: its own, and the tool `update_task`."""
    found = equip(persona, live.tools)
    rows = live.dependencies.rows
    assignments = await TaskAssignments(rows).of_task(session.delivery.task)
    mine = next((each for each in assignments if each.is_open and each.session_id == session.id), None)
    if mine is None:
        return found
    return replace(found, tools=(*found.tools, UpdateTask(SessionTask(rows, session, mine.id))))


def criterion_of(criteria: Sequence[AcceptanceCriterion], number: int) -> AcceptanceCriterion:
    if not 1 <= number <= len(criteria):
        known = f"There are {len(criteria)}" if criteria else "This task has none"
        raise BadRequest(f"There is no criterion {number}. {known}.")
    return criteria[number - 1]


async def find_evidence(
    rows: Rows, session_id: str, criterion: str, name: str, context: Context
) -> CriterionEvidence:
    """The test or file of this name. A test that did not pass is no evidence."""
    tests = await StoredTests(rows).named(session_id, [name])
    if tests:
        failed = [each for each in tests if each.outcome != "passed"]
        if failed:
            raise Conflict(
                f"The test '{name}' {failed[0].outcome} in its last run. Fix it, then run it again."
            )
        run = (await StoredTests(rows).get(session_id, "last")).id
        return CriterionEvidence(criterion=criterion, kind="test", target=name, test_run=run, at_ms=wall_ms())
    try:
        path = await existing(name, context)
        await context.workspace.read(path, 1, 1)
    except (NotFound, BadRequest):
        raise NotFound(
            f"'{name}' is neither a test of the last run nor a file. Run the tests, and give the name of one "
            "that passed as run_tests returned it, or the path of a file."
        ) from None
    return CriterionEvidence(criterion=criterion, kind="file", target=path, at_ms=wall_ms())


async def withdrawn_evidence(
    rows: Rows, session_id: str, evidence: Sequence[CriterionEvidence], patch: Patch
) -> dict[str, str]:
    """The criteria whose evidence no longer holds, each with the reason."""
    gone: dict[str, str] = {}
    for each in evidence:
        if each.kind == "test":
            now = await StoredTests(rows).named(session_id, [each.target])
            if not now:
                gone[each.criterion] = f"the test {each.target} did not run at the end"
            elif bad := next((case.outcome for case in now if case.outcome != "passed"), ""):
                gone[each.criterion] = f"the test {each.target} {bad} at the end"
        elif (touched := patch.files.get(each.target)) and touched.deleted:
            gone[each.criterion] = f"the change deletes {each.target}"
    return gone
