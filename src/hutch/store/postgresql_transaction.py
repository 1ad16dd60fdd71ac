"""One write transaction on the event log in PostgreSQL.

A lock that all writers of the database take makes them write one after the other, as SQLite does. So heads
and rows that a transaction reads stay true until its commit, and the positions of events rise in the order
of commits. Each commit notifies the followers of other processes of the logs that have grown.
"""

import time
from collections.abc import Callable, Iterable
from typing import Any, cast

import psycopg
from sqlalchemy import Connection, Engine
from sqlalchemy.exc import DBAPIError

from hutch.domain.ids import SessionId
from hutch.store.hash_chain import GENESIS
from hutch.store.log_write_sql import LogState, Transaction

CHANNEL = "hutch_logs"
WRITE_LOCK = 0x4855544348  # "HUTCH"
MAX_NOTIFIED_LOGS = 150  # in one notification, whose text has at most 8000 bytes
MIN_COPIED_ROWS = 16  # for fewer, COPY takes longer than INSERT
RECONNECT_TIMEOUT_S = 10.0
RECONNECT_DELAY_S = 0.2

BEGIN = f"BEGIN; SELECT pg_advisory_xact_lock({WRITE_LOCK}); SELECT pg_current_xact_id()::text"
COPY_EVENTS = (
    "COPY events (log_id, seq, at_ms, type, payload_hash, hash, salt, payload) FROM STDIN (FORMAT BINARY)"
)
COPIED_TYPES = ("int8", "int8", "int8", "text", "text", "text", "bytea", "bytea")


class PostgresqlTransaction(Transaction):
    """A dedicated connection, used by one thread for one transaction after the other."""

    def __init__(self, engine: Engine, check: Callable[[Connection], None]) -> None:
        self._check = check  # of a new connection after one that broke: may it write?
        self._grown: dict[SessionId, int] = {}
        self._id = ""  # of the transaction
        self._unsent: list[tuple[str, tuple[Any, ...]]] = []
        super().__init__(engine)

    @property
    def rows(self) -> Connection:
        """The same connection, for infrequent statements."""
        self._send()
        return self._rows

    def _connect(self) -> None:
        self._rows = self._engine.connect()
        self._session = cast("psycopg.Connection[Any]", self._rows.connection.driver_connection)
        self._driver = cast(Any, _Driver(self))

    def begin(self) -> None:
        self._grown.clear()
        self._unsent.clear()
        try:
            cursor = self._session.execute(BEGIN)
        except psycopg.OperationalError:  # the server was restarted meanwhile: nothing is lost
            if not self._session.closed:
                raise
            self._replace()
            cursor = self._session.execute(BEGIN)
        while cursor.nextset():
            pass
        (self._id,) = cursor.fetchone() or ("",)

    def commit(self) -> None:
        """Commit. If the connection breaks meanwhile, ask on another one if it was committed."""
        try:
            with self._session.pipeline():
                for statement, values in self._unsent:
                    self._session.execute(statement, values)
                for text in _notifications(self._grown):
                    self._session.execute("SELECT pg_notify(%s, %s)", (CHANNEL, text))
                self._session.execute("COMMIT")
        except psycopg.OperationalError:
            if not self._session.closed or not self._was_committed(self._id):
                raise

    def rollback(self) -> None:
        """Roll back. A connection that fails to do so is replaced at the next begin."""
        self._unsent.clear()
        try:
            if not self._session.closed:
                self._session.rollback()
        except psycopg.Error:
            self._session.close()

    def truncate_wal(self) -> bool:
        """Erased data is not in the tables any more. The server overwrites its old pages and logs in time."""
        return True

    def save_wal(self) -> bool:
        return False

    def open_log(self, session_id: SessionId, now_ms: int) -> LogState:
        values = (session_id, 0, GENESIS, now_ms, now_ms, False, 0, 0, "")
        self._send()
        row = self._session.execute(self._sql.insert_log, values).fetchone()  # RETURNING its id
        assert row
        return LogState(row[0], *values)

    def save_log(self, log: LogState) -> None:
        self._grown[log.session_id] = log.seq
        super().save_log(log)

    def add_events(self, rows: Iterable[tuple[Any, ...]]) -> None:
        rows = list(rows)
        if len(rows) < MIN_COPIED_ROWS:
            self._unsent += [(self._sql.insert_event, row) for row in rows]
            return
        with self._session.cursor() as cursor, cursor.copy(COPY_EVENTS) as copy:
            copy.set_types(COPIED_TYPES)
            for row in rows:
                copy.write_row(row)

    def _send(self) -> None:
        """Send the statements whose results nobody reads, without waiting after each."""
        if not self._unsent:
            return
        unsent, self._unsent = self._unsent, []
        with self._session.pipeline():
            for statement, values in unsent:
                self._session.execute(statement, values)

    def _replace(self) -> None:
        broken = self._rows
        broken.invalidate()
        broken.close()
        self._connect()
        try:
            self._check(self._rows)
        except BaseException:
            self._session.close()
            raise

    def _was_committed(self, transaction: str) -> bool:
        """True if a transaction is durable whose commit was not confirmed. Raises if nobody can tell."""
        until = time.monotonic() + RECONNECT_TIMEOUT_S
        while True:
            try:
                self._replace()
                row = self._session.execute("SELECT pg_xact_status(%s::xid8)", (transaction,)).fetchone()
            except (DBAPIError, psycopg.OperationalError):
                if time.monotonic() > until:
                    raise
            else:
                if row and row[0] != "in progress":
                    return bool(row[0] == "committed")
            time.sleep(RECONNECT_DELAY_S)


class _Driver:
    """Executes the statements of the base class; those without a result before the next that has one."""

    def __init__(self, transaction: PostgresqlTransaction) -> None:
        self._transaction = transaction

    def execute(self, statement: str, values: tuple[Any, ...] = ()) -> "psycopg.Cursor[Any] | None":
        if not statement.startswith("SELECT"):
            self._transaction._unsent.append((statement, values))
            return None
        self._transaction._send()
        return self._transaction._session.execute(statement, values)


def _notifications(grown: dict[SessionId, int]) -> list[str]:
    """The logs that have grown and their lengths, as texts of notifications."""
    words = [f"{session_id}:{seq}" for session_id, seq in grown.items()]
    return [
        " ".join(words[first : first + MAX_NOTIFIED_LOGS])
        for first in range(0, len(words), MAX_NOTIFIED_LOGS)
    ]
