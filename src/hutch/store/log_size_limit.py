"""The size limit of a log, and the events that are omitted when it is reached.

Output is omitted first: the last quarter is reserved for facts. When that is full too,
nothing new may start, but events of started work are still recorded. Omitted events are
counted in the log's own row, so that the count survives a crash. An `events.omitted` is
written when the limit is reached and before the next event.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import field

import orjson

from hutch.domain.errors import LimitReached
from hutch.domain.events import CommandStarted, Event, EventsOmitted, UnknownEvent
from hutch.domain.ids import SessionId
from hutch.system.clock_without_jumps import wall_ms
from hutch.system.lazy_dataclass import dataclass

SETTING = "sessions.log_bytes"
DEFAULT_LOG_BYTES = 256 * 1024 * 1024
OUTPUT_TYPES = frozenset({"shell.printed", "terminal.printed"})
# A program or a client decides how many.
FREQUENT_TYPES = frozenset({"egress.attempted", "terminal.resized", "terminal.typed"})
START_TYPES = frozenset({"command.started", "run.started", "terminal.opened", "tests.started", "tool.called"})

AnEvent = Event | UnknownEvent


def log_is_full(session_id: SessionId, log_bytes: int) -> LimitReached:
    return LimitReached(
        f"The log of session {session_id} has reached its {log_bytes:,} bytes; nothing new can start in it. "
        f"End the session, fork it, or raise {SETTING}.",
        limit=SETTING,
    )


@dataclass(slots=True)
class Omitted:
    """The omitted events since the last marker."""

    since_ms: int = 0
    until_ms: int = 0
    payload_bytes: int = 0
    types: Counter[str] = field(default_factory=Counter)

    @classmethod
    def from_row(cls, text: str) -> "Omitted":
        values = orjson.loads(text) if text else {}
        return cls(**{**values, "types": Counter(values.get("types", {}))})

    def to_row(self) -> str:
        fields = {
            "since_ms": self.since_ms,
            "until_ms": self.until_ms,
            "payload_bytes": self.payload_bytes,
            "types": dict(self.types),
        }
        return orjson.dumps(fields).decode()

    def add(self, type_: str, size: int) -> None:
        now_ms = wall_ms()
        self.since_ms = self.since_ms or now_ms
        self.until_ms = max(now_ms, self.until_ms)
        self.types[type_] += 1
        self.payload_bytes += size

    def marker(self, log_bytes: int) -> EventsOmitted:
        return EventsOmitted(
            cause="limit",
            reason=f"The log has reached its bound of {log_bytes:,} bytes ({SETTING}).",
            since_ms=self.since_ms,
            until_ms=self.until_ms,
            count=self.types.total(),
            payload_bytes=self.payload_bytes,
            types=dict(self.types),
        )


def is_omitted(event: AnEvent, used_bytes: int, log_bytes: int) -> bool:
    """True if this event must be omitted from a log of this size."""
    if event.type in OUTPUT_TYPES:
        return used_bytes > log_bytes - log_bytes // 4
    return event.type in FREQUENT_TYPES and used_bytes > log_bytes


def check_capacity(session_id: SessionId, events: Sequence[AnEvent], used_bytes: int, log_bytes: int) -> None:
    """Refuse to start new work in a full log."""
    if used_bytes > log_bytes and any(_is_start(event) for event in events):
        raise log_is_full(session_id, log_bytes)


def _is_start(event: AnEvent) -> bool:
    """True if work starts that can be refused. A command typed in a terminal has started already."""
    is_typed = isinstance(event, CommandStarted) and bool(event.terminal)
    return event.type in START_TYPES and not is_typed
