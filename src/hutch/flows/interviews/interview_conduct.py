"""Conducts an interview: begin, pause, resume, the next question, another language, more time, the end."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from hutch.domain.errors import BadRequest, Conflict, Unavailable
from hutch.domain.events import (
    Event,
    InterviewBegun,
    InterviewEnded,
    InterviewPaused,
    InterviewResumed,
    LanguageSwitched,
    QuestionOpened,
    SessionEnded,
    TimeExtended,
)
from hutch.domain.interview import Interview, InterviewWorkspace, Phase
from hutch.domain.interview_question import Question
from hutch.domain.user import Caller
from hutch.flows.interviews.crash_safe_interview_steps import Decision, step, step_and_repair
from hutch.flows.interviews.interview_access import allowed_in
from hutch.flows.interviews.interview_services import InterviewServices
from hutch.flows.interviews.interview_workspaces import ensure_workspace, first_level, language_of

MAX_EXTENSION_MINUTES = 240
EndCause = Literal["finished", "assessor", "clock"]


async def begin(interviews: InterviewServices, who: Caller, interview_id: str) -> Interview:
    """Begin an interview with its first question. The candidate may begin one that nobody attends."""
    interview, role = await allowed_in(interviews, who, interview_id, "conduct", "work")
    _need_phase(interview, "planned")
    if role == "candidate" and interview.plan.attended:
        raise Conflict("An assessor begins this interview. Wait for it.")
    _check_ready(interview)
    question, workspace = await _prepare(interviews, interview, 1)

    def decide(now: Interview, now_ms: int) -> Decision:
        _need_phase(now, "planned")
        _check_ready(now)
        begun = InterviewBegun(
            by=who.user.id,
            candidate=now.candidate,
            minutes=now.minutes,
            extra_time_percent=now.plan.extra_time_percent,
        )
        started = replace(now, phase="running", begun_ms=now_ms, clock=now.clock.started(now_ms))
        after, opened = _opened(started, now_ms, question, workspace, who.user.id)
        return after, [begun, opened]

    return await step_and_repair(interviews, interview.id, decide)


def _check_ready(interview: Interview) -> None:
    if not interview.candidate:
        raise Conflict("The candidate has not come to the lobby yet. Send them an invitation.")
    if interview.plan.consent and not interview.consented:
        raise Conflict("The candidate has not agreed to the text of the plan yet.")


async def pause(interviews: InterviewServices, who: Caller, interview_id: str, reason: str = "") -> Interview:
    """Stop the clock. The candidate sees the reason, and can read but not work until it continues."""
    await allowed_in(interviews, who, interview_id, "conduct")
    reason = interviews.clean(reason)

    def decide(now: Interview, now_ms: int) -> Decision:
        if now.phase == "paused":
            return now, []
        _need_phase(now, "running")
        clock = now.clock.stopped(now_ms, now.allowance_ms)
        event = InterviewPaused(by=who.user.id, reason=reason, elapsed_ms=clock.ran_ms)
        return replace(now, phase="paused", clock=clock), [event]

    return await step_and_repair(interviews, interview_id, decide)


async def resume(interviews: InterviewServices, who: Caller, interview_id: str) -> Interview:
    """Continue after a pause."""
    await allowed_in(interviews, who, interview_id, "conduct")

    def decide(now: Interview, now_ms: int) -> Decision:
        if now.phase == "running":
            return now, []
        _need_phase(now, "paused")
        event = InterviewResumed(by=who.user.id, elapsed_ms=now.clock.ran_ms)
        return replace(now, phase="running", clock=now.clock.started(now_ms)), [event]

    return await step_and_repair(interviews, interview_id, decide)


async def next_question(
    interviews: InterviewServices, who: Caller, interview_id: str, *, after: int
) -> Interview:
    """Open the question after number `after`, or end the interview after the last. Repeated calls with the
    same number have one effect."""
    interview, _ = await allowed_in(interviews, who, interview_id, "work", "conduct")
    return await go_on(interviews, interview, after=after, by=who.user.id)


async def go_on(interviews: InterviewServices, interview: Interview, *, after: int, by: str) -> Interview:
    """The same for the clock, which has no caller: then `by` is empty."""
    if interview.number > after:
        return interview
    _need_phase(interview, "running")
    if interview.number < after:
        raise BadRequest(f"The interview is at question {interview.number}, not {after}.")
    if interview.is_last_question:
        return await _finish(interviews, interview.id, by, "finished" if by else "clock")
    (question, workspace), left = await asyncio.gather(
        _prepare(interviews, interview, after + 1), _workspaces_of(interviews, interview)
    )

    def decide(now: Interview, now_ms: int) -> Decision:
        if now.number != after:
            return now, []
        _need_phase(now, "running")
        opened, event = _opened(now, now_ms, question, workspace, by)
        return replace(opened, untested=_with_left(now, left)), [event]

    return await step_and_repair(interviews, interview.id, decide)


async def switch_language(
    interviews: InterviewServices, who: Caller, interview_id: str, language: str
) -> Interview:
    """Continue the current question in another language. The work in each language stays."""
    interview, _ = await allowed_in(interviews, who, interview_id, "work", "conduct")
    _need_phase(interview, "running")
    if interview.language == language:
        return interview
    question = await interviews.question(interview.question)
    question.variant(language)
    if problem := (await interviews.missing_programs([language])).get(language):
        raise Unavailable(problem)
    workspace = await ensure_workspace(interviews, interview, interview.number, question, language)

    def decide(now: Interview, now_ms: int) -> Decision:
        _need_phase(now, "running")
        if now.number != interview.number:
            raise Conflict("Another question was opened meanwhile.")
        if now.language == language:
            return now, []
        event = LanguageSwitched(
            by=who.user.id,
            number=now.number,
            before=now.language,
            language=language,
            workspace=workspace.session_id,
            elapsed_ms=now.elapsed_ms(now_ms),
        )
        return replace(now, language=language, workspace=workspace.session_id), [event]

    return await step_and_repair(interviews, interview.id, decide)


async def extend(
    interviews: InterviewServices,
    who: Caller,
    interview_id: str,
    minutes: int,
    of: Literal["interview", "question"],
    reason: str = "",
) -> Interview:
    """Give the candidate more time, for the interview or for the current question."""
    await allowed_in(interviews, who, interview_id, "conduct")
    if not 1 <= minutes <= MAX_EXTENSION_MINUTES:
        raise BadRequest(f"More time is 1 to {MAX_EXTENSION_MINUTES} minutes, not {minutes}.")
    reason = interviews.clean(reason)

    def decide(now: Interview, _: int) -> Decision:
        _need_phase(now, "planned", "running", "paused")
        clock = replace(now.clock, extra_ms=now.clock.extra_ms + minutes * 60_000)
        if of == "question":  # the interview gets longer too: otherwise a later question would pay for it
            clock = replace(clock, question_extra_ms=clock.question_extra_ms + minutes * 60_000)
        return replace(now, clock=clock), [
            TimeExtended(by=who.user.id, minutes=minutes, of=of, reason=reason)
        ]

    return await step(interviews, interview_id, decide)


async def end(interviews: InterviewServices, who: Caller, interview_id: str, reason: str = "") -> Interview:
    """End an interview. Assessors can rate it until it is closed."""
    _, role = await allowed_in(interviews, who, interview_id, "conduct", "work")
    cause: EndCause = "finished" if role == "candidate" else "assessor"
    return await _finish(interviews, interview_id, who.user.id, cause, interviews.clean(reason))


async def end_by_clock(interviews: InterviewServices, interview: Interview) -> Interview:
    """End an interview whose time is over; one that got more time meanwhile continues."""
    return await _finish(interviews, interview.id, "", "clock")


async def _finish(
    interviews: InterviewServices, interview_id: str, by: str, cause: EndCause, reason: str = ""
) -> Interview:
    left = await _workspaces_of(interviews, await interviews.rows.get(interview_id))

    def decide(now: Interview, now_ms: int) -> Decision:
        if now.phase in ("ended", "closed"):
            return now, []
        if cause != "assessor":
            _need_phase(now, "running", "paused")
        if cause == "clock" and not now.is_over(now_ms):
            return now, []
        clock = now.clock.stopped(now_ms, now.allowance_ms)
        event = InterviewEnded(by=by, cause=cause, reason=reason, elapsed_ms=clock.ran_ms)
        after = replace(
            now,
            phase="ended",
            clock=clock,
            ended_ms=now_ms,
            end_reason=reason,
            proposal="",
            offer="",
            untested=_with_left(now, left),
        )
        return after, [event]

    return await step_and_repair(interviews, interview_id, decide)


async def close(interviews: InterviewServices, who: Caller, interview_id: str) -> Interview:
    """Close the record of an interview: its end is signed, and nothing more is added."""
    interview, _ = await allowed_in(interviews, who, interview_id, "conduct")
    if interview.phase == "ended" and not interview.sealed:
        raise Conflict("Its workspaces are still ending, or hidden tests still run. Try again in a moment.")

    def decide(now: Interview, _: int) -> Decision:
        if now.phase == "closed":
            return now, []
        _need_phase(now, "ended")
        ended: Sequence[Event] = [SessionEnded(outcome="done", reason=now.end_reason)]
        return replace(now, phase="closed"), ended

    return await step(interviews, interview_id, decide)


async def _prepare(
    interviews: InterviewServices, interview: Interview, number: int
) -> tuple[Question, InterviewWorkspace]:
    question = await interviews.question(interview.plan.questions[number - 1].id)
    language = language_of(interview, number, question)
    return question, await ensure_workspace(interviews, interview, number, question, language)


def _opened(
    now: Interview, now_ms: int, question: Question, workspace: InterviewWorkspace, by: str
) -> tuple[Interview, QuestionOpened]:
    """The interview at this question, with a level and a time of its own."""
    planned, elapsed = now.plan.questions[workspace.number - 1], now.elapsed_ms(now_ms)
    minutes = planned.minutes or (None if now.plan.minutes else question.time_minutes)
    level = first_level(now, question)
    after = replace(
        now,
        number=workspace.number,
        question=question.id,
        language=workspace.language,
        level=level,
        workspace=workspace.session_id,
        question_minutes=minutes,
        clock=replace(now.clock, question_from_ms=elapsed, question_extra_ms=0),
        proposal="",
        offer="",
    )
    event = QuestionOpened(
        by=by,
        number=workspace.number,
        question=question.id,
        title=question.title,
        version=question.version,
        digest=workspace.digest,
        language=workspace.language,
        level=level if now.plan.ai else "",
        workspace=workspace.session_id,
        minutes=minutes,
        elapsed_ms=elapsed,
    )
    return after, event


async def _workspaces_of(interviews: InterviewServices, interview: Interview) -> list[str]:
    """The workspaces of the current question: one for each language that the candidate has opened."""
    found = await interviews.rows.workspaces(interview.id)
    return [each.session_id for each in found if each.number == interview.number]


def _with_left(interview: Interview, left: Sequence[str]) -> tuple[str, ...]:
    """The workspaces whose hidden tests are still to be run; the one that was handed in comes last."""
    others = [each for each in left if each not in (*interview.untested, interview.workspace)]
    handed_in = [each for each in (interview.workspace,) if each and each not in interview.untested]
    return (*interview.untested, *others, *handed_in)


def _need_phase(interview: Interview, *phases: Phase) -> None:
    if interview.phase not in phases:
        raise Conflict(f"The interview {interview.id} is {interview.phase}, not {' or '.join(phases)}.")
