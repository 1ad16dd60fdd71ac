"""Counts the use of models and tools from events, without a database."""

import math
from collections.abc import Iterable
from dataclasses import field, fields
from datetime import UTC, datetime
from typing import NamedTuple

from hutch.domain.events import (
    AnyEvent,
    ContextCompacted,
    Entry,
    ModelReplied,
    RunChanged,
    RunEnded,
    RunResumed,
    RunStarted,
    SessionOpened,
    ToolReturned,
)
from hutch.system.lazy_dataclass import dataclass

TYPES = (
    "session.opened",
    "run.started",
    "run.resumed",
    "run.changed",
    "model.replied",
    "context.compacted",
    "tool.returned",
    "run.ended",
)
NANO = 1_000_000_000
MAX_COUNT = 2**40  # per event: a provider may report any number


class UsageKey(NamedTuple):
    """The key of a row of totals."""

    session_id: str
    user_id: str
    model: str
    persona: str
    day: str


@dataclass(slots=True)
class Totals:
    """Amounts of used resources."""

    runs: int = 0
    turns: int = 0
    input_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    cost_nano_usd: int = 0  # of replies with a price
    unpriced: int = 0  # replies without one
    tool_calls: int = 0
    tool_errors: int = 0
    duration_ms: int = 0


COUNTS = tuple(each.name for each in fields(Totals))


@dataclass(slots=True)
class RunState:
    """State of a run that its later events need."""

    model: str = ""
    persona: str = ""
    duration_ms: int = 0  # already in the totals: a resumed run continues from there


@dataclass(slots=True)
class UsageState:
    """State for the next events: owners by session, and runs by session and run."""

    users: dict[str, str] = field(default_factory=dict)
    runs: dict[tuple[str, str], RunState] = field(default_factory=dict)


UsageChange = dict[UsageKey, Totals]


def fold_usage(state: UsageState, entries: Iterable[Entry]) -> UsageChange:
    """The totals that entries add, in the order of their logs; updates `state`.

    An entry whose event was erased, is missing or cannot be read adds nothing.
    """
    added: UsageChange = {}
    for entry in entries:
        event = entry.event
        if isinstance(event, SessionOpened):
            state.users[entry.session_id] = event.owner
            continue
        run_id = _run_of(event)
        if run_id is None:
            continue
        run = state.runs.setdefault((entry.session_id, run_id), RunState())
        if isinstance(event, RunStarted):
            run.model, run.persona = event.model, event.persona
        elif isinstance(event, RunResumed):
            run.model = event.model or run.model
        elif isinstance(event, RunChanged):
            run.model, run.persona = event.model, event.persona
        user_id = state.users.get(entry.session_id, "")
        key = UsageKey(entry.session_id, user_id, run.model, run.persona, day_of(entry.at_ms))
        _add(added, key, run, event)
    return added


def day_of(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%Y-%m-%d")


def _run_of(event: AnyEvent) -> str | None:
    match event:
        case (
            RunStarted(run_id=run_id)
            | RunResumed(run_id=run_id)
            | RunChanged(run_id=run_id)
            | ModelReplied(run_id=run_id)
            | ContextCompacted(run_id=run_id)
            | ToolReturned(run_id=run_id)
            | RunEnded(run_id=run_id)
        ):
            return str(run_id)
    return None


def _add(added: UsageChange, key: UsageKey, run: RunState, event: AnyEvent) -> None:
    if isinstance(event, RunResumed | RunChanged):
        return
    totals = added.setdefault(key, Totals())
    match event:
        case RunStarted():
            totals.runs += 1
        case ModelReplied() | ContextCompacted():
            totals.turns += isinstance(event, ModelReplied)
            totals.input_tokens += _bounded(event.input_tokens)
            totals.cached_tokens += _bounded(event.cached_tokens)
            totals.output_tokens += _bounded(event.output_tokens)
            if event.cost_usd is None:
                totals.unpriced += 1
            else:
                totals.cost_nano_usd += _bounded(event.cost_usd * NANO)
        case ToolReturned():
            totals.tool_calls += 1
            totals.tool_errors += not event.ok
        case RunEnded():
            ended_ms = _bounded(event.duration_s * 1000)
            totals.duration_ms += max(0, ended_ms - run.duration_ms)
            run.duration_ms = max(run.duration_ms, ended_ms)


def _bounded(number: float) -> int:
    return max(0, min(MAX_COUNT, round(number))) if math.isfinite(number) else 0
