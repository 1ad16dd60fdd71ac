"""The work of the AI in an interview, as the rows `ai_session` and `ai_interaction_quality`.

They are views of the logs: nothing of them is stored. Names and types of fields are those that
applicant-tracking systems were given: ids are UUIDs. An AI session is the AI's part of one workspace.
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, get_args
from uuid import uuid5

from hutch.domain.current_actor_and_author import AGENT, author_of
from hutch.domain.events import (
    Entry,
    FileChanged,
    HelpAccepted,
    HelpDismissed,
    HelpOffered,
    LevelChanged,
    QuestionOpened,
    RanTests,
)
from hutch.domain.ids import to_uuid
from hutch.domain.interview import Interview, InterviewWorkspace
from hutch.domain.interview_question import Level
from hutch.domain.user import Caller
from hutch.flows.interviews.interview_access import allowed_in
from hutch.flows.interviews.interview_report import marks_with_overrides, read_whole_log
from hutch.flows.interviews.interview_services import InterviewServices
from hutch.flows.interviews.question_assessment_facts import assess_question
from hutch.flows.run_and_log_lookup import read_log

HELPFULNESS: dict[Level, str] = {
    "consultant": "consultant",
    "pair": "pair-programming",
    "copilot": "full-copilot",
}
LEVELS: tuple[Level, ...] = get_args(Level)  # from the least help to the most


async def ai_sessions(interviews: InterviewServices, who: Caller, interview_id: str) -> list[dict[str, Any]]:
    """One row for each workspace of a question that was opened. For the owner's side."""
    interview, workspaces, room = await _read(interviews, who, interview_id)
    return [await _session(interviews, interview, each, room) for each in workspaces]


async def interaction_quality(
    interviews: InterviewServices, who: Caller, interview_id: str
) -> list[dict[str, Any]]:
    """One row for each mark and measure of each AI session. For the owner's side."""
    interview, workspaces, room = await _read(interviews, who, interview_id)
    found: list[dict[str, Any]] = []
    for workspace in workspaces:
        entries = await read_log(interviews.services.log, workspace.session_id)
        facts = assess_question(entries, interview.candidate)
        session = to_uuid(workspace.session_id)
        measures = [
            (f"prompt_{mark['name']}", mark["points"], _why(mark))
            for mark in marks_with_overrides(facts, room, workspace.number)
        ]
        offered, taken, dismissed = _help(room, workspace)
        measures.append(
            ("help_taken", taken, f"{taken} of {offered} offers of help taken, {dismissed} dismissed.")
        )
        measures.append(
            ("failed_tool_calls", facts.ai.failed_calls, f"Of {sum(facts.ai.calls.values())} tool calls.")
        )
        found += [
            {
                "id": uuid5(session, kind),
                "aiSessionId": session,
                "metricType": kind,
                "score": None if score is None else float(score),
                "description": description,
                "timestamp": _time(entries[-1].at_ms),
            }
            for kind, score, description in measures
        ]
    return found


async def _read(
    interviews: InterviewServices, who: Caller, interview_id: str
) -> tuple[Interview, list[InterviewWorkspace], list[Entry]]:
    interview, _ = await allowed_in(interviews, who, interview_id, "conduct")
    workspaces = await interviews.rows.workspaces(interview.id)
    opened = [each for each in workspaces if each.number <= interview.number]
    return interview, opened, await read_whole_log(interviews.services.log, interview.id)


async def _session(
    interviews: InterviewServices, interview: Interview, workspace: InterviewWorkspace, room: Sequence[Entry]
) -> dict[str, Any]:
    entries = await read_log(interviews.services.log, workspace.session_id)
    ai = assess_question(entries, interview.candidate).ai
    first, changes = _levels(room, workspace)
    escalated = [at_ms for at_ms, event in changes if event.proposal and _is_more_help(event)]
    offered, _, _ = _help(room, workspace)
    events = [entry.event for entry in entries]
    return {
        "id": to_uuid(workspace.session_id),
        "sessionRecordingId": to_uuid(interview.id),
        "initialHelpfulness": _helpfulness(first),
        "currentHelpfulness": _helpfulness(changes[-1][1].level if changes else first),
        "autoEscalationTime": _time(escalated[0]) if escalated else None,
        "proactiveSuggestionsCount": offered,
        "autonomousTestRuns": sum(isinstance(each, RanTests) and author_of(each) == AGENT for each in events),
        "fileModificationsCount": sum(isinstance(each, FileChanged) and each.by == AGENT for each in events),
        "averageLatency": ai.average_reply_s,
        "totalTokensUsed": ai.input_tokens + ai.output_tokens,
        "createdAt": _time(entries[0].at_ms),
        "updatedAt": _time(entries[-1].at_ms),
        "workspace": workspace.session_id,
    }


def _levels(
    room: Sequence[Entry], workspace: InterviewWorkspace
) -> tuple[str, list[tuple[int, LevelChanged]]]:
    """The level at which the question began, and its changes with their times."""
    first = ""
    changes = []
    for entry in room:
        event = entry.event
        if isinstance(event, QuestionOpened) and event.number == workspace.number:
            first = event.level
        elif isinstance(event, LevelChanged) and event.workspace == workspace.session_id:
            changes.append((entry.at_ms, event))
    return first, changes


def _help(room: Sequence[Entry], workspace: InterviewWorkspace) -> tuple[int, int, int]:
    """Offers of help, those that were taken, and those that were dismissed."""
    events = [entry.event for entry in room]
    offers = {
        each.offer
        for each in events
        if isinstance(each, HelpOffered) and each.workspace == workspace.session_id
    }
    taken = sum(isinstance(each, HelpAccepted) and each.offer in offers for each in events)
    dismissed = sum(isinstance(each, HelpDismissed) and each.offer in offers for each in events)
    return len(offers), taken, dismissed


def _is_more_help(change: LevelChanged) -> bool:
    levels: tuple[str, ...] = LEVELS
    return change.before in levels and levels.index(change.level) > levels.index(change.before)


def _helpfulness(level: str) -> str | None:
    return next((name for known, name in HELPFULNESS.items() if known == level), None)


def _why(mark: Mapping[str, Any]) -> str:
    """The reason of a mark, its events, and the assessor's correction."""
    why = f"{mark['reason']} Events: {', '.join(map(str, mark['evidence'])) or 'none'}"
    if own := mark["overridden"]:
        computed = "none" if mark["computed"] is None else mark["computed"]
        why += f". Set by an assessor, computed {computed}: {own['comment']}"
    return why


def _time(at_ms: int) -> datetime:
    return datetime.fromtimestamp(at_ms / 1000, UTC)
