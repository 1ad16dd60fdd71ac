"""Finds missing parts of a log by comparing it with the rest of the database.

The head in `logs` and the signed statements know how many events there were, where the chain ends,
and what was erased. `hutch verify` checks an exported record in full; this finds what was removed
from the database from outside, without reading a payload.
"""

from collections.abc import Iterator, Sequence

from sqlalchemy import Connection, func, select

from hutch.domain.errors import RecordDamaged, describe_missing
from hutch.domain.ids import SessionId
from hutch.store.log_reader import log_and_newest
from hutch.store.schema import events, logs, statements

NO_END = "The session has ended, and the event that says so is missing."
HEAD_STATEMENT_KINDS = ("checkpoint", "end")  # the kinds of statement that sign a head


def find_defects(connection: Connection, session_id: SessionId) -> list[str]:
    """One sentence for each missing part."""
    log_id, newest = log_and_newest(connection, session_id)
    found = [f"{describe_missing(*gap)}." for gap in _gaps(connection, log_id, newest)]
    return [*found, *_unsigned(connection, log_id), *_unexplained(connection, log_id)]


def missing_end(session_id: SessionId) -> RecordDamaged:
    """The error for followers of a log whose last event is missing."""
    return damaged_log(session_id, [NO_END])


def damaged_log(session_id: SessionId, defects: Sequence[str]) -> RecordDamaged:
    return RecordDamaged(
        f"The log of session {session_id} is damaged. {' '.join(defects)} Export the rest on the machine "
        f"of the database: hutch export {session_id}"
    )


def _gaps(connection: Connection, log_id: int, newest: int) -> Iterator[tuple[int, int]]:
    """The first and the last event of each gap."""
    before = func.lag(events.c.seq, 1, 0).over(order_by=events.c.seq).label("before")
    ordered = select(events.c.seq, before).where(events.c.log_id == log_id).subquery()
    for row in connection.execute(select(ordered).where(ordered.c.seq != ordered.c.before + 1)):
        yield row.before + 1, row.seq - 1
    last = connection.scalar(select(func.max(events.c.seq)).where(events.c.log_id == log_id)) or 0
    if last < newest:
        yield last + 1, newest


def _unsigned(connection: Connection, log_id: int) -> Iterator[str]:
    """Signed heads whose statement is missing, and heads that are not the last event."""
    log = connection.execute(select(logs).where(logs.c.id == log_id)).one()
    vouched = select(func.max(statements.c.seq)).where(
        statements.c.log_id == log_id, statements.c.kind.in_(HEAD_STATEMENT_KINDS)
    )
    if (connection.scalar(vouched) or 0) < log.signed_seq:
        yield f"The signed statement about event {log.signed_seq} is missing."
    here = (events.c.log_id == log_id, events.c.seq == log.seq)
    if log.ended and connection.scalar(select(events.c.type).where(*here)) not in (None, "session.ended"):
        yield f"{NO_END} The last event that is there is {log.seq}."
    if connection.scalar(select(events.c.hash).where(*here)) not in (None, log.hash):
        yield f"Event {log.seq} is not the one that was recorded: the head of the log has another hash."


def _unexplained(connection: Connection, log_id: int) -> Iterator[str]:
    """Payloads that are missing without a signed erasure."""
    erasures = select(statements.c.seq).where(statements.c.log_id == log_id, statements.c.kind == "erasure")
    gone = (events.c.log_id == log_id, events.c.salt.is_(None), events.c.seq.not_in(erasures))
    count, first = connection.execute(select(func.count(), func.min(events.c.seq)).where(*gone)).one()
    if count:
        yield (
            f"{count} payload{'' if count == 1 else 's'} missing, the first one of event {first}, and no "
            "signed statement says that they were erased."
        )
