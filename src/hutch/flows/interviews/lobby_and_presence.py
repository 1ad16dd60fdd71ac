"""The candidate comes to the lobby, agrees, and gives signs of being there.

The clock is stopped while there is no sign of the candidate, up to the allowance of the plan. A sign
is a heartbeat of their client or any event of theirs in the workspace. Withheld heartbeats gain no more than
that allowance, and each gap is an event.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import asdict, replace

from hutch.domain.errors import Conflict, HutchError
from hutch.domain.events import (
    CandidateDisconnected,
    CandidateJoined,
    CandidateReconnected,
    ConsentGiven,
    Event,
    LobbyChecked,
)
from hutch.domain.generation_options import NO_GENERATION
from hutch.domain.given_code_test_case import LANGUAGES
from hutch.domain.interview import OPEN_PHASES, Interview
from hutch.domain.user import Caller
from hutch.flows.interviews.crash_safe_interview_steps import Decision, step
from hutch.flows.interviews.interview_access import allowed_in
from hutch.flows.interviews.interview_services import InterviewServices
from hutch.flows.interviews.interview_workspaces import language_of, open_ahead_if_possible
from hutch.store.shares import Shares
from hutch.system.lazy_dataclass import dataclass

ASSISTANT = "assistant"
OFFLINE_MS = 15_000  # without a sign
NOTED_EVERY_MS = 2_000  # signs are stored no more often


@dataclass(frozen=True, slots=True, kw_only=True)
class LobbyCheck:
    """One check before an interview."""

    name: str  # a language, or `assistant`
    ok: bool
    message: str = ""
    required: bool = True  # False for a language in which no question begins


async def check_lobby(
    interviews: InterviewServices, who: Caller, interview_id: str
) -> tuple[Interview, Sequence[LobbyCheck]]:
    """Check what the interview needs. The first candidate who comes is its candidate."""
    interview, role = await allowed_in(interviews, who, interview_id, "work", "conduct")
    if interview.phase not in OPEN_PHASES:
        raise Conflict(f"The interview {interview.id} has ended.")
    checks = await _checks(interviews, interview)
    ok = is_ready(checks)
    described = tuple(asdict(each) for each in checks)

    def decide(now: Interview, _: int) -> Decision:
        events: list[Event] = [LobbyChecked(by=who.user.id, ok=ok, checks=described)]
        if role != "candidate" or now.candidate:
            return now, events
        return replace(now, candidate=who.user.id), [CandidateJoined(by=who.user.id), *events]

    others = await Shares(interviews.services.rows).of_session(interview.id)
    interview = await step(interviews, interview.id, decide)
    if interview.candidate and role == "candidate":  # other candidates have lost their access
        interviews.check_access(each.user_id for each in others if each.role == "candidate")
    if interview.phase == "planned" and interview.candidate and ok:
        await open_ahead_if_possible(interviews, interview)
    return interview, checks


def is_ready(checks: Sequence[LobbyCheck]) -> bool:
    """True if everything that the interview needs is there."""
    return all(each.ok for each in checks if each.required)


async def _checks(interviews: InterviewServices, interview: Interview) -> list[LobbyCheck]:
    """The languages in which questions begin, those that the candidate may switch to, and the AI. No check
    names a question: candidates see these."""
    languages: dict[str, bool] = {}  # each with whether a question begins in it
    for number, planned in enumerate(interview.plan.questions, start=1):
        question = await interviews.question(planned.id)
        first = language_of(interview, number, question)
        for each in (first, *question.languages):
            languages[each] = languages.get(each, False) or each == first
    missing = await interviews.missing_programs(list(languages))
    interviews.prepare(each for each in LANGUAGES if each in languages and each not in missing)
    checks = [
        LobbyCheck(name=each, ok=each not in missing, message=missing.get(each, ""), required=required)
        for each, required in languages.items()
    ]
    return [*checks, await _check_assistant(interviews, interview)] if interview.plan.ai else checks


async def _check_assistant(interviews: InterviewServices, interview: Interview) -> LobbyCheck:
    """Check that the AI has a model with a key. No request is sent."""
    plan = interview.plan
    model, check = plan.model, interviews.services.check_model
    try:
        await asyncio.to_thread(check, model, plan.first_level, interview.owner, NO_GENERATION)
    except HutchError as error:
        return LobbyCheck(name=ASSISTANT, ok=False, message=interviews.clean(str(error)))
    return LobbyCheck(name=ASSISTANT, ok=True)


async def agree(interviews: InterviewServices, who: Caller, interview_id: str) -> Interview:
    """The candidate agrees to the text of the plan."""
    await allowed_in(interviews, who, interview_id, "work")

    def decide(now: Interview, _: int) -> Decision:
        if now.consented or not now.plan.consent:
            return now, []
        if now.candidate != who.user.id:
            raise Conflict("Come to the lobby first.")
        return replace(now, consented=True), [ConsentGiven(by=who.user.id, text=now.plan.consent)]

    return await step(interviews, interview_id, decide)


async def heartbeat(interviews: InterviewServices, who: Caller, interview_id: str) -> Interview:
    """A sign of the candidate's client, every few seconds."""
    interview, _ = await allowed_in(interviews, who, interview_id, "work")
    return await note_sign(interviews, interview, interviews.now_ms())


async def note_sign(interviews: InterviewServices, interview: Interview, at_ms: int) -> Interview:
    """A sign of the candidate at this time. Time offline that ends with it is credited."""
    seen_ms = await interviews.rows.seen_ms(interview.id)
    if interview.clock.offline_since_ms is None and seen_ms and at_ms - seen_ms > OFFLINE_MS:
        interview = await go_offline(interviews, interview, seen_ms)
    if at_ms - seen_ms >= NOTED_EVERY_MS:
        await interviews.rows.note_seen(interview.id, at_ms)
    if interview.clock.offline_since_ms is None:
        return interview

    def decide(now: Interview, _: int) -> Decision:
        since_ms = now.clock.offline_since_ms
        if since_ms is None:
            return now, []
        credit = now.clock.credit_ms(at_ms, now.allowance_ms)
        back = CandidateReconnected(offline_ms=max(0, at_ms - since_ms), credited_ms=credit)
        return replace(now, clock=now.clock.online(at_ms, now.allowance_ms)), [back]

    return await step(interviews, interview.id, decide)


async def go_offline(interviews: InterviewServices, interview: Interview, seen_ms: int) -> Interview:
    """There was no sign of the candidate since `seen_ms`."""

    def decide(now: Interview, _: int) -> Decision:
        if now.phase != "running" or now.clock.offline_since_ms is not None or now.clock.since_ms is None:
            return now, []
        since_ms = max(seen_ms, now.clock.since_ms)
        clock = replace(now.clock, offline_since_ms=since_ms)
        return replace(now, clock=clock), [CandidateDisconnected(since_ms=since_ms)]

    return await step(interviews, interview.id, decide)
