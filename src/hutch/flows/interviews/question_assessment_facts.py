"""The facts about one question of an interview, for its assessment: computed from the log alone.

Everything links the events that show it. Nothing is added up to a verdict: people decide.
"""

from collections import Counter
from collections.abc import Iterable, Sequence

from hutch.domain.current_actor_and_author import AGENT, author_of
from hutch.domain.events import Entry, FileChanged, ModelReplied, RanTests, ToolReturned
from hutch.flows.interviews.candidate_ai_skill_marks import Mark, prompt_marks
from hutch.system.lazy_dataclass import dataclass

PAUSE_MS = 120_000  # without any work of the candidate; shorter ones are normal


@dataclass(frozen=True, slots=True)
class AssessedRun:
    """One run of the visible tests."""

    seq: int
    at_ms: int
    by: str
    passed: int
    failed: int
    aided: bool  # the AI has changed a file since the candidate's last own change


@dataclass(frozen=True, slots=True)
class Pause:
    """A time without work of the candidate, between two of their events. It says nothing by itself."""

    after_seq: int
    seconds: int
    next_seq: int


@dataclass(frozen=True, slots=True)
class AiUse:
    """The work of the AI."""

    replies: int
    input_tokens: int
    output_tokens: int
    cost_usd: float | None  # None: a reply has no known price
    average_reply_s: float | None  # None without replies
    calls: dict[str, int]  # finished tool calls by tool
    failed_calls: int
    test_runs: int
    changed_files: int
    first_reply_seq: int = 0
    last_reply_seq: int = 0


@dataclass(frozen=True, slots=True)
class QuestionAssessment:
    """The facts about one question."""

    tests: tuple[AssessedRun, ...]
    first_all_passed_seq: int | None
    marks: tuple[Mark, ...]
    pauses: tuple[Pause, ...]
    ai: AiUse


def assess_question(entries: Iterable[Entry], candidate: str) -> QuestionAssessment:
    """The facts in the log of one question. `candidate` is the user's id."""
    entries = list(entries)
    tests = tuple(_tests(entries, candidate))
    passed = (point.seq for point in tests if point.passed and not point.failed)
    return QuestionAssessment(
        tests=tests,
        first_all_passed_seq=next(passed, None),
        marks=tuple(prompt_marks(entries, candidate)),
        pauses=tuple(_pauses(entries, candidate)),
        ai=_ai_use(entries),
    )


def _tests(entries: Sequence[Entry], candidate: str) -> Iterable[AssessedRun]:
    aided = False
    for entry in entries:
        event = entry.event
        if isinstance(event, FileChanged) and event.by in (AGENT, candidate):
            aided = event.by == AGENT
        elif isinstance(event, RanTests) and not event.cancelled:
            yield AssessedRun(entry.seq, entry.at_ms, author_of(event), event.passed, event.failed, aided)


def _pauses(entries: Sequence[Entry], candidate: str) -> Iterable[Pause]:
    last: Entry | None = None
    for entry in entries:
        if author_of(entry.event) != candidate:
            continue
        if last and entry.at_ms - last.at_ms >= PAUSE_MS:
            yield Pause(last.seq, (entry.at_ms - last.at_ms) // 1000, entry.seq)
        last = entry


def _ai_use(entries: Sequence[Entry]) -> AiUse:
    events = [entry.event for entry in entries]
    replies = [event for event in events if isinstance(event, ModelReplied)]
    numbers = [entry.seq for entry in entries if isinstance(entry.event, ModelReplied)]
    returned = [event for event in events if isinstance(event, ToolReturned)]
    costs = [reply.cost_usd for reply in replies]
    known = [cost for cost in costs if cost is not None]
    runs = [event for event in events if isinstance(event, RanTests) and author_of(event) == AGENT]
    changed = {event.path for event in events if isinstance(event, FileChanged) and event.by == AGENT}
    return AiUse(
        replies=len(replies),
        input_tokens=sum(reply.input_tokens for reply in replies),
        output_tokens=sum(reply.output_tokens for reply in replies),
        cost_usd=sum(known) if len(known) == len(costs) else None,
        average_reply_s=sum(reply.duration_s for reply in replies) / len(replies) if replies else None,
        calls=dict(Counter(event.tool for event in returned)),
        failed_calls=sum(not event.ok for event in returned),
        test_runs=len(runs),
        changed_files=len(changed),
        first_reply_seq=numbers[0] if numbers else 0,
        last_reply_seq=numbers[-1] if numbers else 0,
    )
