"""Runs the hidden tests of a question on a copy of the work, in jails of their own.

They never enter the candidate's jail or the model's context. Their results are events for the owner's side;
candidates learn at most the counts, if the plan allows that.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from hutch.domain.errors import Conflict, HutchError
from hutch.domain.events import Event, HiddenTestsCounted, HiddenTestsRun
from hutch.domain.interview import Interview, InterviewWorkspace
from hutch.domain.log_entry_audience import OWNER_SIDE
from hutch.domain.user import Caller
from hutch.flows.code_execution.execution_limits_and_results import Execution
from hutch.flows.interview_questions.question_test_runs import run_hidden_tests
from hutch.flows.interviews.code_measurement import measure_code
from hutch.flows.interviews.crash_safe_interview_steps import Decision, step
from hutch.flows.interviews.interview_access import allowed_in
from hutch.flows.interviews.interview_services import InterviewServices
from hutch.flows.interviews.workspace_file_copy import copy_work

MAX_MESSAGE_CHARS = 2000


async def run_hidden_now(interviews: InterviewServices, who: Caller, interview_id: str) -> Event:
    """Run the hidden tests on the present work, for an assessor."""
    interview, _ = await allowed_in(interviews, who, interview_id, "conduct")
    if interview.phase == "closed" or not interview.workspace:
        raise Conflict(f"The interview {interview.id} is {interview.phase}.")
    workspace = await _find(interviews, interview, interview.workspace)
    result = await _run(interviews, workspace, who.user.id)

    def decide(now: Interview, _: int) -> Decision:
        return now, [result]

    await step(interviews, interview.id, decide)
    return result


async def run_untested(interviews: InterviewServices, interview: Interview) -> Interview:
    """Record hidden tests and measurements of all questions that the candidate has left."""
    while interview.untested:  # others may be added meanwhile
        session_id = interview.untested[0]
        workspace = await _find(interviews, interview, session_id)
        result = await _run(interviews, workspace, "")
        events: list[Event] = [result]
        if interview.plan.hidden_results == "counts" and result.total:  # none if they could not be run
            counted = HiddenTestsCounted(number=result.number, passed=result.passed, total=result.total)
            events.append(counted)
        events.append(await measure_code(interviews, workspace, ""))
        interview = await step(interviews, interview.id, _tested(session_id, events))
    return interview


def _tested(session_id: str, events: Sequence[Event]) -> Any:
    def decide(now: Interview, _: int) -> Decision:
        if session_id not in now.untested:
            return now, []
        return replace(now, untested=tuple(each for each in now.untested if each != session_id)), events

    return decide


async def _find(interviews: InterviewServices, interview: Interview, session_id: str) -> InterviewWorkspace:
    workspaces = await interviews.rows.workspaces(interview.id)
    return next(each for each in workspaces if each.session_id == session_id)


async def _run(interviews: InterviewServices, workspace: InterviewWorkspace, by: str) -> HiddenTestsRun:
    """The result; one with a reason if the tests could not be run."""
    head = await interviews.services.log.head(workspace.session_id)
    try:
        question = await interviews.question(workspace.question)
        work = await copy_work(interviews, workspace.session_id)
        execution = await run_hidden_tests(
            interviews.executor, question, workspace.language, work, limits=interviews.limits
        )
    except HutchError as error:
        return _event(interviews, workspace, by, head.seq, None, str(error))
    return _event(interviews, workspace, by, head.seq, execution, execution.problem)


def _event(
    interviews: InterviewServices,
    workspace: InterviewWorkspace,
    by: str,
    seq: int,
    execution: Execution | None,
    reason: str,
) -> HiddenTestsRun:
    cases = execution.cases if execution else ()
    return HiddenTestsRun(
        by=by,
        number=workspace.number,
        question=workspace.question,
        language=workspace.language,
        workspace=workspace.session_id,
        seq=seq,
        passed=sum(case.passed for case in cases),
        failed=sum(not case.passed for case in cases),
        total=len(cases),
        reason=interviews.clean(reason)[:MAX_MESSAGE_CHARS],
        cases=tuple(
            {
                "name": case.name,
                "status": case.status,
                "message": interviews.clean(case.message)[:MAX_MESSAGE_CHARS],
                "time_s": round(case.time_s, 4),
            }
            for case in cases
        ),
        audience=OWNER_SIDE,
    )
