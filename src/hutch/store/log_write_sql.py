"""One write transaction on the event log: every statement that changes the database.

This is the hottest path of Hutch: statements are compiled once from the schema and
run on the driver, which takes a third of the time of SQLAlchemy.
"""

import sqlite3
from collections.abc import Iterable
from functools import cache, partial
from typing import Any, cast

from sqlalchemy import BindParameter, Connection, Dialect, Engine, bindparam, delete, select, update
from sqlalchemy.dialects.sqlite import insert

from hutch.domain.ids import SessionId
from hutch.store.event_log_interface import Head
from hutch.store.hash_chain import GENESIS
from hutch.store.schema import blob_deletions, events, logs, public_keys, statements
from hutch.store.signed_log_head_statements import Statement
from hutch.system.lazy_dataclass import dataclass

SAVE_WAL_MS = 2000  # to wait for readers, while a server that lost its files shuts down


@dataclass(slots=True)
class LogState:
    """A log's row while a transaction works on it."""

    id: int
    session_id: SessionId
    seq: int
    hash: str
    at_ms: int
    opened_ms: int
    ended: bool  # SQLite answers 0 or 1
    signed_seq: int
    payload_bytes: int = 0
    omitted: str = ""  # omitted events since the last marker; see `log_limit`

    def head(self) -> Head:
        return Head(self.session_id, self.seq, self.hash, self.at_ms, self.opened_ms, bool(self.ended))


@dataclass(frozen=True, slots=True)
class _Sql:
    """The statements, as text for the driver."""

    select_log: str
    select_unsigned: str
    insert_log: str
    update_log: str
    insert_event: str
    select_payloads: str
    erase_event: str
    insert_statement: str
    insert_key: str
    insert_blob_deletion: str
    select_blob_deletions: str
    delete_blob_deletion: str


@cache
def _compile_statements(dialect: Dialect) -> _Sql:
    compile = partial(_compile, dialect)
    log_id: BindParameter[int] = bindparam("log_id")
    seq: BindParameter[int] = bindparam("seq")
    name: BindParameter[str] = bindparam("name")
    columns = "seq hash at_ms opened_ms ended signed_seq payload_bytes omitted"
    changed = columns.replace("opened_ms ", "")
    here = events.c.log_id == log_id
    return _Sql(
        select_log=compile(select(logs).where(logs.c.session_id == bindparam("session_id"))),
        select_unsigned=compile(select(logs.c.session_id).where(logs.c.signed_seq < logs.c.seq)),
        insert_log=compile(insert(logs), f"session_id {columns}"),
        update_log=compile(update(logs).where(logs.c.id == log_id), changed),
        insert_event=compile(insert(events).inline(), "log_id seq at_ms type payload_hash hash salt payload"),
        select_payloads=compile(
            select(events.c.seq, events.c.payload_hash, events.c.payload.is_(None)).where(
                here, events.c.seq.between(bindparam("first"), bindparam("last")), events.c.salt.is_not(None)
            )
        ),
        erase_event=compile(update(events).where(here, events.c.seq == seq), "salt payload"),
        insert_statement=compile(
            insert(statements).inline(), "log_id kind seq hash at_ms reason key signature"
        ),
        insert_key=compile(insert(public_keys).on_conflict_do_nothing(), "fingerprint public_key"),
        insert_blob_deletion=compile(insert(blob_deletions).on_conflict_do_nothing(), "name"),
        select_blob_deletions=compile(select(blob_deletions.c.name)),
        delete_blob_deletion=compile(delete(blob_deletions).where(blob_deletions.c.name == name)),
    )


def _compile(dialect: Dialect, statement: Any, columns: str = "") -> str:
    return str(statement.compile(dialect=dialect, column_keys=columns.split() or None))


class Transaction:
    """A dedicated connection, used by one thread for one transaction after the other."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._sql = _compile_statements(engine.dialect)
        self._connect()

    def _connect(self) -> None:
        self._rows = self._engine.connect()
        self._driver = cast(sqlite3.Connection, self._rows.connection.driver_connection)

    @property
    def rows(self) -> Connection:
        """The same connection, for infrequent statements."""
        return self._rows

    def begin(self) -> None:
        self._driver.execute("BEGIN IMMEDIATE")  # take the write lock now: heads read below stay true

    def commit(self) -> None:
        self._driver.execute("COMMIT")

    def rollback(self) -> None:
        """Roll back. A connection that fails to do so is replaced."""
        try:
            if self._driver.in_transaction:
                self._driver.execute("ROLLBACK")
        except sqlite3.Error:
            broken = self._rows
            self._connect()  # first: SQLite removes the write-ahead file with its last connection
            broken.invalidate()
            broken.close()

    def truncate_wal(self) -> bool:
        """Copy the write-ahead file into the database and truncate it, so that erased data is gone.

        Returns False at once if a reader still uses an old snapshot. SQLite could wait for it,
        but then all writers would wait, too.
        """
        (timeout_ms,) = self._driver.execute("PRAGMA busy_timeout").fetchone()
        self._driver.execute("PRAGMA busy_timeout=0")
        try:
            return bool(self._driver.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0] == 0)
        except sqlite3.OperationalError:  # another process is writing
            return False
        finally:
            self._driver.execute(f"PRAGMA busy_timeout={timeout_ms}")

    def save_wal(self) -> bool:
        """Copy the whole write-ahead file into the database, even if its name was deleted."""
        self._driver.execute(f"PRAGMA busy_timeout={SAVE_WAL_MS}")
        busy, frames, saved = self._driver.execute("PRAGMA wal_checkpoint(FULL)").fetchone()
        return not busy and frames == saved

    def close(self) -> None:
        self.rollback()
        self._rows.close()

    def try_to_write(self) -> None:
        """Write and delete a row, to test whether the database is writable."""
        self.doom_blob("")
        self.forget_blob("")

    def log(self, session_id: SessionId) -> LogState | None:
        row = self._driver.execute(self._sql.select_log, (session_id,)).fetchone()
        return None if row is None else LogState(*row)

    def unsigned(self) -> list[SessionId]:
        """Sessions with events that no signature covers yet."""
        return [SessionId(row[0]) for row in self._driver.execute(self._sql.select_unsigned)]

    def open_log(self, session_id: SessionId, now_ms: int) -> LogState:
        values = (session_id, 0, GENESIS, now_ms, now_ms, False, 0, 0, "")
        log_id = self._driver.execute(self._sql.insert_log, values).lastrowid
        assert log_id is not None
        return LogState(log_id, *values)

    def save_log(self, log: LogState) -> None:
        values = (log.seq, log.hash, log.at_ms, log.ended, log.signed_seq, log.payload_bytes, log.omitted)
        self._driver.execute(self._sql.update_log, (*values, log.id))

    def add_events(self, rows: Iterable[tuple[Any, ...]]) -> None:
        self._driver.executemany(self._sql.insert_event, rows)

    def add_statement(self, log_id: int, statement: Statement) -> None:
        values = (
            log_id,
            statement.kind,
            statement.seq,
            statement.hash,
            statement.at_ms,
            statement.reason,
            statement.key,
            statement.signature,
        )
        self._driver.execute(self._sql.insert_statement, values)

    def add_key(self, fingerprint: str, public_key: bytes) -> None:
        self._driver.execute(self._sql.insert_key, (fingerprint, public_key))

    def payloads(self, log_id: int, first: int, last: int) -> list[tuple[int, str, bool]]:
        """Seq, payload hash, and whether it lies in a blob, of each payload not erased in this range."""
        return self._driver.execute(self._sql.select_payloads, (log_id, first, last)).fetchall()

    def erase_payload(self, log_id: int, seq: int) -> None:
        self._driver.execute(self._sql.erase_event, (None, None, log_id, seq))

    def doom_blob(self, name: str) -> None:
        """Mark a blob for deletion after this transaction is durable."""
        self._driver.execute(self._sql.insert_blob_deletion, (name,))

    def blob_deletions(self) -> list[str]:
        return [row[0] for row in self._driver.execute(self._sql.select_blob_deletions)]

    def forget_blob(self, name: str) -> None:
        self._driver.execute(self._sql.delete_blob_deletion, (name,))
