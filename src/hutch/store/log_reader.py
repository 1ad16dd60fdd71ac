"""Reads the rows of a log: records, heads, signed statements, and entries with typed events."""

from collections.abc import Sequence

from sqlalchemy import Connection, Row, func, select

from hutch.domain.errors import EventsMissing, NotFound
from hutch.domain.events import AnyEvent, Entry, ErasedEvent, from_json
from hutch.domain.ids import SessionId
from hutch.domain.old_event_names import current_payload, current_type
from hutch.store.event_log_interface import Head
from hutch.store.hash_chain import Record
from hutch.store.large_payload_files import BlobMissing, Blobs
from hutch.store.schema import events, logs, public_keys, statements
from hutch.store.signed_log_head_statements import Statement

PAGE_BYTES = 512 * 1024  # the memory cost of a follower that does not read


def read_head(connection: Connection, session_id: SessionId) -> Head:
    row = connection.execute(select(logs).where(logs.c.session_id == session_id)).one_or_none()
    if row is None:
        raise session_not_found(session_id)
    return to_head(row)


def read_size(connection: Connection, session_id: SessionId) -> int:
    """The size of all payloads of a log; 0 if there is no log."""
    query = select(logs.c.payload_bytes).where(logs.c.session_id == session_id)
    return int(connection.scalar(query) or 0)


def read_records(
    connection: Connection, blobs: Blobs, session_id: SessionId, after: int, limit: int
) -> tuple[list[Record], bool]:
    """The next records after a sequence number, and whether there may be more.

    A page ends early at `PAGE_BYTES`, so that a follower's memory stays bounded. It also ends before an
    event that is missing, and a page that would begin with one raises `EventsMissing`.
    """
    log_id, newest = log_and_newest(connection, session_id)
    query = select(events).where(events.c.log_id == log_id, events.c.seq > after)
    records: list[Record] = []
    weight = 0
    rows = connection.execute(query.order_by(events.c.seq).limit(limit)).all()
    for expected, row in enumerate(rows, after + 1):
        if row.seq != expected:
            if not records:
                raise EventsMissing(session_id, expected, row.seq - 1)
            return records, True
        records.append(_to_record(connection, blobs, session_id, row))
        weight += len(records[-1].payload or b"")
        if weight > PAGE_BYTES:
            return records, True
    if not records and after < newest:
        raise EventsMissing(session_id, after + 1, newest)
    return records, len(records) == limit or after + len(records) < newest


def read_records_before(
    connection: Connection, blobs: Blobs, session_id: SessionId, before: int, limit: int
) -> list[Record]:
    """The last records before a sequence number, the oldest first. A page begins late at `PAGE_BYTES`, and
    after an event that is missing; a page that would end with one raises `EventsMissing`."""
    log_id, newest = log_and_newest(connection, session_id)
    before = min(before, newest + 1)
    query = select(events).where(events.c.log_id == log_id, events.c.seq < before)
    records: list[Record] = []
    weight = 0
    for row in connection.execute(query.order_by(events.c.seq.desc()).limit(limit)).all():
        expected = before - 1 - len(records)
        if row.seq != expected and not records:
            raise EventsMissing(session_id, row.seq + 1, expected)
        if row.seq != expected or weight > PAGE_BYTES:
            break
        records.append(_to_record(connection, blobs, session_id, row))
        weight += len(records[-1].payload or b"")
    if not records and before > 1:
        raise EventsMissing(session_id, 1, before - 1)
    return records[::-1]


def _to_record(
    connection: Connection, blobs: Blobs, session_id: SessionId, row: Row[tuple[object, ...]]
) -> Record:
    salt, payload = row.salt, row.payload
    if payload is None and salt is not None:
        try:
            payload = blobs.get(row.payload_hash)
        except BlobMissing as missing:
            here = (events.c.log_id == row.log_id, events.c.seq == row.seq)
            salt = connection.scalar(select(events.c.salt).where(*here))
            if salt is not None:  # lost, not erased since the row was read
                raise BlobMissing(f"Event {row.seq} of session {session_id}: {missing}") from None
    return Record(session_id, row.seq, row.at_ms, row.type, salt, payload, row.payload_hash, row.hash)


def read_entries(
    connection: Connection, blobs: Blobs, session_id: SessionId, after: int, limit: int
) -> tuple[list[Entry], bool]:
    """Like `read_records`, as entries with typed events."""
    records, more = read_records(connection, blobs, session_id, after, limit)
    return _to_entries(connection, session_id, records), more


def read_entries_before(
    connection: Connection, blobs: Blobs, session_id: SessionId, before: int, limit: int
) -> list[Entry]:
    """Like `read_records_before`, as entries with typed events."""
    records = read_records_before(connection, blobs, session_id, before, limit)
    return _to_entries(connection, session_id, records)


def _to_entries(connection: Connection, session_id: SessionId, records: Sequence[Record]) -> list[Entry]:
    erased = [record.seq for record in records if record.payload is None]
    erasures = _read_erasures(connection, session_id, erased) if erased else {}
    entries = []
    for record in records:
        type_, payload = current_type(record.type), b""
        event: AnyEvent = erasures.get(record.seq) or ErasedEvent(type_, 0, "")
        if record.payload is not None:
            payload = current_payload(record.payload, record.type)
            event = from_json(payload, type_)
        entries.append(Entry(session_id, record.seq, record.at_ms, event, record.hash, payload))
    return entries


def count_payloads(connection: Connection, session_id: SessionId) -> int:
    """The number of payloads of a session that are not erased."""
    log_id = _log_id(connection, session_id)
    query = select(func.count()).where(events.c.log_id == log_id, events.c.salt.is_not(None))
    return int(connection.scalar(query) or 0)


def count_erasures(connection: Connection, session_id: SessionId) -> int:
    """The number of signed erasures of a log."""
    log_id = _log_id(connection, session_id)
    query = select(func.count()).where(statements.c.log_id == log_id, statements.c.kind == "erasure")
    return int(connection.scalar(query) or 0)


def read_statements(connection: Connection, session_id: SessionId) -> list[Statement]:
    log_id = _log_id(connection, session_id)
    query = select(statements).where(statements.c.log_id == log_id).order_by(statements.c.id)
    return [_to_statement(row, session_id) for row in connection.execute(query)]


def read_public_keys(connection: Connection) -> dict[str, bytes]:
    return {row.fingerprint: row.public_key for row in connection.execute(select(public_keys))}


def to_head(row: Row[tuple[object, ...]]) -> Head:
    return Head(row.session_id, row.seq, row.hash, row.at_ms, row.opened_ms, row.ended)


def session_not_found(session_id: SessionId) -> NotFound:
    return NotFound(f"There is no session {session_id}. List them with: hutch log")


def log_and_newest(connection: Connection, session_id: SessionId) -> tuple[int, int]:
    """The id of a log, and the newest event that its head or a signed statement mentions."""
    stated = select(func.max(statements.c.seq)).where(statements.c.log_id == logs.c.id).scalar_subquery()
    query = select(logs.c.id, logs.c.seq, stated).where(logs.c.session_id == session_id)
    row = connection.execute(query).one_or_none()
    if row is None:
        raise session_not_found(session_id)
    return row[0], max(row[1], row[2] or 0)


def _log_id(connection: Connection, session_id: SessionId) -> int:
    log_id = connection.scalar(select(logs.c.id).where(logs.c.session_id == session_id))
    if log_id is None:
        raise session_not_found(session_id)
    return int(log_id)


def _read_erasures(
    connection: Connection, session_id: SessionId, seqs: Sequence[int]
) -> dict[int, ErasedEvent]:
    log_id = _log_id(connection, session_id)
    query = (
        select(statements.c.seq, events.c.type, statements.c.at_ms, statements.c.reason)
        .join(events, (events.c.log_id == statements.c.log_id) & (events.c.seq == statements.c.seq))
        .where(statements.c.log_id == log_id, statements.c.kind == "erasure")
        .where(statements.c.seq.between(seqs[0], seqs[-1]))
    )
    return {
        row.seq: ErasedEvent(current_type(row.type), row.at_ms, row.reason)
        for row in connection.execute(query)
    }


def _to_statement(row: Row[tuple[object, ...]], session_id: SessionId) -> Statement:
    return Statement(row.kind, session_id, row.seq, row.hash, row.at_ms, row.reason, row.key, row.signature)
