"""The waterfall of a session: the time of each part, from the log as one reader may see it."""

from collections.abc import Iterable
from typing import Literal

from hutch.domain.events import (
    ApprovalAnswered,
    ApprovalRequested,
    CommandEnded,
    EnvironmentBuilt,
    ModelReplied,
    QuestionAnswered,
    QuestionAsked,
    RanTests,
    RunEnded,
    RunQueued,
    RunStarted,
    SessionPrepared,
    ToolReturned,
)
from hutch.domain.log_entry_audience import VisibleEntry
from hutch.domain.session import Session
from hutch.domain.user import Caller
from hutch.flows.flow_services import Services
from hutch.flows.log_visible_to_reader import read_page
from hutch.system.lazy_dataclass import dataclass

SpanKind = Literal["prepare", "queue", "run", "model", "tool", "wait", "command", "tests"]
MAX_SPANS = 5_000
PAGE_EVENTS = 500


@dataclass(frozen=True, slots=True)
class Span:
    """A part of a session's time. `depth`: 0 for preparation and runs, 1 inside a run."""

    kind: SpanKind
    name: str
    seq: int  # of the event that ended it
    start_ms: int
    end_ms: int
    depth: int
    ok: bool = True
    cost_usd: float | None = None
    first_token_s: float | None = None


@dataclass(frozen=True, slots=True)
class Waterfall:
    """The spans of a session in the order of their starts; `more`: there are further ones."""

    session: Session
    spans: list[Span]
    more: bool


async def session_waterfall(services: Services, who: Caller, session_id: str) -> Waterfall:
    """The waterfall of a session that the caller may see."""
    fold, after = WaterfallFold(), 0
    while True:
        page = await read_page(services, who, session_id, after=after, limit=PAGE_EVENTS)
        fold.add(page.entries)
        if not page.entries or len(fold.spans) >= MAX_SPANS:
            break
        after = page.entries[-1].seq
    spans = sorted(fold.spans[:MAX_SPANS], key=lambda span: (span.start_ms, span.depth, span.seq))
    return Waterfall(page.session, spans, len(fold.spans) >= MAX_SPANS)


class WaterfallFold:
    """Turns entries, in their order, into spans. A span that has not ended is not there yet."""

    def __init__(self) -> None:
        self.spans: list[Span] = []
        self._queued: dict[str, int] = {}
        self._started: dict[str, tuple[int, str]] = {}
        self._waiting: dict[str, int] = {}

    def add(self, entries: Iterable[VisibleEntry]) -> None:
        for entry in entries:
            self._add(entry)

    def _add(self, entry: VisibleEntry) -> None:
        event, at_ms = entry.event, entry.at_ms
        match event:
            case SessionPrepared() | EnvironmentBuilt():
                name = "workspace" if isinstance(event, SessionPrepared) else "dependencies"
                self._ended("prepare", name, entry, event.duration_s, depth=0)
            case RunQueued():
                self._queued[event.run_id] = at_ms
            case RunStarted():
                self._started[event.run_id] = (at_ms, event.persona)
                if queued_ms := self._queued.pop(event.run_id, 0):
                    self.spans.append(Span("queue", "", entry.seq, queued_ms, at_ms, 0))
            case RunEnded():
                start_ms, persona = self._started.get(event.run_id, (at_ms, ""))
                ok = event.outcome == "done"
                run = Span("run", persona, entry.seq, start_ms, at_ms, 0, ok, event.cost_usd)
                self.spans.append(run)
            case ModelReplied():
                first, cost = event.first_token_s, event.cost_usd
                name, took_s = f"turn {event.turn}", event.duration_s
                self._ended("model", name, entry, took_s, cost_usd=cost, first_token_s=first)
            case ToolReturned():
                self._ended("tool", event.tool[:100], entry, event.duration_s, ok=event.ok)
            case CommandEnded():
                if event.by not in ("", "agent"):
                    self._ended("command", event.command[:100], entry, event.duration_s, depth=0)
            case RanTests():
                self._ended("tests", event.command[:100], entry, event.duration_s, ok=event.ok)
            case ApprovalRequested() | QuestionAsked():
                self._waiting[event.call_id] = at_ms
            case ApprovalAnswered() | QuestionAnswered():
                if start_ms := self._waiting.pop(event.call_id, 0):
                    name = "approval" if isinstance(event, ApprovalAnswered) else "answer"
                    self.spans.append(Span("wait", name, entry.seq, start_ms, at_ms, 1))

    def _ended(
        self,
        kind: SpanKind,
        name: str,
        entry: VisibleEntry,
        duration_s: float,
        *,
        depth: int = 1,
        ok: bool = True,
        cost_usd: float | None = None,
        first_token_s: float | None = None,
    ) -> None:
        start_ms = entry.at_ms - max(0, round(duration_s * 1000))
        span = Span(kind, name, entry.seq, start_ms, entry.at_ms, depth, ok, cost_usd, first_token_s)
        self.spans.append(span)
