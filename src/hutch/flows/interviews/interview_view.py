"""An interview as one of its people may see it: everything that a client needs after a reload."""

import asyncio
from collections.abc import Sequence
from dataclasses import field
from typing import Any

from hutch.domain.interview import Interview, InterviewWorkspace, Phase
from hutch.domain.interview_question import Question
from hutch.flows.interviews.interview_access import InterviewRole
from hutch.flows.interviews.interview_planning_and_invitations import ShownInterview
from hutch.flows.interviews.interview_services import InterviewServices
from hutch.flows.interviews.interview_workspaces import levels_of
from hutch.store.shares import Shares
from hutch.store.users import Users
from hutch.system.lazy_dataclass import dataclass

OWNER_SIDE_ROLES: tuple[InterviewRole, ...] = ("owner", "assessor")


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockView:
    """The clock, at `now_ms` of the server."""

    now_ms: int
    runs: bool
    elapsed_ms: int
    remaining_ms: int
    question_remaining_ms: int | None
    credited_ms: int
    offline_since_ms: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionView:
    """The current question."""

    number: int
    id: str
    title: str
    statement: str
    language: str
    languages: tuple[str, ...]
    level: str  # empty without an AI
    levels: tuple[str, ...]
    workspace: str  # the session to work in
    minutes: int | None
    rubric: tuple[dict[str, str], ...] = ()  # for the owner's side


@dataclass(frozen=True, slots=True, kw_only=True)
class InterviewView:
    """An interview for one reader. `plan` and all workspaces are for the owner's side."""

    id: str
    title: str
    phase: Phase
    role: InterviewRole
    attended: bool
    ai: bool
    company: str
    job_role: str
    owner: str
    owner_name: str
    candidate: str
    candidate_name: str
    question_count: int
    question: QuestionView | None
    clock: ClockView
    consent: str
    consented: bool
    proposal: dict[str, Any] | None  # an open proposal of a level, for those who decide
    offer: dict[str, Any] | None  # an open offer of help
    created_ms: int
    begun_ms: int
    ended_ms: int
    sealed: bool
    workspaces: tuple[dict[str, Any], ...] = field(default=())
    people: tuple[dict[str, str], ...] = ()  # with their names and roles
    plan: dict[str, Any] | None = None


async def view_interview(interviews: InterviewServices, shown: ShownInterview) -> InterviewView:
    """The interview for this reader, now."""
    interview, role = shown.interview, shown.role
    question = await interviews.question(interview.question) if interview.question else None
    workspaces, roles = await asyncio.gather(
        interviews.rows.workspaces(interview.id), _roles(interviews, interview, role)
    )
    names = await Users(interviews.services.rows).names(roles.keys())
    decides = role in OWNER_SIDE_ROLES or (role == "candidate" and not interview.plan.attended)
    number, _, level = interview.proposal.partition(" ")
    offer, _, kind = interview.offer.partition(" ")
    return InterviewView(
        id=interview.id,
        title=interview.plan.title,
        phase=interview.phase,
        role=role,
        attended=interview.plan.attended,
        ai=interview.plan.ai,
        company=interview.plan.company,
        job_role=interview.plan.role,
        owner=interview.owner,
        owner_name=names.get(interview.owner, ""),
        candidate=interview.candidate,
        candidate_name=names.get(interview.candidate, ""),
        question_count=len(interview.plan.questions),
        question=_question(interview, question, role) if question else None,
        clock=clock_view(interview, interviews.now_ms()),
        consent=interview.plan.consent,
        consented=interview.consented,
        proposal={"number": int(number), "level": level} if number and decides else None,
        offer={"number": int(offer), "kind": kind} if offer else None,
        created_ms=interview.created_ms,
        begun_ms=interview.begun_ms,
        ended_ms=interview.ended_ms,
        sealed=interview.sealed,
        workspaces=_workspaces(interview, workspaces, role),
        people=tuple({"id": id, "name": names.get(id, ""), "role": each} for id, each in roles.items()),
        plan=interview.plan.model_dump(mode="json") if role in OWNER_SIDE_ROLES else None,
    )


async def _roles(
    interviews: InterviewServices, interview: Interview, role: InterviewRole
) -> dict[str, InterviewRole]:
    """The people of an interview by their ids. The candidate learns of those who act, not of observers."""
    roles: dict[str, InterviewRole] = {interview.owner: "owner"}
    if interview.candidate:
        roles[interview.candidate] = "candidate"
    for share in await Shares(interviews.services.rows).of_session(interview.id):
        if share.role == "assessor" or (share.role == "observer" and role != "candidate"):
            roles.setdefault(share.user_id, share.role)
    return roles


def clock_view(interview: Interview, now_ms: int) -> ClockView:
    return ClockView(
        now_ms=now_ms,
        runs=interview.counts_time(now_ms),
        elapsed_ms=interview.elapsed_ms(now_ms),
        remaining_ms=interview.remaining_ms(now_ms),
        question_remaining_ms=interview.question_remaining_ms(now_ms),
        credited_ms=interview.clock.credited_ms,
        offline_since_ms=interview.clock.offline_since_ms,
    )


def _question(interview: Interview, question: Question, role: InterviewRole) -> QuestionView:
    rubric = tuple({"name": each.name, "description": each.description} for each in question.rubric)
    return QuestionView(
        number=interview.number,
        id=question.id,
        title=question.title,
        statement=question.statement,
        language=interview.language,
        languages=question.languages,
        level=interview.level if interview.plan.ai else "",
        levels=levels_of(interview, question) if interview.plan.ai else (),
        workspace=interview.workspace,
        minutes=interview.question_minutes,
        rubric=rubric if role in OWNER_SIDE_ROLES else (),
    )


def _workspaces(
    interview: Interview, workspaces: Sequence[InterviewWorkspace], role: InterviewRole
) -> tuple[dict[str, Any], ...]:
    """All for the owner's side. Others do not learn of questions to come; the candidate sees those that they
    may open."""
    ended = interview.phase in ("ended", "closed")
    shown = [
        each
        for each in workspaces
        if role in OWNER_SIDE_ROLES
        or (ended and each.number <= interview.number)
        or (each.number == interview.number if role == "candidate" else each.number <= interview.number)
    ]
    return tuple(
        {
            "session": each.session_id,
            "number": each.number,
            "question": each.question,
            "language": each.language,
            "current": each.session_id == interview.workspace,
        }
        for each in shown
    )
