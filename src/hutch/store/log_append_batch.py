"""The events of many callers that one commit writes, linked into their hash chains."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from sqlalchemy import Connection

from hutch.domain.errors import BadRequest, Conflict, LimitReached, NotFound
from hutch.domain.events import EVENT_TYPES, Entry, Event, UnknownEvent, to_json
from hutch.domain.ids import SessionId, parse_session_id
from hutch.domain.log_entry_audience import check_audience
from hutch.store.event_log_interface import Head
from hutch.store.hash_chain import hash_payload, link, new_salts
from hutch.store.large_payload_files import Blobs
from hutch.store.log_size_limit import Omitted, check_capacity, is_omitted
from hutch.store.log_write_sql import LogState, Transaction
from hutch.store.record_format import EVENT_TYPE, MAX_PAYLOAD_BYTES, InvalidRecord, check_payload
from hutch.store.unwritten_events import Gaps
from hutch.system.clock_without_jumps import wall_ms
from hutch.system.lazy_dataclass import dataclass

INLINE_BYTES = 16 * 1024


@dataclass(slots=True)
class Append:
    """Events on their way into a log."""

    session_id: SessionId
    events: tuple[Event | UnknownEvent, ...]
    expected_seq: int | None
    done: "asyncio.Future[Head]"
    also: Callable[[Connection], object] | None = None  # further rows for the same transaction


class AppendBatch:
    """Collects all rows of a commit before the first is written."""

    def __init__(self, transaction: Transaction, blobs: Blobs, gaps: Gaps, log_bytes: int) -> None:
        self._transaction = transaction
        self._blobs = blobs
        self._gaps = gaps
        self._log_bytes = log_bytes
        self.logs: dict[SessionId, LogState] = {}
        self.rows: list[tuple[Any, ...]] = []
        self.entries: dict[SessionId, list[Entry]] = {}  # small entries, for subscribers
        self.marked: set[SessionId] = set()  # with an events.omitted, which is signed at once

    def add(self, job: Append) -> Head | Exception:
        """Link one caller's events. An error affects this caller only and leaves the batch unchanged."""
        try:
            payloads = [_payload(event) for event in job.events]
        except Exception as refusal:  # noqa: BLE001  no event, however odd, may harm the others
            return refusal
        log = self.logs.get(job.session_id) or self._transaction.log(job.session_id)
        try:
            _check_order(job, log)
            check_capacity(job.session_id, job.events, log.payload_bytes if log else 0, self._log_bytes)
        except (BadRequest, LimitReached) as refusal:
            return refusal
        if log is None:
            log = self._transaction.open_log(job.session_id, wall_ms())
        self._begin(log)
        self._link(log, list(zip(job.events, payloads, strict=True)))
        return log.head()

    def add_gap(self, session_id: SessionId) -> None:
        """Add only the events that could not be written earlier."""
        log = self._transaction.log(session_id)
        if log is not None and not log.ended:
            self._begin(log)

    def _begin(self, log: LogState) -> None:
        """Link earlier unwritten events before the first event of a log in this batch."""
        if log.session_id in self.logs:
            return
        self.logs[log.session_id] = log
        missing = self._gaps.pending(log.session_id)
        if missing:
            self._link(log, [(event, _payload(event)) for event in missing])

    def _link(self, log: LogState, events: Sequence[tuple[Event | UnknownEvent, bytes]]) -> None:
        """Chain events to a log, and omit those that exceed its size limit."""
        written = []
        used, omitted = log.payload_bytes, Omitted.from_row(log.omitted)
        for event, payload in events:
            if is_omitted(event, used + len(payload), self._log_bytes):
                omitted.add(event.type, len(payload))
            else:
                used += len(payload)
                written.append((event, payload))
        if omitted.types:
            if written or not log.omitted:
                marker = omitted.marker(self._log_bytes)
                written.insert(0, (marker, _payload(marker)))
                used += len(written[0][1])
                omitted = Omitted()
            log.omitted = omitted.to_row()
        log.payload_bytes = used
        self._chain(log, written)

    def _chain(self, log: LogState, events: Sequence[tuple[Event | UnknownEvent, bytes]]) -> None:
        at_ms = max(wall_ms(), log.at_ms)  # times never decrease within a log, even if the clock is set back
        seq, prev = log.seq, log.hash
        entries = self.entries.setdefault(log.session_id, [])
        for (event, payload), salt in zip(events, new_salts(len(events)), strict=True):
            seq += 1
            payload_hash = hash_payload(salt, payload)
            prev = link(log.session_id, seq, at_ms, event.type, payload_hash, prev)
            inline: bytes | None = payload
            if len(payload) > INLINE_BYTES:
                self._blobs.put(payload_hash, salt, payload)
                inline = None
            elif type(event) is EVENT_TYPES.get(event.type):  # any other is read back as it will be later
                entries.append(Entry(log.session_id, seq, at_ms, event, prev, payload))
            self.rows.append((log.id, seq, at_ms, event.type, payload_hash, prev, salt, inline))
            if event.type == "events.omitted":
                self.marked.add(log.session_id)
            log.ended = event.type == "session.ended"
        log.seq, log.hash, log.at_ms = seq, prev, at_ms


def _payload(event: Event | UnknownEvent) -> bytes:
    """The JSON of an event that every verifier will accept."""
    if not isinstance(event, Event | UnknownEvent):
        raise BadRequest(f"{type(event).__name__} is not an event.")
    if event.type not in EVENT_TYPES and not ("." in event.type and EVENT_TYPE.fullmatch(event.type)):
        raise BadRequest(f"{event.type[:80]!r} is not an event type. One looks like 'noun.past_verb'.")
    try:
        check_audience(event)
        payload = to_json(event)
    except TypeError as error:
        raise BadRequest(f"A {event.type} event cannot be recorded: {error}.") from None
    if len(payload) > MAX_PAYLOAD_BYTES:
        raise LimitReached(
            f"A {event.type} event of {len(payload):,} bytes is over the limit of {MAX_PAYLOAD_BYTES:,}. "
            "Keep large content in a file and name it in the event.",
            limit="event_bytes",
        )
    if isinstance(event, UnknownEvent) or len(payload) > INLINE_BYTES:  # ours are sound while they are small
        try:
            check_payload(payload, event.type)
        except InvalidRecord as damage:
            raise BadRequest(f"A {event.type} event cannot be recorded: {damage}.") from None
    return payload


def _check_order(job: Append, log: LogState | None) -> None:
    """A log opens once, ends once, and grows only as its writers expect."""
    if not job.events:
        raise BadRequest("There are no events to append.")
    types = [event.type for event in job.events]
    if "session.ended" in types[:-1]:
        raise BadRequest("No event can follow session.ended.")
    if "session.opened" in types[1:]:
        raise BadRequest("session.opened can only be the first event of a log.")
    if log is None:
        parse_session_id(job.session_id)
        if types[0] != "session.opened":
            raise NotFound(f"There is no session {job.session_id}. A log begins with session.opened.")
    elif types[0] == "session.opened":
        raise Conflict(f"Session {job.session_id} is already open.")
    elif log.ended:
        raise Conflict(f"Session {job.session_id} has ended at event {log.seq}; its log is closed.")
    seq = log.seq if log else 0
    if job.expected_seq is not None and job.expected_seq != seq:
        raise Conflict(
            f"Session {job.session_id} is at event {seq}, not {job.expected_seq}: another writer was faster. "
            "Read the new events and retry."
        )
