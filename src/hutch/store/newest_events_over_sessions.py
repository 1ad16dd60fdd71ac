"""The newest events over all sessions that one user may see, a bounded part of the log at a time.

Neither the continuation nor the duration depends on the content of events that the reader may not see: they
are left out by their session and audience before anything is compared.
"""

from typing import Any

from sqlalchemy import Connection, Row, Select, func, or_, select

from hutch.domain.canonical_repository_name import repository_name
from hutch.domain.event_query import EventQuery
from hutch.domain.events import Entry, Event, from_json
from hutch.domain.ids import SessionId
from hutch.domain.log_entry_audience import Reader, VisibleEntry, audience_in, filter_entry
from hutch.domain.old_event_names import current_payload, current_type
from hutch.store.large_payload_files import BlobMissing, Blobs
from hutch.store.schema import events, logs, runs, sessions, shares
from hutch.store.shares import IS_VALID
from hutch.system.lazy_dataclass import dataclass

MAX_EXAMINED_EVENTS = 20_000
MAX_EXAMINED_BYTES = 8 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class NewestEvent:
    """An entry with its place: its position in the whole database, its session, repository and prompt."""

    position: int
    session_id: str
    owner: str
    repository: str
    prompt: str
    entry: VisibleEntry


@dataclass(frozen=True, slots=True)
class NewestEvents:
    """Events in the order of the search; `next`: the position to continue at, None at the end."""

    events: list[NewestEvent]
    next: int | None


@dataclass(frozen=True, slots=True)
class Place:
    """Filters by place. `viewer`: only what this user may see; None: everything."""

    viewer: str | None = None
    user: str = ""
    repository: str = ""


def find_newest(
    connection: Connection,
    blobs: Blobs,
    place: Place,
    query: EventQuery,
    *,
    before: int | None = None,
    after: int | None = None,
    limit: int = 100,
) -> NewestEvents:
    """The newest events, newest first; with `after`, those behind that position, oldest first."""
    newest = read_newest_position(connection)
    if after is not None:
        first, last = after + 1, min(newest, after + MAX_EXAMINED_EVENTS)
    else:
        last = newest if before is None else min(newest, before - 1)
        first = max(1, last - MAX_EXAMINED_EVENTS + 1)
    if first > last:
        return NewestEvents([], newest if after is not None else None)
    found: list[NewestEvent] = []
    examined_bytes = 0
    statement = _statement(place, query).where(events.c.position.between(first, last))
    if place.repository:
        statement = statement.where(sessions.c.repository.in_(_spellings(connection, place.repository)))
    order = events.c.position.asc() if after is not None else events.c.position.desc()
    roles: dict[str, Reader] = {}
    for row in connection.execute(statement.order_by(order)):
        reader = roles.get(row.session_id) or roles.setdefault(
            row.session_id, _reader(connection, place, row)
        )
        payload = _payload(blobs, row)
        if payload is None or not reader.may_see(audience_in(payload)):
            continue
        examined_bytes += len(payload)
        entry = _match(row, payload, reader, query)
        if entry is not None:
            prompt = _prompt(connection, entry, row.session_id)
            found.append(NewestEvent(row.position, row.session_id, row.owner, row.repository, prompt, entry))
        if len(found) == limit or examined_bytes > MAX_EXAMINED_BYTES:
            return NewestEvents(found, row.position)
    if after is not None:
        return NewestEvents(found, last)
    return NewestEvents(found, first if first > 1 else None)


def read_newest_position(connection: Connection) -> int:
    return int(connection.scalar(select(func.max(events.c.position))) or 0)


def _statement(place: Place, query: EventQuery) -> Select[Any]:
    statement = (
        select(events, logs.c.session_id, sessions.c.owner, sessions.c.repository)
        .join(logs, logs.c.id == events.c.log_id)
        .join(sessions, sessions.c.id == logs.c.session_id)
    )
    if place.viewer is not None:
        shared = select(shares.c.session_id).where(shares.c.user_id == place.viewer, IS_VALID)
        statement = statement.where(or_(sessions.c.owner == place.viewer, sessions.c.id.in_(shared)))
    if place.user:
        statement = statement.where(sessions.c.owner == place.user)
    if query.kinds:
        of_kind = [
            events.c.type.startswith(kind, autoescape=True) if kind.endswith(".") else events.c.type == kind
            for kind in query.kinds
        ]
        statement = statement.where(or_(*of_kind, events.c.type.in_(query.old_types())))
    return statement


def _spellings(connection: Connection, repository: str) -> list[str]:
    """The addresses of one repository, as the requests for sessions wrote them."""
    name = repository_name(repository)
    written = connection.scalars(select(sessions.c.repository).distinct())
    return [each for each in written if each and repository_name(each) == name]


def _reader(connection: Connection, place: Place, row: Row[Any]) -> Reader:
    if place.viewer is None:
        return Reader(owner_side=True)
    if row.owner == place.viewer:
        return Reader(place.viewer, owner_side=True)
    mine = (shares.c.session_id == row.session_id) & (shares.c.user_id == place.viewer)
    return Reader(place.viewer, connection.scalar(select(shares.c.role).where(mine)) == "assessor")


def _payload(blobs: Blobs, row: Row[Any]) -> bytes | None:
    if row.salt is None:
        return None
    try:
        return bytes(row.payload) if row.payload is not None else blobs.get(row.payload_hash)
    except BlobMissing:  # erased since the row was read, or lost
        return None


def _match(row: Row[Any], payload: bytes, reader: Reader, query: EventQuery) -> VisibleEntry | None:
    if not query.may_match_text(payload):
        return None
    payload = current_payload(payload, row.type)
    event = from_json(payload, current_type(row.type))
    entry = Entry(SessionId(row.session_id), row.seq, row.at_ms, event, row.hash, payload)
    visible = filter_entry(entry, reader)
    return visible if query.matches(visible) else None


def _prompt(connection: Connection, entry: VisibleEntry, session_id: str) -> str:
    """The prompt of the run that the event belongs to."""
    run_id = getattr(entry.event, "run_id", "") if isinstance(entry.event, Event) else ""
    if not run_id:
        return ""
    is_same = (runs.c.id == run_id) & (runs.c.session_id == session_id)
    return str(connection.scalar(select(runs.c.prompt).where(is_same)) or "")
