"""Explains pauses in the work of a candidate: the clock stood, or the AI was at work."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any

from hutch.domain.current_actor_and_author import AGENT, author_of
from hutch.domain.events import (
    CandidateDisconnected,
    CandidateReconnected,
    Entry,
    InterviewPaused,
    InterviewResumed,
)
from hutch.flows.interviews.interview_event_sentences import event_sentence
from hutch.flows.interviews.question_assessment_facts import Pause


def explain_pauses(
    pauses: Iterable[Pause], entries: Sequence[Entry], room: Sequence[Entry]
) -> list[dict[str, Any]]:
    """Each pause with the events at its ends, the seconds for which the clock stood, and the AI's events."""
    by_seq = {entry.seq: entry for entry in entries}
    stood = list(_times_without_clock(room))
    found = []
    for pause in pauses:
        first, last = by_seq[pause.after_seq], by_seq[pause.next_seq]
        between = [entry for entry in entries if first.seq < entry.seq < last.seq]
        found.append(
            {
                **asdict(pause),
                "at_ms": first.at_ms,
                "before": event_sentence(first.event) or first.event.type,
                "after": event_sentence(last.event) or last.event.type,
                "clock_stood_s": sum(_overlap(each, first.at_ms, last.at_ms) for each in stood) // 1000,
                "ai_events": sum(author_of(entry.event) == AGENT for entry in between),
            }
        )
    return found


def _times_without_clock(room: Sequence[Entry]) -> Iterable[tuple[int, int]]:
    since_ms: int | None = None
    for entry in room:
        event = entry.event
        if isinstance(event, CandidateDisconnected):
            since_ms = event.since_ms if since_ms is None else since_ms
        elif isinstance(event, InterviewPaused):
            since_ms = entry.at_ms if since_ms is None else since_ms
        elif isinstance(event, CandidateReconnected | InterviewResumed) and since_ms is not None:
            yield since_ms, entry.at_ms
            since_ms = None


def _overlap(span: tuple[int, int], start_ms: int, end_ms: int) -> int:
    return max(0, min(span[1], end_ms) - max(span[0], start_ms))
