"""What happened and could not be written: the disk was full, say.

Facts about the jail and the files are kept in memory, up to a bound, and written as
soon as that is possible again; output and what is beyond the bound is counted. Either
way an `events.omitted` comes before anything else that is appended to the log. Events
that are written before their effect are not here: what they announce was refused.
"""

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from hutch.domain.errors import LimitReached, Unavailable
from hutch.domain.events import Event, EventsOmitted, UnknownEvent, to_json
from hutch.domain.ids import SessionId
from hutch.system.clock import wall_ms

BUFFERED_TYPES = frozenset(
    {
        "command.ended",
        "command.yielded",
        "egress.attempted",
        "file.changed",
        "jobs.ended",
        "jobs.left",
        "snapshot.taken",
        "terminal.ended",
        "terminal.resized",
    }
)
COUNTED_TYPES = frozenset(
    {"model.replied", "shell.printed", "terminal.printed", "tests.run", "tool.returned"}
)
MAX_BUFFERED_EVENTS = 500
MAX_BUFFERED_BYTES = 1024 * 1024  # of each session

AnEvent = Event | UnknownEvent


def is_storage_failure(error: object) -> bool:
    """True when the database could not be written, whatever was to be written."""
    return isinstance(error, Unavailable) or (isinstance(error, LimitReached) and error.limit == "disk")


@dataclass(slots=True)
class Gap:
    """What is missing at the end of one log."""

    reason: str
    since_ms: int
    until_ms: int
    buffered: list[AnEvent] = field(default_factory=list)
    buffered_bytes: int = 0
    types: Counter[str] = field(default_factory=Counter)
    payload_bytes: int = 0

    def add(self, event: AnEvent) -> None:
        size = len(to_json(event))
        room = len(self.buffered) < MAX_BUFFERED_EVENTS and self.buffered_bytes + size <= MAX_BUFFERED_BYTES
        if event.type in BUFFERED_TYPES and room:
            self.buffered.append(event)
            self.buffered_bytes += size
        else:
            self.types[event.type] += 1
            self.payload_bytes += size

    def events(self) -> list[AnEvent]:
        """The marker, and after it what happened meanwhile and is known."""
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
    """The gaps of all sessions; used by the writer's thread alone."""

    def __init__(self) -> None:
        self._gaps: dict[SessionId, Gap] = {}

    def __bool__(self) -> bool:
        return bool(self._gaps)

    @property
    def sessions(self) -> Collection[SessionId]:
        return tuple(self._gaps)

    def note(self, session_id: SessionId, events: Sequence[AnEvent], error: Exception) -> None:
        """These could not be written; those of them that have happened already are a gap."""
        happened = [event for event in events if event.type in BUFFERED_TYPES | COUNTED_TYPES]
        if not happened:
            return
        now_ms = wall_ms()
        gap = self._gaps.setdefault(session_id, Gap(str(error), now_ms, now_ms))
        gap.until_ms = max(gap.until_ms, now_ms)
        for event in happened:
            gap.add(event)

    def pending(self, session_id: SessionId) -> list[AnEvent]:
        """What must be written before anything else."""
        gap = self._gaps.get(session_id)
        return gap.events() if gap else []

    def forget(self, session_ids: Collection[SessionId]) -> None:
        """Theirs are written, or never can be."""
        for session_id in session_ids:
            self._gaps.pop(session_id, None)
