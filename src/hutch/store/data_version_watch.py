"""Watches the commits of other processes to a file of SQLite, which cannot tell: it is polled."""

import sqlite3
from collections.abc import Callable
from threading import Event
from typing import cast

from sqlalchemy import Engine

from hutch.domain.ids import SessionId
from hutch.store.commit_watch import LogGrowth, Report

WATCH_INTERVAL_S = 0.008
NEWEST = "SELECT max(position) FROM events"
GROWN = "SELECT session_id, seq FROM logs WHERE id IN (SELECT DISTINCT log_id FROM events WHERE position > ?)"


class DataVersionWatch:
    """Polls the number that SQLite changes at each commit of another connection."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._pause = Event()  # never set: a poll is soon enough

    def run(self, is_needed: Callable[[], bool], report: Report) -> None:
        with self._engine.connect() as connection:
            # Without SQLAlchemy: this runs 125 times a second.
            database = cast(sqlite3.Connection, connection.connection.driver_connection)
            version = _version(database)
            position = _newest(database)
            report(None)  # for commits before this thread started
            while is_needed():
                self._pause.wait(WATCH_INTERVAL_S)
                now = _version(database)
                if now == version:
                    continue
                version = now
                newest = _newest(database)
                if newest == position:
                    continue
                if newest < position:  # rows were deleted: subscribers must check
                    report(None)
                grown = {SessionId(id): LogGrowth(seq) for id, seq in database.execute(GROWN, (position,))}
                position = newest
                report(grown)

    def interrupt(self) -> None:
        """The next poll looks."""


def _version(database: sqlite3.Connection) -> int:
    """A number that changes whenever any other connection commits."""
    return int(database.execute("PRAGMA data_version").fetchone()[0])


def _newest(database: sqlite3.Connection) -> int:
    return int(database.execute(NEWEST).fetchone()[0] or 0)
