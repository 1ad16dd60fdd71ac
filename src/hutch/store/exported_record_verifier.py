"""Verifies an exported record offline, for a reader who trusts neither it nor its server.

Events and statements are read in parallel, once, in order; nothing is stored, so
size does not matter. The first event that fails a check is reported, and nothing
after it is read. `docs/record.md` gives the checks in this order.
"""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import orjson

from hutch.domain.errors import BadRequest
from hutch.domain.one_line_text import echo
from hutch.store.hash_chain import GENESIS, Record, hash_payload, link
from hutch.store.record_format import (
    MAX_PAYLOAD_BYTES,
    README,
    STATEMENT_LIMIT_BYTES,
    InvalidRecord,
    Manifest,
    check_payload,
    parse_event,
    parse_keys,
    parse_manifest,
    parse_statement,
)
from hutch.store.record_zip_reader import Archive, open_archive
from hutch.store.signed_log_head_statements import Kind, Statement, is_signed_by
from hutch.system.lazy_dataclass import dataclass

SIZE_LIMIT_BYTES = 8 * 1024**3
LINE_LIMIT_BYTES = 2 * MAX_PAYLOAD_BYTES + 4096  # a payload of only quotes, and the other fields
KEYS_LIMIT_BYTES = 64 * 1024
MANIFEST_LIMIT_BYTES = 4 * 1024
MAX_REASONS, MAX_REASON_CHARS = 3, 200  # of erasures, as shown

_FINGERPRINT = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class Report:
    """The result of a verification. If it is not `ok`, the counts cover only the part that was read."""

    ok: bool
    session: str | None
    events: int
    erased: int
    gaps: int  # markers in the record that say that events before them were not recorded
    omitted: int  # events that were not recorded, as far as the markers count them
    ended: bool
    keys: tuple[str, ...]  # fingerprints of the signing keys
    pinned: bool  # the reader gave the accepted keys
    receipts: int  # the number of matching receipts
    first_bad: int | None
    problem: str | None
    warnings: tuple[str, ...]


def verify_record(
    path: Path,
    *,
    keys: Sequence[str] = (),
    receipts: Sequence[Statement] = (),
    size_limit_bytes: int = SIZE_LIMIT_BYTES,
    line_limit_bytes: int = LINE_LIMIT_BYTES,
) -> Report:
    """Verify the record at `path`.

    With `keys`, fingerprints from a trusted source, only their signatures count. A record that
    is shorter than a receipt, or differs from it, is refused.
    """
    check = RecordCheck(frozenset(map(_fingerprint, keys)), receipts)
    try:
        with open_archive(path, size_limit_bytes=size_limit_bytes) as archive:
            check.run(archive, line_limit_bytes)
    except InvalidRecord as damage:
        return check.report(damage)
    return check.report(None)


class RecordCheck:
    """The state of one verification."""

    def __init__(self, pins: frozenset[str], receipts: Sequence[Statement]) -> None:
        self.pins = pins
        self.receipts = sorted(receipts, key=lambda receipt: receipt.seq)
        self.session: str | None = None
        self.public_keys: dict[str, bytes] = {}
        self.events = 0
        self.erased = 0
        self.gaps = 0
        self.omitted = 0
        self.covered = 0  # the last event under a valid signature
        self.ended = False
        self.head = GENESIS
        self.at_ms = 0
        self.signers: set[str] = set()
        self.erasure_reasons: set[str] = set()

    def run(self, archive: Archive, line_limit_bytes: int) -> None:
        manifest = self._open(archive)
        receipts = list(self.receipts)
        for receipt in receipts:
            self._check_receipt(receipt)
        statements = _Statements(archive)
        for record in self._records(archive, manifest, line_limit_bytes):
            self.accept(record, statements.take(record.seq))
            while receipts and receipts[0].seq == record.seq:
                _check_receipt_hash(receipts.pop(0), record)
        self._check_end(manifest, statements.next, receipts)

    def accept(self, record: Record, statements: Iterator[Statement]) -> None:
        """Check the next event, and the statements about it."""
        self._check_place(record)
        self._check_payload(record)
        self._count_gap(record)
        self._check_required(record, self._check_statements(statements, record))

    def report(self, damage: InvalidRecord | None) -> Report:
        return Report(
            ok=damage is None,
            session=self.session,
            events=self.events,
            erased=self.erased,
            gaps=self.gaps,
            omitted=self.omitted,
            ended=self.ended,
            keys=tuple(sorted(self.signers)),
            pinned=bool(self.pins),
            receipts=0 if damage else len(self.receipts),
            first_bad=damage.seq if damage else None,
            problem=str(damage) if damage else None,
            warnings=() if damage else tuple(self._warnings()),
        )

    def _open(self, archive: Archive) -> Manifest:
        """Read the three small files, before the first event."""
        readme = archive.read("README.txt", len(README))
        keys = archive.read("keys.json", KEYS_LIMIT_BYTES)
        manifest = archive.read("manifest.json", MANIFEST_LIMIT_BYTES)
        if readme != README:
            raise InvalidRecord("README.txt is not the one that Hutch writes: do not follow what it says.")
        with _attributing("manifest.json"):
            parsed = parse_manifest(_only_line(manifest))
        self.session = parsed.session_id
        with _attributing("keys.json"):
            self.public_keys = parse_keys(_only_line(keys))
        return parsed

    def _records(self, archive: Archive, manifest: Manifest, limit_bytes: int) -> Iterator[Record]:
        lines = archive.lines("events.ndjson", limit_bytes)
        while True:
            seq = self.events + 1
            try:
                line = next(lines, None)
            except InvalidRecord as damage:  # after the last event, no event is invalid
                raise InvalidRecord(str(damage), seq=seq if seq <= manifest.events else None) from None
            if line is None:
                return
            with _attributing(f"Event {seq}", seq):
                record = parse_event(line, manifest.session_id)
            yield record

    def _check_place(self, record: Record) -> None:
        """Check number, time, type and link: the event follows the previous one."""
        seq = self.events + 1
        if record.seq != seq:
            raise InvalidRecord(f"Event {seq} is missing: event {record.seq} stands in its place.", seq=seq)
        if self.ended:
            raise InvalidRecord(
                f"Event {seq} follows session.ended, after which nothing can happen.", seq=seq
            )
        if seq == 1 and record.type != "session.opened":
            raise InvalidRecord(
                f"Event 1 is {record.type}, and every record starts with session.opened.", seq=1
            )
        if record.at_ms < self.at_ms:
            raise InvalidRecord(
                f"Event {seq} is from {record.at_ms} ms, before event {seq - 1} at {self.at_ms} ms.", seq=seq
            )
        if record.hash != link(
            record.session_id, seq, record.at_ms, record.type, record.payload_hash, prev=self.head
        ):
            raise InvalidRecord(
                f"Event {seq} is not the one that was recorded after event {seq - 1}: its hash does not fit.",
                seq=seq,
            )
        self.events, self.at_ms, self.head = seq, record.at_ms, record.hash
        self.ended = record.type == "session.ended"

    def _check_payload(self, record: Record) -> None:
        seq = record.seq
        if record.payload is None:
            if record.salt is not None:
                raise InvalidRecord(
                    f"Event {seq}: its payload is missing, though it was not erased.", seq=seq
                )
            self.erased += 1
            return
        if record.salt is None:
            raise InvalidRecord(
                f"Event {seq}: its salt is missing, so its payload cannot be checked.", seq=seq
            )
        if hash_payload(record.salt, record.payload) != record.payload_hash:
            raise InvalidRecord(f"Event {seq}: its payload is not the one that was recorded.", seq=seq)
        with _attributing(f"Event {seq}", seq):
            check_payload(record.payload, record.type)

    def _count_gap(self, record: Record) -> None:
        """Count the missing entries that the record names; no number is known after a crash or an erasure."""
        if record.type != "events.omitted":
            return
        self.gaps += 1
        count = orjson.loads(record.payload).get("count") if record.payload is not None else 0
        self.omitted += count if type(count) is int and count > 0 else 0

    def _check_statements(self, statements: Iterator[Statement], record: Record) -> set[Kind]:
        """The kinds of statement about an event. Each may occur once, which limits the work."""
        kinds: set[Kind] = set()
        for statement in statements:
            kind = self._check_statement(statement, record)
            if kind in kinds:
                raise InvalidRecord(f"Event {record.seq} has more than one {kind} statement.", seq=record.seq)
            kinds.add(kind)
        return kinds

    def _check_statement(self, statement: Statement, record: Record) -> Kind:
        """Check a statement about a valid event; returns its kind."""
        seq = record.seq
        self._check_signer(statement, seq)
        if statement.kind == "erasure":
            if record.payload is not None:
                problem = f"Event {seq}: a statement says its payload was erased, but it is here."
                raise InvalidRecord(problem, seq=seq)
            if statement.hash != record.payload_hash:
                problem = f"Event {seq}: the payload that was erased by statement is another one."
                raise InvalidRecord(problem, seq=seq)
            if statement.reason and len(self.erasure_reasons) < MAX_REASONS:
                self.erasure_reasons.add(echo(statement.reason, MAX_REASON_CHARS))
            return statement.kind
        if statement.hash != record.hash:
            raise InvalidRecord(
                f"Event {seq} has another hash than its {statement.kind} statement signed: an event from "
                f"{self.covered + 1} to {seq} was changed, added or removed, and the chain made anew.",
                seq=seq,
            )
        if statement.kind == "end" and record.type != "session.ended":
            raise InvalidRecord(
                f"Event {seq} is signed as the end of the session, but it is {record.type}.", seq=seq
            )
        self.covered = seq
        return statement.kind

    def _check_required(self, record: Record, kinds: set[Kind]) -> None:
        """Check that the required statements about this event exist."""
        seq = record.seq
        if record.payload is None and "erasure" not in kinds:
            raise InvalidRecord(
                f"Event {seq}: its payload is missing, and no statement says it was erased.", seq=seq
            )
        if self.ended and "end" not in kinds:
            raise InvalidRecord(f"Event {seq} is session.ended, but no end statement signs it.", seq=seq)

    def _check_signer(self, statement: Statement, seq: int | None) -> None:
        """Check the session, the key and the signature of a statement."""
        what = f"The {statement.kind} statement for event {statement.seq}"
        if statement.session_id != self.session:
            raise InvalidRecord(
                f"{what} is about session {statement.session_id}, not {self.session}.", seq=seq
            )
        if self.pins and statement.key not in self.pins:
            keys = "the key" if len(self.pins) == 1 else "one of the keys"
            raise InvalidRecord(f"{what} is signed by {statement.key}, not by {keys} you gave.", seq=seq)
        public_key = self.public_keys.get(statement.key)
        if public_key is None:
            raise InvalidRecord(f"{what} is signed by {statement.key}, which is not in keys.json.", seq=seq)
        if not is_signed_by(statement, public_key):
            raise InvalidRecord(
                f"{what} has a false signature: it was not written by {statement.key}.", seq=seq
            )
        self.signers.add(statement.key)

    def _check_receipt(self, receipt: Statement) -> None:
        """Check a receipt before the events, because an invalid receipt is no defect of an event."""
        if receipt.kind != "receipt":
            raise InvalidRecord(
                f"The {receipt.kind} statement for event {receipt.seq} was given as a receipt."
            )
        self._check_signer(receipt, None)

    def _check_end(self, manifest: Manifest, late: Statement | None, receipts: Sequence[Statement]) -> None:
        """Check that the record ends where the signatures, receipts and manifest say."""
        after = self.events + 1
        if late:
            self._check_signer(late, after)
        for beyond in (late, *receipts[:1]):
            if beyond:
                raise InvalidRecord(
                    f"The record was truncated: it ends at event {self.events}, and the {beyond.kind} "
                    f"statement for event {beyond.seq} says that there was more.",
                    seq=after,
                )
        if not self.events:
            raise InvalidRecord("The record holds no events: not even session.opened.", seq=1)
        if self.covered < self.events:
            raise InvalidRecord(
                f"Event {self.covered + 1} is not signed: no valid statement covers it or one after it.",
                seq=self.covered + 1,
            )
        if manifest.events != self.events:
            raise InvalidRecord(
                f"manifest.json speaks of {manifest.events} events, and the record holds {self.events}.",
                seq=min(manifest.events, self.events) + 1,
            )
        if manifest.head != self.head:
            raise InvalidRecord(
                f"manifest.json gives another hash for the last event, {self.events}.", seq=self.events
            )

    def _warnings(self) -> Iterator[str]:
        """The claims that a valid record does not prove."""
        if not self.pins:
            yield (
                "No key was given, and anybody can sign a record with a key of their own. "
                "Give the fingerprint of the installation's key, from somebody you trust."
            )
        if len(self.signers) > 1:
            yield f"The statements are signed by {len(self.signers)} keys: see that you trust them all."
        if not self.ended:
            yield (
                f"The session has not ended: events after {self.events} may have been cut off. "
                "Only a receipt from later would show it."
            )
        if self.erased:
            why = "".join(f": {each}" for each in sorted(self.erasure_reasons))
            yield f"{self.erased} of {self.events} payloads were erased, by signed statement{why}."
        if self.gaps:
            missing = f"{self.omitted} events or more" if self.omitted else "an unknown number of events"
            times = f"{self.gaps} times, for {missing}"
            yield f"Not everything was recorded: events.omitted stands in the record {times}."


class _Statements:
    """The statements of a record, in the order of the events they are about."""

    def __init__(self, archive: Archive) -> None:
        self._lines = enumerate(archive.lines("statements.ndjson", STATEMENT_LIMIT_BYTES), 1)
        self.next = self._read()

    def take(self, seq: int) -> Iterator[Statement]:
        """The statements about this event."""
        while self.next and self.next.seq <= seq:
            if self.next.seq < seq:
                raise InvalidRecord(
                    f"statements.ndjson is out of order: the {self.next.kind} statement for event "
                    f"{self.next.seq} comes after one for a later event.",
                    seq=self.next.seq,
                )
            yield self.next
            self.next = self._read()

    def _read(self) -> Statement | None:
        number, line = next(self._lines, (0, None))
        if line is None:
            return None
        with _attributing(f"Line {number} of statements.ndjson"):
            return parse_statement(line)


def _check_receipt_hash(receipt: Statement, record: Record) -> None:
    if receipt.hash != record.hash:
        raise InvalidRecord(
            f"The record was rewritten: a receipt says that event {record.seq} has the hash {receipt.hash}, "
            f"and here it has {record.hash}.",
            seq=record.seq,
        )


@contextmanager
def _attributing(what: str, seq: int | None = None) -> Iterator[None]:
    try:
        yield
    except InvalidRecord as damage:
        raise InvalidRecord(f"{what}: {damage}.", seq=seq) from None


def _only_line(text: bytes) -> bytes:
    if not text.endswith(b"\n"):
        raise InvalidRecord("it is cut short: its line has no end")
    return text[:-1]


def _fingerprint(text: str) -> str:
    found = _FINGERPRINT.fullmatch(text.strip().lower())
    if not found:
        raise BadRequest(f"{echo(text, 80)} is not the fingerprint of a key. One is 64 hex digits.")
    return found[0]
