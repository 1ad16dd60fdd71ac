"""Listens for the commits of other processes to a database in PostgreSQL."""

import select
import socket
from collections.abc import Callable
from threading import Lock

from hutch.domain.ids import SessionId
from hutch.store.commit_watch import LogGrowth, Report
from hutch.store.database_location import PostgresqlDatabase
from hutch.store.postgresql_connection import connect
from hutch.store.postgresql_transaction import CHANNEL

CHECK_INTERVAL_S = 30.0  # of a silent connection


class NotificationWatch:
    """Each commit sends the logs that have grown, on a channel of the database."""

    def __init__(self, location: PostgresqlDatabase) -> None:
        self._location = location
        self._lock = Lock()
        self._waker: socket.socket | None = None  # while it runs

    def run(self, is_needed: Callable[[], bool], report: Report) -> None:
        waker, woken = socket.socketpair()
        with waker, woken, connect(self._location) as session:
            with self._lock:
                self._waker = waker
            try:
                session.execute(f"LISTEN {CHANNEL}")
                report(None)  # for commits before this connection listened
                while is_needed():
                    sources: list[socket.socket | int] = [session.fileno(), woken]
                    readable, _, _ = select.select(sources, [], [], CHECK_INTERVAL_S)
                    if woken in readable:
                        woken.recv(4096)
                    if not readable:
                        session.execute("SELECT 1")  # raises if the server is gone
                    for notification in session.notifies(timeout=0):
                        report(_grown(notification.payload))
            finally:
                with self._lock:
                    self._waker = None

    def interrupt(self) -> None:
        with self._lock:
            if self._waker:
                self._waker.send(b"!")


def _grown(text: str) -> dict[SessionId, LogGrowth]:
    pairs = (word.rpartition(":") for word in text.split())
    return {SessionId(session_id): LogGrowth(int(seq)) for session_id, _, seq in pairs}
