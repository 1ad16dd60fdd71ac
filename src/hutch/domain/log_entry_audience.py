"""Which readers may see an entry of a log, and which an input.

An event is for everyone who may see its session, unless its `audience` names the owner's side or one
user. The audience is a part of the event's JSON, so the hash chain covers it; without one, the JSON is the
same as before. `show` applies it: only what came through `show` can be turned into JSON for a client.
An audience that this version does not know matches no reader.
"""

from dataclasses import replace
from typing import NewType

import orjson

from hutch.domain.errors import BadRequest
from hutch.domain.events import AnyEvent, Entry, ErasedEvent, Event, UnknownEvent, WithheldEvent
from hutch.domain.ids import parse_user_id
from hutch.domain.session import SessionInput
from hutch.system.lazy_dataclass import dataclass

OWNER_SIDE = "owner"
FOR_EVERYONE = frozenset({"session.opened", "session.ended", "events.omitted"})  # they hold a log together
_UNREADABLE = "?"  # an audience that is not text: it matches no reader

VisibleEntry = NewType("VisibleEntry", Entry)
"""An entry as one reader may see it. Only `filter_entry` makes one."""


@dataclass(frozen=True, slots=True)
class Reader:
    """A user who may see a session, and how much of its log."""

    user_id: str = ""
    owner_side: bool = False  # the session's owner, an owner of the installation, or an assessor
    whole: bool = False  # the installation itself: commands that read its own database

    def may_see(self, audience: str | None) -> bool:
        if audience is None or self.whole:
            return True
        return self.owner_side if audience == OWNER_SIDE else bool(self.user_id) and audience == self.user_id


PUBLIC = Reader()  # sees what everyone in the session sees: for the agent, and for published text
WHOLE = Reader(whole=True)


def audience_of(event: AnyEvent) -> str | None:
    """The audience of an event; None is everyone who may see the session. An erased one has lost its own."""
    if isinstance(event, Event):
        return event.audience
    return audience_in(event.payload) if isinstance(event, UnknownEvent) else None


def audience_in(payload: bytes) -> str | None:
    """The audience in an event's JSON."""
    if b'"audience"' not in payload:
        return None
    found = orjson.loads(payload).get("audience")
    return found if found is None or isinstance(found, str) else _UNREADABLE


def check_audience(event: Event | UnknownEvent) -> None:
    """Refuse an audience that no reader matches, and one on an event that all readers need."""
    audience = audience_of(event)
    if audience is None:
        return
    if event.type in FOR_EVERYONE:
        raise BadRequest(f"A {event.type} event is for everyone who may see the session.")
    if audience != OWNER_SIDE:
        parse_user_id(audience)


def filter_entry(entry: Entry, reader: Reader) -> VisibleEntry:
    """The entry as this reader may see it: whole, or with only its number, time, type and hash."""
    event = entry.event
    audience = event.audience if isinstance(event, Event) else audience_of(event)
    if audience is None or reader.may_see(audience):
        return VisibleEntry(entry)
    withheld = WithheldEvent(event.type)
    return VisibleEntry(Entry(entry.session_id, entry.seq, entry.at_ms, withheld, entry.hash))


def filter_input(input: SessionInput, reader: Reader) -> SessionInput:
    """The input as this reader may see it: whole, or with only its number, time, user and type."""
    if reader.may_see(input.audience):
        return input
    withheld = {"type": orjson.loads(input.body)["type"], "withheld": True}
    return replace(input, body=orjson.dumps(withheld).decode())


def entry_json(entry: VisibleEntry, **more: str) -> bytes:
    """An entry as clients get it, with `more` fields."""
    event = entry.event
    if isinstance(event, ErasedEvent):
        erased = {"type": event.type, "erased": True, "erased_at_ms": event.at_ms, "reason": event.reason}
        payload = orjson.dumps(erased)
    elif isinstance(event, WithheldEvent):
        payload = orjson.dumps({"type": event.type, "withheld": True})
    else:
        payload = entry.payload
    head = {"seq": entry.seq, "at_ms": entry.at_ms, "hash": entry.hash, **more}
    return orjson.dumps({**head, "event": orjson.Fragment(payload)})
