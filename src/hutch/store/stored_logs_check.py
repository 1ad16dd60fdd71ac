"""Checks every log of a database as `hutch verify` checks an exported record: chain and signatures.

Events after the last signature of an open log are in the chain, but nobody has signed them yet.
They are counted.
"""

from collections.abc import Callable, Collection, Iterator
from dataclasses import field
from pathlib import Path

from sqlalchemy import Connection, select

from hutch.domain.errors import HutchError
from hutch.domain.ids import SessionId
from hutch.store.database import open_database, translate_errors
from hutch.store.exported_record_verifier import RecordCheck
from hutch.store.hash_chain import Record
from hutch.store.large_payload_files import Blobs
from hutch.store.log_reader import read_public_keys, read_records, read_statements
from hutch.store.record_format import InvalidRecord
from hutch.store.schema import logs
from hutch.store.signed_log_head_statements import Statement
from hutch.system.lazy_dataclass import dataclass

PAGE_EVENTS = 500


@dataclass(slots=True)
class LogsReport:
    """The result of the check."""

    logs: int = 0
    events: int = 0
    erased: int = 0  # payloads that were erased, by signed statement
    unsigned: int = 0  # events after the last signature of their log
    keys: set[str] = field(default_factory=set)  # fingerprints of the signing keys
    problems: dict[str, str] = field(default_factory=dict)  # by session


def check_stored_logs(path: Path, blobs: Path, on_log: Callable[[int], None]) -> LogsReport:
    """Check every log. A database of an older schema is migrated. Blocks the thread.

    `on_log` gets the number of checked logs, and may raise to stop.
    """
    engine = open_database(path)
    try:
        with translate_errors(path), engine.connect() as connection:
            connection.exec_driver_sql("BEGIN")
            report = check_logs(connection, Blobs(blobs), on_log)
            connection.exec_driver_sql("ROLLBACK")
    finally:
        engine.dispose()
    return report


def check_logs(
    connection: Connection,
    blobs: Blobs,
    on_log: Callable[[int], None],
    only: Collection[str] | None = None,
) -> LogsReport:
    """Check every log, or only those of these sessions, while nobody writes."""
    report = LogsReport()
    public_keys = read_public_keys(connection)
    for row in connection.execute(select(logs).order_by(logs.c.id)).all():
        if only is not None and row.session_id not in only:
            continue
        check = RecordCheck(frozenset(), ())
        check.session, check.public_keys = row.session_id, public_keys
        try:
            _check_log(connection, blobs, SessionId(row.session_id), check)
            if (check.events, check.head) != (row.seq, row.hash):
                raise InvalidRecord(f"The head of the log is not event {check.events}.")
        except (InvalidRecord, HutchError) as problem:
            report.problems[row.session_id] = str(problem)
        report.logs += 1
        report.events += check.events
        report.erased += check.erased
        report.unsigned += check.events - check.covered
        report.keys |= check.signers
        on_log(report.logs)
    return report


def _check_log(connection: Connection, blobs: Blobs, session_id: SessionId, check: RecordCheck) -> None:
    statements = sorted(read_statements(connection, session_id), key=lambda each: each.seq)
    place = 0
    for record in _records(connection, blobs, session_id):
        about: list[Statement] = []
        while place < len(statements) and statements[place].seq <= record.seq:
            about.append(statements[place])
            place += 1
        check.accept(record, iter(about))
    if place < len(statements):
        raise InvalidRecord(
            f"A {statements[place].kind} statement is about event {statements[place].seq}, "
            f"and the log ends at {check.events}."
        )


def _records(connection: Connection, blobs: Blobs, session_id: SessionId) -> Iterator[Record]:
    after, more = 0, True
    while more:
        page, more = read_records(connection, blobs, session_id, after, PAGE_EVENTS)
        yield from page
        more = more and bool(page)
        after = page[-1].seq if page else after
