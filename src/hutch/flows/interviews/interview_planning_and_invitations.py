"""Plans interviews, invites to them, and shows them to those who have a role in them."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from hutch.domain.errors import BadRequest, Conflict
from hutch.domain.events import InterviewInvited, InterviewPlanned, SessionOpened
from hutch.domain.ids import new_session_id
from hutch.domain.interview import OPEN_PHASES, Interview, Phase
from hutch.domain.interview_plan import InterviewPlan
from hutch.domain.interview_question import Question
from hutch.domain.log_entry_audience import OWNER_SIDE
from hutch.domain.session import Delivery, NewSession, Session
from hutch.domain.user import Caller
from hutch.flows.interviews.crash_safe_interview_steps import Decision, step
from hutch.flows.interviews.interview_access import InterviewRole, allowed_in, role_in
from hutch.flows.interviews.interview_services import InterviewServices
from hutch.flows.interviews.interview_workspaces import language_of
from hutch.flows.session_permissions import check_may_open
from hutch.flows.sessions import check_new
from hutch.flows.user_accounts import Accounts, Actor, OneTimeLink
from hutch.store.interviews import open_interview
from hutch.store.shares import Shares
from hutch.system.lazy_dataclass import dataclass

InvitedRole = Literal["candidate", "assessor", "observer"]
INVITE_DAYS = 14


@dataclass(frozen=True, slots=True)
class ShownInterview:
    """An interview and the role of the caller in it."""

    interview: Interview
    role: InterviewRole


async def plan_interview(interviews: InterviewServices, who: Caller, plan: InterviewPlan) -> Interview:
    """Plan an interview. Its questions, languages, levels and model are checked now."""
    check_may_open(who)
    plan = _cleaned(interviews, plan)
    now_ms = interviews.now_ms()
    interview = Interview(
        id=new_session_id(), owner=who.user.id, plan=plan, level=plan.first_level, created_ms=now_ms
    )
    questions = [await interviews.question(each.id) for each in plan.questions]
    for number, question in enumerate(questions, start=1):
        question.variant(language_of(interview, number, question))
        _check_levels(interview, question)
    await check_new(
        interviews.services, who, NewSession(persona=plan.first_level, model=plan.model if plan.ai else "")
    )
    minutes = plan.minutes or sum(
        planned.minutes or question.time_minutes
        for planned, question in zip(plan.questions, questions, strict=True)
    )
    interview = replace(interview, minutes=minutes)
    room = Session(
        id=interview.id,
        owner=who.user.id,
        purpose=plan.title,
        company=plan.company,
        delivery=Delivery(interview=True, titled=True),
        state="parked",
        created_ms=now_ms,
        updated_ms=now_ms,
    )
    planned_event = InterviewPlanned(
        by=who.user.id,
        plan=plan.model_dump(mode="json"),
        questions=tuple(_described(each) for each in questions),
        audience=OWNER_SIDE,
    )
    opened = SessionOpened(purpose=plan.title, owner=who.user.id, company=plan.company)
    await open_interview(interviews.services.log, room, interview, [opened, planned_event])
    return interview


def _cleaned(interviews: InterviewServices, plan: InterviewPlan) -> InterviewPlan:
    names = ("title", "company", "role", "expectations", "consent", "accommodations")
    return plan.model_copy(update={name: interviews.clean(getattr(plan, name)) for name in names})


def _check_levels(interview: Interview, question: Question) -> None:
    if interview.plan.ai and not set(interview.plan.levels) & set(question.levels):
        raise BadRequest(
            f"Question '{question.id}' allows only {', '.join(question.levels)}, and the plan only "
            f"{', '.join(interview.plan.levels)}. Allow a level of both."
        )


def _described(question: Question) -> dict[str, object]:
    return {
        "id": question.id,
        "version": question.version,
        "title": question.title,
        "digest": question.digest,
        "minutes": question.time_minutes,
        "languages": list(question.languages),
        "levels": list(question.levels),
        "rubric": [each.name for each in question.rubric],
    }


async def invite(
    interviews: InterviewServices,
    accounts: Accounts,
    who: Caller,
    interview_id: str,
    role: InvitedRole,
    actor: Actor,
    *,
    days: int = INVITE_DAYS,
) -> OneTimeLink:
    """A link by which one person gets a role in an interview, and an account if they have none."""
    interview, _ = await allowed_in(interviews, who, interview_id, "manage")
    if interview.phase not in OPEN_PHASES and role == "candidate":
        raise Conflict(f"The interview {interview.id} has ended.")
    made = await accounts.invite(
        role=role, session_id=interview.id, share_role=role, life_s=days * 24 * 3600, actor=actor
    )
    event = InterviewInvited(by=who.user.id, role=role, link=made.link.id, audience=OWNER_SIDE)

    def decide(now: Interview, _: int) -> Decision:
        return now, [event]

    await step(interviews, interview.id, decide)
    return made


async def show_interview(interviews: InterviewServices, who: Caller, interview_id: str) -> ShownInterview:
    """The interview, for those who have a role in it."""
    interview, role = await allowed_in(interviews, who, interview_id, "read")
    if role in ("assessor", "observer") and interview.workspace:
        share = await Shares(interviews.services.rows).find(interview.workspace, who.user.id)
        if share is None or share.role != role:  # they joined after the workspaces were opened
            await interviews.rows.update_shares(interview.id)
    return ShownInterview(interview, role)


async def list_interviews(
    interviews: InterviewServices,
    who: Caller,
    *,
    phases: Sequence[Phase] = (),
    before: str = "",
    limit: int = 50,
) -> list[ShownInterview]:
    """The interviews that the caller has a role in, newest first."""
    user_id = None if who.is_owner else who.user.id
    found = await interviews.rows.page(user_id=user_id, phases=phases, before=before, limit=limit)
    roles = [await role_in(interviews, who, each) for each in found]
    return [ShownInterview(each, role) for each, role in zip(found, roles, strict=True) if role]
