"""Searches a log for one reader, a bounded part of it at a time.

A search examines some events and returns those that match, with the number to continue at. Neither that
number nor the time it takes depends on the content of events that the reader may not see: they are skipped
before anything is compared, and count the same whatever they hold.
"""

from sqlalchemy import ColumnElement, Connection, Row, or_, select

from hutch.domain.event_query import EventQuery
from hutch.domain.events import Entry, from_json
from hutch.domain.ids import SessionId
from hutch.domain.log_entry_audience import Reader, VisibleEntry, audience_in, filter_entry
from hutch.domain.old_event_names import current_payload, current_type
from hutch.store.event_log_interface import SearchResult
from hutch.store.large_payload_files import BlobMissing, Blobs
from hutch.store.log_reader import log_and_newest
from hutch.store.schema import events

MAX_EXAMINED_EVENTS = 10_000
MAX_EXAMINED_BYTES = 4 * 1024 * 1024  # of payloads that the reader may see; the last one may exceed it
MAX_MATCHES_BYTES = 512 * 1024  # as a page of the log


def search_log(
    connection: Connection,
    blobs: Blobs,
    session_id: SessionId,
    query: EventQuery,
    reader: Reader,
    *,
    after: int | None,
    limit: int,
    newest_first: bool,
) -> SearchResult:
    """Examine the next part of a log, after the event `after` in the order of the search."""
    log_id, newest = log_and_newest(connection, session_id)
    first = 1 if query.since_ms is None else _first_at(connection, log_id, newest, query.since_ms)
    last = newest if query.until_ms is None else _first_at(connection, log_id, newest, query.until_ms + 1) - 1
    if after is not None:
        first, last = (first, min(last, after - 1)) if newest_first else (max(first, after + 1), last)
    if first > last:
        return SearchResult([], None)
    start, end = first, min(last, first + MAX_EXAMINED_EVENTS - 1)
    if newest_first:
        start, end = max(first, last - MAX_EXAMINED_EVENTS + 1), last
    statement = select(events).where(events.c.log_id == log_id, events.c.seq.between(start, end))
    statement = statement.where(*_of_kinds(query))
    found: list[VisibleEntry] = []
    examined_bytes = found_bytes = 0
    for row in connection.execute(
        statement.order_by(events.c.seq.desc() if newest_first else events.c.seq.asc())
    ):
        payload = _visible_payload(blobs, row, reader)
        if payload is None:
            continue
        entry = _matching_entry(session_id, row, payload, query, reader)
        examined_bytes += len(payload)
        if entry is not None:
            found.append(entry)
            found_bytes += len(payload)
        if len(found) == limit or examined_bytes > MAX_EXAMINED_BYTES or found_bytes > MAX_MATCHES_BYTES:
            return SearchResult(found, row.seq)
    is_done = start == first if newest_first else end == last
    return SearchResult(found, None if is_done else start if newest_first else end)


def _of_kinds(query: EventQuery) -> list[ColumnElement[bool]]:
    if not query.kinds:
        return []
    of_kind = [
        events.c.type.startswith(kind, autoescape=True) if kind.endswith(".") else events.c.type == kind
        for kind in query.kinds
    ]
    return [or_(*of_kind, events.c.type.in_(query.old_types()))]


def _visible_payload(blobs: Blobs, row: Row[tuple[object, ...]], reader: Reader) -> bytes | None:
    """The JSON of an event; None if it was erased, or if the reader may not see it."""
    if row.salt is None:
        return None
    try:
        payload = row.payload if row.payload is not None else blobs.get(row.payload_hash)
    except BlobMissing:  # erased since the row was read, or lost: then exports and pages report it
        return None
    return payload if reader.may_see(audience_in(payload)) else None


def _matching_entry(
    session_id: SessionId, row: Row[tuple[object, ...]], payload: bytes, query: EventQuery, reader: Reader
) -> VisibleEntry | None:
    if not query.may_match_text(payload):
        return None
    payload = current_payload(payload, row.type)
    event = from_json(payload, current_type(row.type))
    entry = filter_entry(Entry(session_id, row.seq, row.at_ms, event, row.hash, payload), reader)
    return entry if query.matches(entry) else None


def _first_at(connection: Connection, log_id: int, newest: int, at_ms: int) -> int:
    """The first event at this time or later; times never decrease in a log."""
    low, high = 1, newest + 1
    while low < high:
        middle = (low + high) // 2
        statement = select(events.c.seq, events.c.at_ms).where(
            events.c.log_id == log_id, events.c.seq >= middle
        )
        row = connection.execute(statement.order_by(events.c.seq).limit(1)).one_or_none()
        if row is None or row.seq >= high or row.at_ms >= at_ms:
            high = middle
        else:
            low = row.seq + 1
    return low
