"""Changes of the level of help, proposals of one, and offers of help: made, accepted, declined, dismissed.

Nothing changes silently: each proposal, answer and change is an event.
"""

from dataclasses import asdict, replace

from hutch.domain.errors import BadRequest, Conflict, Denied
from hutch.domain.events import (
    Event,
    HelpAccepted,
    HelpDismissed,
    HelpOffered,
    LevelChanged,
    LevelDeclined,
    LevelProposed,
    StruggleMeasured,
)
from hutch.domain.inputs import Message
from hutch.domain.interview import Interview
from hutch.domain.interview_question import Level
from hutch.domain.log_entry_audience import OWNER_SIDE
from hutch.domain.user import Caller
from hutch.flows.interviews.crash_safe_interview_steps import Decision, step, step_and_repair
from hutch.flows.interviews.help_level_proposals import LevelProposal
from hutch.flows.interviews.help_offer_conditions import HelpOffer
from hutch.flows.interviews.interview_access import allowed_in
from hutch.flows.interviews.interview_services import InterviewServices
from hutch.flows.interviews.interview_workspaces import levels_of
from hutch.flows.interviews.struggle_score import StruggleScore
from hutch.flows.sessions import give

HELP_PROMPTS = {
    "repeated_failure": "My test runs keep failing. Look at the last failures and help me understand them.",
    "long_debugging": "I have been debugging for a while. Help me find the cause step by step.",
    "slow_solution": "My solution works, but it is slow for large inputs. Help me find out why.",
}


async def set_level(
    interviews: InterviewServices, who: Caller, interview_id: str, level: Level, reason: str = ""
) -> Interview:
    """Switch the level at any moment of the interview."""
    interview, _ = await allowed_in(interviews, who, interview_id, "conduct")
    allowed = await _levels(interviews, interview)
    if level not in allowed:
        raise BadRequest(f"The plan and the question allow {', '.join(allowed)}, not {level}.")
    reason = interviews.clean(reason)

    def decide(now: Interview, now_ms: int) -> Decision:
        _need_work(now)
        if now.level == level:
            return now, []
        return _changed(now, now_ms, level, who.user.id, 0, reason)

    return await step_and_repair(interviews, interview.id, decide)


async def _levels(interviews: InterviewServices, interview: Interview) -> tuple[Level, ...]:
    if not interview.plan.ai:
        raise Conflict("This interview is without an AI.")
    if not interview.question:
        raise Conflict(f"The interview {interview.id} has not begun.")
    return levels_of(interview, await interviews.question(interview.question))


def _changed(now: Interview, now_ms: int, level: Level, by: str, proposal: int, reason: str) -> Decision:
    event = LevelChanged(
        by=by,
        before=now.level,
        level=level,
        proposal=proposal,
        reason=reason,
        workspace=now.workspace,
        elapsed_ms=now.elapsed_ms(now_ms),
    )
    return replace(now, level=level, proposal=""), [event]


async def propose_level(
    interviews: InterviewServices, interview: Interview, proposal: LevelProposal
) -> Interview:
    """Propose another level: to the assessors if they are there, otherwise to the candidate."""
    attended, policy = interview.plan.attended, interviews.policy.version

    def decide(now: Interview, now_ms: int) -> Decision:
        if now.phase != "running" or now.workspace != interview.workspace or now.proposal:
            return now, []
        number = now.counter + 1
        event = LevelProposed(
            proposal=number,
            policy=policy,
            direction=proposal.direction,
            before=proposal.from_level,
            level=proposal.to_level,
            reason=proposal.reason,
            score=round(proposal.score.value, 3),
            parts=_parts(proposal.score),
            workspace=now.workspace,
            to="assessors" if attended else "candidate",
            elapsed_ms=now.elapsed_ms(now_ms),
            audience=OWNER_SIDE if attended else None,
        )
        return replace(now, counter=number, proposal=f"{number} {proposal.to_level}"), [event]

    return await step(interviews, interview.id, decide)


async def answer_proposal(
    interviews: InterviewServices, who: Caller, interview_id: str, proposal: int, *, accept: bool
) -> Interview:
    """Accept or decline the open proposal of a level."""
    interview, role = await allowed_in(interviews, who, interview_id, "conduct", "work")
    if role == "candidate" and interview.plan.attended:
        raise Denied("The assessors decide about the level in this interview.")

    def decide(now: Interview, now_ms: int) -> Decision:
        _need_work(now)
        number, _, level = now.proposal.partition(" ")
        if number != str(proposal):
            raise Conflict(f"The proposal {proposal} is not open any more.")
        if accept:
            found: Level = level  # type: ignore[assignment]  # written by `propose_level`
            return _changed(now, now_ms, found, who.user.id, proposal, "")
        declined = LevelDeclined(
            by=who.user.id,
            proposal=proposal,
            elapsed_ms=now.elapsed_ms(now_ms),
            audience=OWNER_SIDE if now.plan.attended else None,
        )
        return replace(now, proposal=""), [declined]

    return await step_and_repair(interviews, interview.id, decide)


async def offer_help(interviews: InterviewServices, interview: Interview, offer: HelpOffer) -> Interview:
    """Offer help to the candidate. A newer offer replaces an unanswered one."""
    policy = interviews.policy.version

    def decide(now: Interview, now_ms: int) -> Decision:
        if now.phase != "running" or now.workspace != interview.workspace:
            return now, []
        number = now.counter + 1
        event = HelpOffered(
            offer=number,
            policy=policy,
            kind=offer.kind,
            reason=offer.reason,
            workspace=now.workspace,
            elapsed_ms=now.elapsed_ms(now_ms),
        )
        return replace(now, counter=number, offer=f"{number} {offer.kind}"), [event]

    return await step(interviews, interview.id, decide)


async def answer_offer(
    interviews: InterviewServices, who: Caller, interview_id: str, offer: int, *, accept: bool
) -> Interview:
    """Take or dismiss the open offer of help. One that is taken becomes a prompt of the candidate."""
    interview, _ = await allowed_in(interviews, who, interview_id, "work")
    kind = interview.offer.partition(" ")[2]

    def decide(now: Interview, now_ms: int) -> Decision:
        _need_work(now)
        if now.offer != f"{offer} {kind}":
            raise Conflict(f"The offer {offer} is not open any more.")
        made = HelpAccepted if accept else HelpDismissed
        event: Event = made(by=who.user.id, offer=offer, kind=kind, elapsed_ms=now.elapsed_ms(now_ms))
        return replace(now, offer=""), [event]

    interview = await step(interviews, interview.id, decide)
    if accept:
        prompt = Message(text=HELP_PROMPTS.get(kind, HELP_PROMPTS["long_debugging"]))
        await give(interviews.services, who, interview.workspace, prompt)
    return interview


async def record_score(
    interviews: InterviewServices, interview: Interview, score: StruggleScore, at_s: float
) -> None:
    """Record the score and its parts, for the owner's side."""
    event = StruggleMeasured(
        policy=interviews.policy.version,
        workspace=interview.workspace,
        score=round(score.value, 3),
        parts=_parts(score),
        elapsed_ms=round(at_s * 1000),
        audience=OWNER_SIDE,
    )
    await interviews.services.log.append(interview.id, [event])


def _parts(score: StruggleScore) -> dict[str, float]:
    return {name: round(float(value), 3) for name, value in asdict(score).items() if name != "value"}


def _need_work(interview: Interview) -> None:
    if interview.phase not in ("running", "paused"):
        raise Conflict(f"The interview {interview.id} is {interview.phase}.")
