"""A search in the log of a session: by text, kind, author and time.

It is applied only to entries as a reader may see them. Withheld and erased entries match nothing, whatever
is searched for.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import field
from typing import Any

import orjson

from hutch.domain.current_actor_and_author import author_of
from hutch.domain.errors import BadRequest
from hutch.domain.events import EVENT_TYPES, Event, UnknownEvent
from hutch.domain.log_entry_audience import VisibleEntry
from hutch.domain.old_event_names import RENAMED_TYPES, current_type
from hutch.domain.one_line_text import echo
from hutch.domain.time_parsing import parse_moment_ms
from hutch.domain.unescaped_text_positions import ESCAPES
from hutch.system.lazy_dataclass import dataclass

MAX_TEXT_CHARS = 1000
MAX_VALUES = 20  # kinds or authors in one search
UNREADABLE_FIELDS = frozenset({"type", "audience", "opaque"})  # the type is searched as the kind


@dataclass(frozen=True, slots=True)
class EventQuery:
    """A search for events. An empty part matches everything."""

    text: str = ""  # compared without regard to case
    kinds: tuple[str, ...] = ()  # types, or prefixes that end with a dot
    authors: Collection[str] | None = None  # ids of users, `agent`, `hutch`
    since_ms: int | None = None  # both moments are included
    until_ms: int | None = None
    _folded: str = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_folded", self.text.casefold())

    def matches(self, entry: VisibleEntry) -> bool:
        event = entry.event
        return (
            isinstance(event, Event | UnknownEvent)
            and self._has_kind(event.type)
            and (self.since_ms is None or self.since_ms <= entry.at_ms)
            and (self.until_ms is None or entry.at_ms <= self.until_ms)
            and self._has_author(event)
            and self._has_text(entry.payload)
        )

    def old_types(self) -> list[str]:
        """The names of earlier versions for the types of `kinds`, under which a log may hold them."""
        return [old for old, current in RENAMED_TYPES.items() if self._has_kind(current)]

    def may_match_text(self, payload: bytes) -> bool:
        """False if the text cannot be in an event with this JSON. A quick check, for events that the reader
        may see: for others its duration would tell of their content."""
        if not self._folded or not self._folded.isprintable() or '"' in self._folded or "\\" in self._folded:
            return True  # JSON spells such characters in another way
        return b"\\u" in payload or self._folded in payload.decode(errors="replace").casefold()

    def _has_kind(self, type_: str) -> bool:
        return not self.kinds or any(
            type_.startswith(kind) if kind.endswith(".") else type_ == kind for kind in self.kinds
        )

    def _has_author(self, event: Event | UnknownEvent) -> bool:
        if self.authors is None:
            return True
        possible = getattr(event, "possible_authors", None) or ()
        return author_of(event) in self.authors or any(each in self.authors for each in possible)

    def _has_text(self, payload: bytes) -> bool:
        if not self._folded:
            return True
        return any(self._folded in text.casefold() for text in _texts(orjson.loads(payload)))


def parse_query(
    *,
    text: str = "",
    kinds: Sequence[str] = (),
    authors: Collection[str] | None = None,
    since: str = "",
    until: str = "",
    now_ms: int,
) -> EventQuery:
    """A search as users write it; see `parse_kind` and `parse_moment_ms`."""
    if len(text) > MAX_TEXT_CHARS:
        raise BadRequest(f"A text to search for has at most {MAX_TEXT_CHARS} characters.")
    if len(kinds) > MAX_VALUES:
        raise BadRequest(f"A search has at most {MAX_VALUES} kinds.")
    return EventQuery(
        text=text,
        kinds=tuple(parse_kind(kind) for kind in kinds),
        authors=authors,
        since_ms=parse_moment_ms(since, now_ms) if since else None,
        until_ms=parse_moment_ms(until, now_ms) if until else None,
    )


def parse_kind(text: str) -> str:
    """A type of events such as `command.started`, or a group of types: `command.` or `command`."""
    kind = current_type(text)
    if "." not in kind:
        kind += "."
    is_group = kind.endswith(".")
    if not any(name.startswith(kind) if is_group else name == kind for name in EVENT_TYPES):
        groups = ", ".join(sorted({name.partition(".")[0] for name in EVENT_TYPES}))
        raise BadRequest(
            f"There are no events of the kind {echo(text, 80)}. Write a type such as command.started, or one "
            f"of these groups: {groups}."
        )
    return kind


def _texts(value: Any) -> Iterator[str]:
    """The texts in an event that a person reads, without the escape sequences of terminals."""
    pending = [value]
    while pending:
        each = pending.pop()
        if isinstance(each, str):
            yield ESCAPES.sub("", each) if "\x1b" in each else each
        elif isinstance(each, dict):
            pending += [inner for name, inner in each.items() if name not in UNREADABLE_FIELDS]
        elif isinstance(each, list):
            pending += each
