"""Private notes, messages, ratings, corrected marks, and events of the candidate's client."""

from collections.abc import Sequence
from typing import Any, Literal, get_args

from hutch.domain.errors import BadRequest, Conflict
from hutch.domain.events import (
    ClientReported,
    Event,
    MarkOverridden,
    MessageSent,
    NoteWritten,
    RatingGiven,
)
from hutch.domain.ids import SessionId
from hutch.domain.interview import Interview
from hutch.domain.interview_events import ClientEvent
from hutch.domain.log_entry_audience import OWNER_SIDE
from hutch.domain.user import Caller
from hutch.flows.interviews.candidate_ai_skill_marks import MEANINGS
from hutch.flows.interviews.interview_access import allowed_in
from hutch.flows.interviews.interview_services import InterviewServices

MAX_POINTS = 5
ClientEventType = Literal[
    "code_change",
    "code_snapshot",
    "file_write",
    "test_run",
    "test_run_start",
    "terminal_command",
    "ai_interaction",
    "focus",
    "blur",
    "paste",
    "copy",
    "visibility",
    "resize",
    "online",
    "offline",
]
CLIENT_EVENTS: tuple[ClientEventType, ...] = get_args(ClientEventType)


async def write_note(
    interviews: InterviewServices,
    who: Caller,
    interview_id: str,
    text: str,
    *,
    workspace: str = "",
    seq: int = 0,
) -> int:
    """A private note at this moment, or at an event of a workspace. Returns its number."""
    interview, _ = await allowed_in(interviews, who, interview_id, "conduct")
    if workspace and all(
        each.session_id != workspace for each in await interviews.rows.workspaces(interview.id)
    ):
        raise BadRequest(f"{workspace} is not a workspace of this interview.")
    workspace = workspace or interview.workspace
    if workspace and not seq:
        seq = (await interviews.services.log.head(SessionId(workspace))).seq
    note = NoteWritten(
        by=who.user.id,
        text=interviews.clean(text),
        workspace=workspace,
        seq=seq,
        elapsed_ms=interview.elapsed_ms(interviews.now_ms()),
        audience=OWNER_SIDE,
    )
    return await _append(interviews, interview, note)


async def send_message(
    interviews: InterviewServices, who: Caller, interview_id: str, text: str, *, private: bool = False
) -> int:
    """A message to everyone in the room; a private one to the owner's side."""
    interview, role = await allowed_in(interviews, who, interview_id, "work", "conduct")
    if private and role == "candidate":
        raise BadRequest("Messages of the candidate are for everyone in the room.")
    message = MessageSent(
        author="user",
        text=interviews.clean(text),
        by=who.user.id,
        audience=OWNER_SIDE if private else None,
    )
    return await _append(interviews, interview, message)


async def rate(
    interviews: InterviewServices,
    who: Caller,
    interview_id: str,
    *,
    number: int,
    criterion: str,
    points: int | None,
    comment: str = "",
) -> int:
    """Rate one criterion of a question's rubric from 1 to 5; None takes a rating back."""
    interview, _ = await allowed_in(interviews, who, interview_id, "conduct")
    question = await interviews.question(_planned(interview, number))
    if criterion not in [each.name for each in question.rubric]:
        there = ", ".join(each.name for each in question.rubric)
        raise BadRequest(f"The rubric of question {number} has: {there}.")
    if points is not None and not 1 <= points <= MAX_POINTS:
        raise BadRequest(f"Points are 1 to {MAX_POINTS}, not {points}.")
    rating = RatingGiven(
        by=who.user.id,
        number=number,
        criterion=criterion,
        points=points,
        comment=interviews.clean(comment),
        audience=OWNER_SIDE,
    )
    return await _append(interviews, interview, rating)


async def override_mark(
    interviews: InterviewServices,
    who: Caller,
    interview_id: str,
    *,
    number: int,
    mark: str,
    points: int | None,
    comment: str = "",
) -> int:
    """Replace a computed mark for prompts; None takes the correction back."""
    interview, _ = await allowed_in(interviews, who, interview_id, "conduct")
    _planned(interview, number)
    if mark not in MEANINGS:
        raise BadRequest(f"There are the marks {', '.join(MEANINGS)}.")
    if points is not None and not 0 <= points <= 2:
        raise BadRequest(f"A mark has 0 to 2 points, not {points}.")
    event = MarkOverridden(
        by=who.user.id,
        number=number,
        mark=mark,
        points=points,
        comment=interviews.clean(comment),
        audience=OWNER_SIDE,
    )
    return await _append(interviews, interview, event)


async def report_client_events(
    interviews: InterviewServices, who: Caller, interview_id: str, events: Sequence[ClientEvent]
) -> int:
    """Record what the candidate's client reports. All of them become one event of the room."""
    interview, _ = await allowed_in(interviews, who, interview_id, "work")
    if interview.phase not in ("running", "paused"):
        raise Conflict(f"The interview {interview.id} is {interview.phase}.")
    reported = ClientReported(
        by=who.user.id,
        workspace=interview.workspace,
        events=tuple(each.model_copy(update={"data": _cleaned(interviews, each.data)}) for each in events),
        elapsed_ms=interview.elapsed_ms(interviews.now_ms()),
    )
    return await _append(interviews, interview, reported)


async def _append(interviews: InterviewServices, interview: Interview, event: Event) -> int:
    if interview.phase == "closed":
        raise Conflict(f"The record of the interview {interview.id} is closed.")
    await interviews.services.log.check_can_record(interview.id)
    return (await interviews.services.log.append(interview.id, [event])).seq


def _cleaned(interviews: InterviewServices, value: Any) -> Any:
    """The value without secrets in its texts: a paste may contain one."""
    match value:
        case str():
            return interviews.clean(value)
        case dict():
            return {interviews.clean(str(name)): _cleaned(interviews, each) for name, each in value.items()}
        case list():
            return [_cleaned(interviews, each) for each in value]
    return value


def _planned(interview: Interview, number: int) -> str:
    if not 1 <= number <= len(interview.plan.questions):
        raise BadRequest(f"The interview has the questions 1 to {len(interview.plan.questions)}.")
    return interview.plan.questions[number - 1].id
