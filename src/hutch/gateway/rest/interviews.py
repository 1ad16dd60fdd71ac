"""Interviews: planned, joined, begun, paused, continued, ended. docs/interviews.md describes them."""

from typing import Annotated, Literal

from fastapi import Query, Request, Response
from pydantic import Field

from hutch.domain.given_code_test_case import Language
from hutch.domain.interview import Phase
from hutch.domain.interview_plan import InterviewPlan
from hutch.domain.interview_question import Level
from hutch.domain.user import Caller
from hutch.flows.interviews import interview_conduct, interview_planning_and_invitations, lobby_and_presence
from hutch.flows.interviews.interview_erasure import erase_interview
from hutch.flows.interviews.interview_planning_and_invitations import INVITE_DAYS, InvitedRole
from hutch.flows.interviews.interview_services import InterviewServices
from hutch.flows.interviews.interview_view import (
    ClockView,
    InterviewView,
    QuestionView,
    clock_view,
    view_interview,
)
from hutch.flows.interviews.level_and_help_decisions import answer_offer, answer_proposal, set_level
from hutch.gateway.auth.browser_login import base_url
from hutch.gateway.auth.caller_dependency import AuthenticatorDep, Reader, Writer
from hutch.gateway.request_and_response_bodies import Cursor, In, Limit, Out, Page, answer, fields_from, page
from hutch.gateway.rest.base_route import router, server_of

routes = router("interviews")

Reason = Annotated[str, Field(max_length=1000)]


@fields_from(ClockView)
class ClockOut(Out):
    """The clock of an interview, at `now_ms` of the server."""


@fields_from(QuestionView)
class QuestionOut(Out):
    """The current question."""


@fields_from(InterviewView)
class InterviewOut(Out):
    """An interview, as you may see it."""

    question: QuestionOut | None
    clock: ClockOut


class InvitationIn(In):
    role: InvitedRole = "candidate"
    days: int = Field(INVITE_DAYS, ge=1, le=90, description="After which the link no longer works.")


class InvitationOut(Out):
    """A link that works once; it is shown only once."""

    id: str
    url: str
    role: InvitedRole
    expires_ms: int


class CheckOut(Out):
    name: str
    ok: bool
    message: str
    required: bool


class LobbyOut(Out):
    """The result of the system check."""

    ok: bool
    checks: list[CheckOut]
    interview: InterviewOut


class PauseIn(In):
    reason: Reason = ""


class NextIn(In):
    after: int = Field(ge=1, le=100, description="The number of the question that is finished.")


class LanguageIn(In):
    language: Language


class ExtendIn(In):
    minutes: int = Field(ge=1, le=240)
    of: Literal["interview", "question"] = "interview"
    reason: Reason = ""


class LevelIn(In):
    level: Level
    reason: Reason = ""


class AnswerIn(In):
    accept: bool


def interviews_of(request: Request) -> InterviewServices:
    return server_of(request).interviews


async def shown(request: Request, caller: Caller, interview_id: str, status: int = 200) -> Response:
    """The interview as this caller may see it."""
    interviews = interviews_of(request)
    found = await interview_planning_and_invitations.show_interview(interviews, caller, interview_id)
    return answer(await view_interview(interviews, found), status)


@routes.post("/interviews", status_code=201, response_model=InterviewOut)
async def plan_interview(request: Request, caller: Writer, body: InterviewPlan) -> Response:
    """Plan an interview. Its id is that of a session whose log holds the interview's events."""
    made = await interview_planning_and_invitations.plan_interview(interviews_of(request), caller, body)
    return await shown(request, caller, made.id, 201)


@routes.get("/interviews", response_model=Page[InterviewOut])
async def list_interviews(
    request: Request,
    caller: Reader,
    phase: Annotated[list[Phase] | None, Query(max_length=5)] = None,
    cursor: Cursor = "",
    limit: Limit = 50,
) -> Response:
    """The interviews that you have a role in, newest first."""
    interviews = interviews_of(request)
    found = await interview_planning_and_invitations.list_interviews(
        interviews, caller, phases=phase or (), before=cursor, limit=limit + 1
    )
    more = found[limit - 1].interview.id if len(found) > limit else None
    return page(request, [await view_interview(interviews, each) for each in found[:limit]], more)


@routes.get("/interviews/{interview_id}", response_model=InterviewOut)
async def get_interview(request: Request, caller: Reader, interview_id: str) -> Response:
    """An interview with its clock and its current question: what a client shows after a reload."""
    return await shown(request, caller, interview_id)


@routes.post("/interviews/{interview_id}/invitations", status_code=201)
async def invite_to_interview(
    request: Request,
    caller: Writer,
    interview_id: str,
    body: InvitationIn,
    authenticator: AuthenticatorDep,
) -> InvitationOut:
    """A link by which one person gets a role in the interview, and an account if they have none."""
    made = await interview_planning_and_invitations.invite(
        interviews_of(request),
        authenticator.accounts,
        caller,
        interview_id,
        body.role,
        authenticator.actor(request.scope, caller),
        days=body.days,
    )
    url = made.url(base_url(authenticator, request.scope))
    return InvitationOut(id=made.link.id, url=url, role=body.role, expires_ms=made.link.expires_ms)


@routes.post("/interviews/{interview_id}/lobby", response_model=LobbyOut)
async def check_lobby(request: Request, caller: Reader, interview_id: str) -> Response:
    """Check what the interview needs before it begins. The first candidate who comes is its candidate."""
    interviews = interviews_of(request)
    _, checks = await lobby_and_presence.check_lobby(interviews, caller, interview_id)
    found = await interview_planning_and_invitations.show_interview(interviews, caller, interview_id)
    view = await view_interview(interviews, found)
    return answer({"ok": lobby_and_presence.is_ready(checks), "checks": checks, "interview": view})


@routes.post("/interviews/{interview_id}/consent", response_model=InterviewOut)
async def give_consent(request: Request, caller: Reader, interview_id: str) -> Response:
    """The candidate agrees to the text of the plan."""
    await lobby_and_presence.agree(interviews_of(request), caller, interview_id)
    return await shown(request, caller, interview_id)


@routes.post("/interviews/{interview_id}/heartbeat", response_model=ClockOut)
async def send_heartbeat(request: Request, caller: Reader, interview_id: str) -> Response:
    """A sign of the candidate's client, every 5 seconds. Without one for 15 seconds, the clock stops until
    the next, up to the plan's allowance."""
    interviews = interviews_of(request)
    interview = await lobby_and_presence.heartbeat(interviews, caller, interview_id)
    return answer(clock_view(interview, interviews.now_ms()))


@routes.post("/interviews/{interview_id}/begin", response_model=InterviewOut)
async def begin_interview(request: Request, caller: Reader, interview_id: str) -> Response:
    """Begin with the first question. The candidate may begin an interview that nobody attends."""
    await interview_conduct.begin(interviews_of(request), caller, interview_id)
    return await shown(request, caller, interview_id)


@routes.post("/interviews/{interview_id}/pause", response_model=InterviewOut)
async def pause_interview(
    request: Request, caller: Reader, interview_id: str, body: PauseIn | None = None
) -> Response:
    """Stop the clock. The candidate can read, and not work."""
    await interview_conduct.pause(interviews_of(request), caller, interview_id, body.reason if body else "")
    return await shown(request, caller, interview_id)


@routes.post("/interviews/{interview_id}/resume", response_model=InterviewOut)
async def resume_interview(request: Request, caller: Reader, interview_id: str) -> Response:
    """Continue after a pause."""
    await interview_conduct.resume(interviews_of(request), caller, interview_id)
    return await shown(request, caller, interview_id)


@routes.post("/interviews/{interview_id}/next", response_model=InterviewOut)
async def next_question(request: Request, caller: Reader, interview_id: str, body: NextIn) -> Response:
    """Open the next question, with a new workspace and a new conversation; after the last one, the interview
    ends. A repeated request with the same number has no further effect."""
    await interview_conduct.next_question(interviews_of(request), caller, interview_id, after=body.after)
    return await shown(request, caller, interview_id)


@routes.post("/interviews/{interview_id}/language", response_model=InterviewOut)
async def switch_language(request: Request, caller: Reader, interview_id: str, body: LanguageIn) -> Response:
    """Continue the question in another language. The work in each language stays."""
    await interview_conduct.switch_language(interviews_of(request), caller, interview_id, body.language)
    return await shown(request, caller, interview_id)


@routes.post("/interviews/{interview_id}/extend", response_model=InterviewOut)
async def extend_time(request: Request, caller: Reader, interview_id: str, body: ExtendIn) -> Response:
    """Give the candidate more time, for the interview or for the current question."""
    await interview_conduct.extend(
        interviews_of(request), caller, interview_id, body.minutes, body.of, body.reason
    )
    return await shown(request, caller, interview_id)


@routes.post("/interviews/{interview_id}/level", response_model=InterviewOut)
async def set_level_of_help(request: Request, caller: Reader, interview_id: str, body: LevelIn) -> Response:
    """Switch the level of help."""
    await set_level(interviews_of(request), caller, interview_id, body.level, body.reason)
    return await shown(request, caller, interview_id)


@routes.post("/interviews/{interview_id}/proposals/{number}", response_model=InterviewOut)
async def answer_level_proposal(
    request: Request, caller: Reader, interview_id: str, number: int, body: AnswerIn
) -> Response:
    """Accept or decline a proposed level: assessors, or the candidate if nobody attends."""
    await answer_proposal(interviews_of(request), caller, interview_id, number, accept=body.accept)
    return await shown(request, caller, interview_id)


@routes.post("/interviews/{interview_id}/offers/{number}", response_model=InterviewOut)
async def answer_help_offer(
    request: Request, caller: Reader, interview_id: str, number: int, body: AnswerIn
) -> Response:
    """Take or dismiss an offer of help. One that is taken becomes a prompt to the AI."""
    await answer_offer(interviews_of(request), caller, interview_id, number, accept=body.accept)
    return await shown(request, caller, interview_id)


@routes.post("/interviews/{interview_id}/end", response_model=InterviewOut)
async def end_interview(
    request: Request, caller: Reader, interview_id: str, body: PauseIn | None = None
) -> Response:
    """End the interview. Assessors can rate it until it is closed."""
    await interview_conduct.end(interviews_of(request), caller, interview_id, body.reason if body else "")
    return await shown(request, caller, interview_id)


@routes.post("/interviews/{interview_id}/erase", response_model=InterviewOut)
async def erase_interview_content(
    request: Request, caller: Writer, interview_id: str, body: PauseIn | None = None
) -> Response:
    """Erase the content of an ended interview: all its logs and files. The proof stays. For its owner,
    and for systems that pass on a request for deletion."""
    await erase_interview(interviews_of(request), caller, interview_id, body.reason if body else "")
    return await shown(request, caller, interview_id)


@routes.post("/interviews/{interview_id}/close", response_model=InterviewOut)
async def close_interview(request: Request, caller: Reader, interview_id: str) -> Response:
    """Close the record: its end is signed, and nothing more is added."""
    await interview_conduct.close(interviews_of(request), caller, interview_id)
    return await shown(request, caller, interview_id)
