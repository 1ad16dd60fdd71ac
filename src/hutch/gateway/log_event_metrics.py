"""Counts events as they are written: all of them go into a log, so one listener sees them all.

Names come from outside, so each label holds only a few; the rest are counted as `other`.
"""

from collections.abc import Sequence

from prometheus_client import CollectorRegistry, Counter, Histogram

from hutch.domain.command_terminal_and_network_events import TerminalPrinted
from hutch.domain.events import (
    EVENT_TYPES,
    Event,
    ModelReplied,
    RunEnded,
    RunStarted,
    ToolReturned,
    UnknownEvent,
)
from hutch.domain.ids import SessionId

MAX_NAMES = 50
MAX_RUNS = 10_000
MAX_NAME = 80
SECONDS = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300)


class Names:
    """The values of a label: the first few, and `other` for all later ones."""

    def __init__(self, maximum: int = MAX_NAMES) -> None:
        self._known: set[str] = set()
        self._maximum = maximum

    def of(self, name: str) -> str:
        if name not in self._known:
            if len(self._known) >= self._maximum:
                return "other"
            self._known.add(name)
        return name


class Counts:
    """Counters over the events of all sessions. A listener of the log."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._models, self._tools = Names(), Names()
        self._model_of: dict[str, str] = {}  # of runs in progress
        self.events = Counter("hutch_events_appended", "Events written to logs.", ["type"], registry=registry)
        self.runs = Counter("hutch_runs_ended", "Runs that ended.", ["outcome"], registry=registry)
        self.tokens = Counter(
            "hutch_model_tokens", "Tokens that models read and wrote.", ["model", "kind"], registry=registry
        )
        self.cost = Counter(
            "hutch_model_cost_usd",
            "Cost of models with known prices.",
            ["model"],
            registry=registry,
        )
        self.replies = Histogram(
            "hutch_model_reply_seconds",
            "Time until the reply of a model is complete.",
            ["model"],
            buckets=SECONDS,
            registry=registry,
        )
        self.tools = Histogram(
            "hutch_tool_seconds", "Time that tools take.", ["tool", "ok"], buckets=SECONDS, registry=registry
        )
        self.terminal_bytes = Counter(
            "hutch_terminal_bytes", "Terminal output recorded in logs.", registry=registry
        )

    def __call__(self, session_id: SessionId, events: Sequence[Event | UnknownEvent]) -> None:
        for event in events:
            self.events.labels(event.type if event.type in EVENT_TYPES else "other").inc()
            match event:
                case ModelReplied():
                    self._reply(event)
                case ToolReturned():
                    self.tools.labels(self._tools.of(event.tool[:MAX_NAME]), str(event.ok).lower()).observe(
                        event.duration_s
                    )
                case TerminalPrinted():
                    self.terminal_bytes.inc(len(event.text.encode(errors="replace")) + event.skipped_bytes)
                case RunStarted():
                    if len(self._model_of) < MAX_RUNS:
                        self._model_of[event.run_id] = self._models.of(model_label(event.model))
                case RunEnded():
                    self.runs.labels(event.outcome).inc()
                    self._model_of.pop(event.run_id, None)

    def _reply(self, event: ModelReplied) -> None:
        model = self._model_of.get(event.run_id, "unknown")  # a run that was started before a restart
        for kind in ("input", "cached", "output"):
            self.tokens.labels(model, kind).inc(max(0, getattr(event, f"{kind}_tokens")))
        self.cost.labels(model).inc(max(0.0, event.cost_usd or 0.0))
        self.replies.labels(model).observe(event.duration_s)


def model_label(name: str) -> str:
    """The name of a model. A scripted one has a path, which must not be published."""
    provider, _, rest = name.partition(":")
    return provider if provider == "scripted" else f"{provider}:{rest}"[:MAX_NAME]
