"""Events that could not be written, for example because the disk was full.

Facts about the jail and the files are buffered in memory, up to a limit, and written as
soon as possible; output and events over the limit are only counted. In both cases an
`events.omitted` precedes the next event in the log. Events that are written before
their effect are not buffered: their effect was refused.
"""

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import field

from hutch.domain.errors import LimitReached, Unavailable
from hutch.domain.events import Event, EventsOmitted, UnknownEvent, to_json
from hutch.domain.ids import SessionId
from hutch.system.clock_without_jumps import wall_ms
from hutch.system.lazy_dataclass import dataclass

BUFFERED_TYPES = frozenset(
    {
        "command.ended",
        "command.yielded",
        "egress.attempted",
        "file.changed",
        "files.changed",
        "jobs.ended",
        "jobs.detached",
        "snapshot.taken",
        "terminal.ended",
        "terminal.resized",
    }
)
COUNTED_TYPES = frozenset(
    {"model.replied", "shell.printed", "terminal.printed", "terminal.typed", "tests.run", "tool.returned"}
)
MAX_BUFFERED_EVENTS = 500
MAX_BUFFERED_BYTES = 1024 * 1024  # of each session

AnEvent = Event | UnknownEvent


def is_storage_failure(error: object) -> bool:
    """True if the database could not be written at all."""
    return isinstance(error, Unavailable) or (isinstance(error, LimitReached) and error.limit == "disk")


@dataclass(slots=True)
class Gap:
    """The unwritten events at the end of one log."""

    reason: str
    since_ms: int
    until_ms: int
    buffered: list[AnEvent] = field(default_factory=list)
    buffered_bytes: int = 0
    types: Counter[str] = field(default_factory=Counter)
    payload_bytes: int = 0

    def add(self, event: AnEvent) -> None:
        size = len(to_json(event))
        fits = len(self.buffered) < MAX_BUFFERED_EVENTS and self.buffered_bytes + size <= MAX_BUFFERED_BYTES
        if event.type in BUFFERED_TYPES and fits:
            self.buffered.append(event)
            self.buffered_bytes += size
        else:
            self.types[event.type] += 1
            self.payload_bytes += size

    def events(self) -> list[AnEvent]:
        """The marker, followed by the buffered events."""
        marker = EventsOmitted(
            cause="storage",
            reason=self.reason,
            since_ms=self.since_ms,
            until_ms=self.until_ms,
            count=self.types.total(),
            payload_bytes=self.payload_bytes,
            types=dict(self.types),
            late=len(self.buffered),
        )
        return [marker, *self.buffered]


class Gaps:
    """The gaps of all sessions. Only the writer's thread uses it."""

    def __init__(self) -> None:
        self._gaps: dict[SessionId, Gap] = {}

    def __bool__(self) -> bool:
        return bool(self._gaps)

    @property
    def sessions(self) -> Collection[SessionId]:
        return tuple(self._gaps)

    def note(self, session_id: SessionId, events: Sequence[AnEvent], error: Exception) -> None:
        """Record events that could not be written, if their effect has already happened."""
        happened = [event for event in events if event.type in BUFFERED_TYPES | COUNTED_TYPES]
        if not happened:
            return
        now_ms = wall_ms()
        gap = self._gaps.setdefault(session_id, Gap(str(error), now_ms, now_ms))
        gap.until_ms = max(gap.until_ms, now_ms)
        for event in happened:
            gap.add(event)

    def pending(self, session_id: SessionId) -> list[AnEvent]:
        """The events that must be written before any other."""
        gap = self._gaps.get(session_id)
        return gap.events() if gap else []

    def forget(self, session_ids: Collection[SessionId]) -> None:
        """Drop gaps that are written, or can never be."""
        for session_id in session_ids:
            self._gaps.pop(session_id, None)
