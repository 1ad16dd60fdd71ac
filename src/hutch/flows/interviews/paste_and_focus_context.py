"""Pastes and changes of focus that the candidate's client reported, with what happened around them.

The client reports the time. Its clock may be wrong or lie, so a time is believed only if it is shortly before
the report arrived.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

from hutch.domain.events import ClientReported, Entry
from hutch.flows.interviews.interview_event_sentences import event_sentence

MAX_DELAY_MS = 600_000  # between an event and its report; offline clients report later
COPIED_WITHIN_MS = 600_000
REPORTED = ("paste", "focus", "blur", "visibility")


def reports_with_context(
    room: Sequence[Entry], workspace: str, entries: Sequence[Entry]
) -> list[dict[str, Any]]:
    """The client's reports about one workspace, each with the recorded work before and after it."""
    work = [entry for entry in entries if event_sentence(entry.event)]
    times = [entry.at_ms for entry in work]
    found: list[dict[str, Any]] = []
    copies: list[tuple[int, Any, str]] = []
    left_ms: int | None = None
    for seq, at_ms, type, timestamp, data in _reported(room, workspace):
        happened_ms = _happened_ms(timestamp, at_ms)
        if type == "copy":
            copies.append((happened_ms, data.get("chars"), str(data.get("where", ""))))
            continue
        if type not in REPORTED:
            continue
        report: dict[str, Any] = {
            "seq": seq,
            "at_ms": at_ms,
            "happened_ms": happened_ms,
            "type": type,
            "timestamp": timestamp,
            "data": data,
            **_around(work, times, happened_ms),
        }
        if type == "paste":
            report["copied"] = _copied(copies, happened_ms, data.get("chars"))
        elif type == "blur":
            left_ms = happened_ms
        elif type == "focus" and left_ms is not None:
            report["away_s"], left_ms = max(0, happened_ms - left_ms) // 1000, None
        found.append(report)
    return found


def _reported(room: Sequence[Entry], workspace: str) -> Iterable[tuple[int, int, str, str, dict[str, Any]]]:
    for entry in room:
        if isinstance(entry.event, ClientReported) and entry.event.workspace == workspace:
            for each in entry.event.events:
                yield entry.seq, entry.at_ms, each.type, each.timestamp, each.data


def _happened_ms(timestamp: str, received_ms: int) -> int:
    try:
        parsed = datetime.fromisoformat(timestamp)
        reported_ms = round((parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)).timestamp() * 1000)
    except (ValueError, OverflowError):
        return received_ms
    return reported_ms if received_ms - MAX_DELAY_MS <= reported_ms <= received_ms else received_ms


def _around(work: Sequence[Entry], times: Sequence[int], at_ms: int) -> dict[str, Any]:
    before, after = bisect_right(times, at_ms) - 1, bisect_left(times, at_ms + 1)
    return {
        "before": _moment_before_or_after(work[before]) if before >= 0 else None,
        "after": _moment_before_or_after(work[after]) if after < len(work) else None,
    }


def _moment_before_or_after(entry: Entry) -> dict[str, Any]:
    return {"seq": entry.seq, "at_ms": entry.at_ms, "what": event_sentence(entry.event)}


def _copied(copies: Sequence[tuple[int, Any, str]], at_ms: int, chars: Any) -> dict[str, Any] | None:
    """The last copy of as many characters shortly before, and where it was made."""
    for copied_ms, copied_chars, where in reversed(copies):
        if copied_chars == chars and 0 <= at_ms - copied_ms <= COPIED_WITHIN_MS:
            return {"where": where, "seconds_before": (at_ms - copied_ms) // 1000}
    return None
