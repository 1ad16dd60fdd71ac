"""Steps of an interview: each is one transaction, and what follows from it can be repeated.

A step reads the interview, computes its next state and the events, and stores both with all shares. The row
is the truth. Effects elsewhere (the AI's persona, a pause of its run, the end of workspaces) are derived from
it by `repair`, after each step and again later, so that a killed server leaves nothing half done. Workspaces
record them as Hutch's; the log of the room says who took the step.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

import structlog

from hutch.domain.current_actor_and_author import HUTCH
from hutch.domain.errors import Conflict, HutchError
from hutch.domain.events import Event, InterviewSealed
from hutch.domain.inputs import End, Pause, Resume
from hutch.domain.interview import Interview
from hutch.flows.interviews.interview_services import InterviewServices
from hutch.flows.session_option_changes import SessionChange, change
from hutch.flows.sessions import give
from hutch.store.interviews import store_step
from hutch.store.sessions import Sessions

MAX_ATTEMPTS = 20  # when others change the same interview at the same time
Decision = tuple[Interview, Sequence[Event]]
Decide = Callable[[Interview, int], Decision]
"""The next state and its events, from the present one and the time; pure. It may raise, and is called again
if another step was stored meanwhile."""

logger = structlog.get_logger()


async def step(interviews: InterviewServices, interview_id: str, decide: Decide) -> Interview:
    """Take one step. Without events, nothing is stored."""
    for _ in range(MAX_ATTEMPTS):
        before = await interviews.rows.get(interview_id)
        after, events = decide(before, interviews.now_ms())
        if not events:
            return before
        stored = await store_step(interviews.services.log, before, after, events)
        if stored is not None:
            interviews.notify(stored)
            return stored
    raise Conflict(f"The interview {interview_id} is being changed by others. Try again.")


async def step_and_repair(interviews: InterviewServices, interview_id: str, decide: Decide) -> Interview:
    """Take one step, and apply what follows from it."""
    interview = await step(interviews, interview_id, decide)
    await repair_or_log(interviews, interview)
    return interview


async def repair_or_log(interviews: InterviewServices, interview: Interview) -> None:
    """`repair`; what fails is repeated at the next tick."""
    try:
        await repair(interviews, interview)
    except HutchError as error:
        logger.warning("interview.not_repaired", session_id=interview.id, error=str(error))


async def repair(interviews: InterviewServices, interview: Interview) -> None:
    """Make the workspaces follow the state of the interview."""
    if interview.phase in ("ended", "closed"):
        if not interview.sealed:
            await _end_workspaces(interviews, interview)
    elif interview.workspace:
        await _follow_state(interviews, interview)


async def _follow_state(interviews: InterviewServices, interview: Interview) -> None:
    services = interviews.services
    session = await Sessions(services.rows).get(interview.workspace)
    if session.state == "ended":
        return
    if session.persona != interview.level:
        owner = await interviews.owner(interview)
        await change(services, owner, session.id, SessionChange(persona=interview.level), by=HUTCH)
    if (interview.phase == "paused") == (session.state == "paused"):
        return
    owner = await interviews.owner(interview)
    if interview.phase == "paused":
        await give(services, owner, session.id, Pause(programs=True), by=HUTCH)
    elif interview.phase == "running":
        await give(services, owner, session.id, Resume(), by=HUTCH)


async def stop_left_workspaces(interviews: InterviewServices, interview: Interview) -> None:
    """Stop the AI and all programs in workspaces that the candidate has left. A language that they return to
    continues."""
    services = interviews.services
    if interview.phase not in ("running", "paused"):
        return
    for workspace in await interviews.rows.workspaces(interview.id):
        if workspace.session_id == interview.workspace or workspace.number > interview.number:
            continue
        session = await Sessions(services.rows).get(workspace.session_id)
        if session.state not in ("paused", "ended"):
            owner = await interviews.owner(interview)
            await give(services, owner, session.id, Pause(programs=True), by=HUTCH)


async def _end_workspaces(interviews: InterviewServices, interview: Interview) -> None:
    """End all workspaces. Once they have ended, store the heads of their logs in the room's log."""
    services = interviews.services
    owner = await interviews.owner(interview)
    heads = []
    for workspace in await interviews.rows.workspaces(interview.id):
        session = await Sessions(services.rows).get(workspace.session_id)
        if session.state != "ended" and session.id not in interviews.ending:
            interviews.ending.add(session.id)  # after a restart it is told again, which has no effect
            await give(services, owner, session.id, End(reason="the interview ended"), by=HUTCH)
            session = await Sessions(services.rows).get(workspace.session_id)
        if session.state != "ended":
            continue
        interviews.ending.discard(session.id)
        head = await services.log.head(session.id)
        heads.append(
            {
                "session": session.id,
                "number": workspace.number,
                "question": workspace.question,
                "language": workspace.language,
                "seq": head.seq,
                "hash": head.hash,
            }
        )
    if interview.untested:  # their results come before the seal
        return
    if len(heads) == len(await interviews.rows.workspaces(interview.id)):
        await step(interviews, interview.id, lambda now, _: _seal(now, heads))


def _seal(interview: Interview, heads: Sequence[dict[str, object]]) -> Decision:
    if interview.sealed:
        return interview, []
    return replace(interview, sealed=True), [InterviewSealed(logs=tuple(heads))]
