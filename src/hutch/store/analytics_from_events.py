"""Counts and latencies by minute from events, without a database.

The key of a count says where it belongs: session, minute, user, repository, model and persona. Counts are
whole numbers, so sums are exact in any order.
"""

import math
from collections.abc import Iterable
from dataclasses import field, fields
from functools import partial
from typing import Literal, NamedTuple

from hutch.domain.canonical_repository_name import repository_name
from hutch.domain.events import (
    AnyEvent,
    ApprovalAnswered,
    ChangeProposed,
    CommandEnded,
    ContextCompacted,
    EgressAttempted,
    Entry,
    MessageSent,
    ModelReplied,
    QuestionAnswered,
    RunChanged,
    RunEnded,
    RunQueued,
    RunResumed,
    RunStarted,
    SessionOpened,
    SessionPrepared,
    ToolReturned,
)
from hutch.domain.helper_agent_events import HelperEnded
from hutch.system.lazy_dataclass import dataclass

TYPES = (
    "session.opened",
    "session.prepared",
    "run.queued",
    "run.started",
    "run.resumed",
    "run.changed",
    "model.replied",
    "context.compacted",
    "tool.returned",
    "approval.answered",
    "question.answered",
    "message.sent",
    "command.ended",
    "egress.attempted",
    "change.proposed",
    "helper.ended",
    "run.ended",
)
NANO = 1_000_000_000
MAX_COUNT = 2**40  # per event: a provider may report any number
MINUTE_MS = 60_000
MAX_TEXT = 200  # of a name in a key: names come from repositories and models
LatencyKind = Literal["model", "first_token", "tool", "prepare", "jail", "change"]
BINS = 24
FIRST_BIN_MS = 4  # each bin is twice as wide as the one before: the last begins at about nine hours


class CountKey(NamedTuple):
    """The key of a row of counts."""

    session_id: str
    at_ms: int  # of the minute's start
    user_id: str
    repository: str
    model: str
    persona: str


@dataclass(slots=True)
class Counts:
    """Amounts of work, money and trouble."""

    runs: int = 0
    runs_done: int = 0
    runs_tests_failing: int = 0
    runs_limited: int = 0
    runs_stuck: int = 0  # of these, runs that repeated themselves
    runs_cancelled: int = 0
    runs_failed: int = 0
    provider_errors: int = 0  # runs that failed because the provider did not respond
    duration_ms: int = 0
    turns: int = 0
    retries: int = 0
    input_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    cost_nano_usd: int = 0
    unpriced: int = 0
    tool_calls: int = 0
    tool_errors: int = 0
    denials: int = 0  # calls that a rule or a person denied
    egress_denied: int = 0
    command_timeouts: int = 0
    interventions: int = 0  # messages, answers and decisions of people, further prompts, resumed runs
    proposals: int = 0


COUNTS = tuple(each.name for each in fields(Counts))


class LatencyKey(NamedTuple):
    """The key of a histogram; `name` is a model or a tool."""

    session_id: str
    at_ms: int
    user_id: str
    repository: str
    kind: str
    name: str


@dataclass(slots=True)
class Histogram:
    """A count, a sum, and the number of values in each bin."""

    count: int = 0
    total_ms: int = 0
    bins: list[int] = field(default_factory=partial(lambda size: [0] * size, BINS))

    def add(self, duration_s: float) -> None:
        duration_ms = bounded(duration_s * 1000)
        self.count += 1
        self.total_ms += duration_ms
        self.bins[bin_of(duration_ms)] += 1


@dataclass(slots=True)
class RunState:
    """State of a run that its later events need."""

    model: str = ""
    persona: str = ""
    duration_ms: int = 0  # already counted: a resumed run continues from there
    cost_nano_usd: int = 0  # with its helpers, as its limit counts it
    limit_nano_usd: int = 0  # 0: it has none
    spent_ms: int = 0  # when it last cost something


@dataclass(slots=True)
class SessionFacts:
    """One session: its place, and when it began and proposed its first change. Zero: not yet."""

    user_id: str = ""
    repository: str = ""
    opened_ms: int = 0
    prompted_ms: int = 0
    proposed_ms: int = 0


@dataclass(slots=True)
class AnalyticsState:
    """State for the next events: sessions, and runs by session and run."""

    sessions: dict[str, SessionFacts] = field(default_factory=dict)
    runs: dict[tuple[str, str], RunState] = field(default_factory=dict)


@dataclass(slots=True)
class AnalyticsChange:
    """The counts and latencies that some events add."""

    counts: dict[CountKey, Counts] = field(default_factory=dict)
    latencies: dict[LatencyKey, Histogram] = field(default_factory=dict)


def place_name(repository: str) -> str:
    """A repository as the analytics name it, however its address is written."""
    return repository_name(repository)[:MAX_TEXT] if repository.strip() else ""


def bin_of(duration_ms: int) -> int:
    return min(BINS - 1, (duration_ms // FIRST_BIN_MS).bit_length())


def bin_bounds_ms(number: int) -> tuple[int, int]:
    """The lower and the upper bound of a bin."""
    low = 0 if number == 0 else FIRST_BIN_MS << (number - 1)
    return low, FIRST_BIN_MS << number


def bounded(number: float) -> int:
    return max(0, min(MAX_COUNT, round(number))) if math.isfinite(number) else 0


def fold_analytics(state: AnalyticsState, entries: Iterable[Entry]) -> AnalyticsChange:
    """The counts that entries add, in the order of their logs; updates `state`.

    An entry whose event was erased, is missing or cannot be read adds nothing.
    """
    change = AnalyticsChange()
    for entry in entries:
        adding = _Adding(state, change, entry)
        adding.add(entry.event)
    return change


class _Adding:
    """Adds one entry to a change."""

    __slots__ = ("_at_ms", "_change", "_facts", "_session_id", "_state")

    def __init__(self, state: AnalyticsState, change: AnalyticsChange, entry: Entry) -> None:
        self._state, self._change = state, change
        self._session_id, self._at_ms = str(entry.session_id), entry.at_ms
        facts = state.sessions.get(self._session_id)
        if facts is None:
            facts = state.sessions[self._session_id] = SessionFacts()
        self._facts = facts

    def add(self, event: AnyEvent) -> None:
        match event:
            case ModelReplied() | ContextCompacted():
                self._add_reply(event)
            case ToolReturned():
                self._add_tool(event)
            case CommandEnded():
                if event.timed_out:
                    self._counts().command_timeouts += 1
            case EgressAttempted():
                if not event.allowed:
                    self._counts().egress_denied += 1
            case RunStarted() | RunResumed() | RunChanged() | RunEnded():
                self._add_run(event)
            case HelperEnded():
                self._spend(self._run(event.run_id), event.cost_usd)
            case ApprovalAnswered() | QuestionAnswered() | MessageSent():
                self._add_person(event)
            case _:
                self._add_session(event)

    def _add_reply(self, event: ModelReplied | ContextCompacted) -> None:
        run = self._run(event.run_id)
        counts = self._counts(run)
        counts.input_tokens += bounded(event.input_tokens)
        counts.cached_tokens += bounded(event.cached_tokens)
        counts.output_tokens += bounded(event.output_tokens)
        if event.cost_usd is None:
            counts.unpriced += 1
        else:
            counts.cost_nano_usd += bounded(event.cost_usd * NANO)
            self._spend(run, event.cost_usd)
        if isinstance(event, ModelReplied):
            counts.turns += 1
            counts.retries += bounded(event.attempts - 1)
            self._time("model", run.model, event.duration_s)
            if event.first_token_s is not None:
                self._time("first_token", run.model, event.first_token_s)

    def _spend(self, run: RunState, cost_usd: float | None) -> None:
        run.cost_nano_usd += bounded((cost_usd or 0.0) * NANO)
        run.spent_ms = self._at_ms

    def _add_tool(self, event: ToolReturned) -> None:
        counts = self._counts(self._run(event.run_id))
        counts.tool_calls += 1
        counts.tool_errors += not event.ok
        counts.denials += not event.ok and bool(event.rule)
        self._time("tool", event.tool[:MAX_TEXT], event.duration_s)

    def _add_run(self, event: RunStarted | RunResumed | RunChanged | RunEnded) -> None:
        run = self._run(event.run_id)
        match event:
            case RunStarted() | RunChanged():
                run.model, run.persona = event.model[:MAX_TEXT], event.persona[:MAX_TEXT]
                run.limit_nano_usd = bounded((event.max_cost_usd or 0.0) * NANO)
                if isinstance(event, RunStarted):
                    self._counts(run).runs += 1
                    if event.jail_s is not None:
                        self._time("jail", "", event.jail_s)
            case RunResumed():
                run.model = event.model[:MAX_TEXT] or run.model
                self._counts(run).interventions += 1
            case RunEnded():
                self._add_end(run, event)

    def _add_end(self, run: RunState, event: RunEnded) -> None:
        counts = self._counts(run)
        match event.outcome:
            case "done":
                counts.runs_done += 1
            case "tests_failing":
                counts.runs_tests_failing += 1
            case "limit_reached":
                counts.runs_limited += 1
                counts.runs_stuck += not event.limit and not event.code
            case "cancelled":
                counts.runs_cancelled += 1
            case "failed":
                counts.runs_failed += 1
                counts.provider_errors += event.code == "unavailable"
        ended_ms = bounded(event.duration_s * 1000)
        counts.duration_ms += max(0, ended_ms - run.duration_ms)
        run.duration_ms = max(run.duration_ms, ended_ms)

    def _add_person(self, event: ApprovalAnswered | QuestionAnswered | MessageSent) -> None:
        if isinstance(event, MessageSent) and event.author != "user":
            return
        counts = self._counts()
        counts.interventions += 1
        counts.denials += isinstance(event, ApprovalAnswered) and not event.allowed

    def _add_session(self, event: AnyEvent) -> None:
        facts = self._facts
        match event:
            case SessionOpened():
                facts.user_id, facts.opened_ms = event.owner[:MAX_TEXT], self._at_ms
            case SessionPrepared():
                facts.repository = place_name(event.source)
                self._time("prepare", "", event.duration_s)
            case RunQueued():
                if facts.prompted_ms:
                    self._counts().interventions += 1
                facts.prompted_ms = facts.prompted_ms or self._at_ms
            case ChangeProposed():
                self._counts().proposals += 1
                if not facts.proposed_ms:
                    facts.proposed_ms = self._at_ms
                    began_ms = facts.prompted_ms or facts.opened_ms or self._at_ms
                    self._time("change", "", max(0, self._at_ms - began_ms) / 1000)

    def _run(self, run_id: str) -> RunState:
        key = (self._session_id, str(run_id))
        run = self._state.runs.get(key)
        if run is None:
            run = self._state.runs[key] = RunState()
        return run

    def _counts(self, run: RunState | None = None) -> Counts:
        facts, minute = self._facts, self._at_ms - self._at_ms % MINUTE_MS
        model, persona = (run.model, run.persona) if run else ("", "")
        key = CountKey(self._session_id, minute, facts.user_id, facts.repository, model, persona)
        counts = self._change.counts.get(key)
        if counts is None:
            counts = self._change.counts[key] = Counts()
        return counts

    def _time(self, kind: LatencyKind, name: str, duration_s: float) -> None:
        facts, minute = self._facts, self._at_ms - self._at_ms % MINUTE_MS
        key = LatencyKey(self._session_id, minute, facts.user_id, facts.repository, kind, name)
        found = self._change.latencies.get(key)
        if found is None:
            found = self._change.latencies[key] = Histogram()
        found.add(duration_s)
