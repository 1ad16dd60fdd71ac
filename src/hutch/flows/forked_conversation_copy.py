"""Copies the conversation of a session for a fork of it.

The copy does not depend on the log of the other session, which may be erased. It has the events that
the model sees, without approvals: these hold for one session and its users.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from hutch.agent.conversation import Conversation
from hutch.domain.events import (
    ChangesUndone,
    ContextCompacted,
    ConversationCopied,
    Entry,
    Event,
    FileChanged,
    ImageLoaded,
    MessageSent,
    ModelReplied,
    QuestionAnswered,
    QuestionAsked,
    RunStarted,
    SessionRedone,
    SnapshotTaken,
    ToolCalled,
    ToolReturned,
    to_json,
)
from hutch.domain.session_events import UndoEvent
from hutch.sessions.state_before_last_run import effective_entries

SEEN = (
    *(RunStarted, MessageSent, ModelReplied, ToolCalled, ToolReturned, ImageLoaded),
    *(QuestionAsked, QuestionAnswered),
    *(ContextCompacted, ConversationCopied, ChangesUndone, SessionRedone),
)
PART_BYTES = 1 << 20  # of one event in the new log


def copy_conversation(entries: Sequence[Entry], snapshot: int | None) -> list[ConversationCopied]:
    """The conversation of a log, up to a snapshot, or whole; empty if there is none."""
    # Up to the snapshot first: a run that was undone later is a part of the conversation of that moment.
    counted = effective_entries(entries if snapshot is None else _up_to(entries, snapshot))
    conversation = Conversation.of(counted)
    if not conversation.messages:
        return []
    seen = [each.event for each in _since_summary(counted) if isinstance(each.event, SEEN)]
    closed: list[Event] = [*seen, *conversation.interrupted_results()]
    session, upto_seq = entries[0].session_id, counted[-1].seq
    return [
        ConversationCopied(session=session, upto_seq=upto_seq, events=tuple(part)) for part in _parts(closed)
    ]


def _up_to(entries: Sequence[Entry], snapshot: int) -> list[Entry]:
    """The entries up to the last one with this state of the files, and the results of calls until then."""
    end = 0
    for index, entry in enumerate(entries):
        match entry.event:
            case SnapshotTaken(snapshot=number) | FileChanged(snapshot=number) if number <= snapshot:
                end = index + 1
            case SnapshotTaken() | FileChanged():
                break
            case UndoEvent(after=number) if number <= snapshot:
                end = index + 1
            case UndoEvent():
                break
            case ToolReturned() if end == index:
                end = index + 1
    return list(entries[:end])


def _since_summary(entries: Sequence[Entry]) -> Iterator[Entry]:
    """The entries since the last summary, and the prompts before it."""
    summaries = [each.seq for each in entries if isinstance(each.event, ContextCompacted)]
    since = summaries[-1] if summaries else 0
    for entry in entries:
        if entry.seq >= since or isinstance(entry.event, RunStarted):
            yield entry


def _parts(events: Iterable[Event]) -> Iterator[list[dict[str, Any]]]:
    part: list[dict[str, Any]] = []
    size = 0
    for event in events:
        text = to_json(event)
        if part and size + len(text) > PART_BYTES:
            yield part
            part, size = [], 0
        part.append(json.loads(text))
        size += len(text)
    if part:
        yield part
