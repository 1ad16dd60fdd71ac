"""The work of the AI in an interview, as the rows `ai_session` and `ai_interaction_quality`.

They are views of the logs: nothing of them is stored. Names of fields are those that applicant-tracking
systems were given; an AI session is the AI's part of one workspace.
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from hutch.domain.current_actor_and_event_author import AGENT, author_of
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
from hutch.domain.interview import Interview, InterviewWorkspace
from hutch.domain.interview_question import Level
from hutch.domain.user import Caller
from hutch.flows.interviews.interview_access import allowed_in
from hutch.flows.interviews.interview_report import read_whole_log
from hutch.flows.interviews.interview_services import InterviewServices
from hutch.flows.interviews.question_assessment_facts import assess_question
from hutch.flows.run_and_log_lookup import read_log

HELPFULNESS: dict[Level, str] = {
    "consultant": "consultant",
    "pair": "pair-programming",
    "copilot": "full-copilot",
}


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
        at = _iso(entries[-1].at_ms)
        measures = [
            (f"prompt_{mark.name}", mark.points, f"{mark.reason} Events: {_numbers(mark.evidence)}")
            for mark in facts.marks
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
                "id": f"{workspace.session_id}:{kind}",
                "aiSessionId": workspace.session_id,
                "metricType": kind,
                "score": None if score is None else float(score),
                "description": description,
                "timestamp": at,
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
    escalated = [at_ms for at_ms, event in changes if event.proposal]
    offered, _, _ = _help(room, workspace)
    events = [entry.event for entry in entries]
    return {
        "id": workspace.session_id,
        "sessionRecordingId": interview.id,
        "initialHelpfulness": _helpfulness(first),
        "currentHelpfulness": _helpfulness(changes[-1][1].level if changes else first),
        "autoEscalationTime": _iso(escalated[0]) if escalated else None,
        "proactiveSuggestionsCount": offered,
        "autonomousTestRuns": sum(isinstance(each, RanTests) and author_of(each) == AGENT for each in events),
        "fileModificationsCount": sum(isinstance(each, FileChanged) and each.by == AGENT for each in events),
        "averageLatency": ai.average_reply_s,
        "totalTokensUsed": ai.input_tokens + ai.output_tokens,
        "createdAt": _iso(entries[0].at_ms),
        "updatedAt": _iso(entries[-1].at_ms),
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


def _helpfulness(level: str) -> str:
    return next((name for known, name in HELPFULNESS.items() if known == level), "")


def _numbers(evidence: Sequence[int]) -> str:
    return ", ".join(map(str, evidence)) or "none"


def _iso(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="milliseconds")
