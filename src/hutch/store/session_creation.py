"""Opens a session: its row, its first run and the start of its log, in one transaction."""

from collections.abc import Sequence

from sqlalchemy import Connection

from hutch.domain.events import Event
from hutch.domain.session import QueuedRun, Session
from hutch.store.event_log_interface import EventLog
from hutch.store.run_queue import add_run
from hutch.store.sessions import add_session
from hutch.store.table_access_interface import ExtraWrite
from hutch.system.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class OpenedSession:
    """A new session with its first run."""

    session: Session
    run: QueuedRun


async def open_session(
    log: EventLog,
    opened: OpenedSession,
    events: Sequence[Event],
    also: ExtraWrite[OpenedSession] | None = None,
) -> None:
    """Write all of it or nothing: a crash leaves no log without a session, and no session without a run."""

    def add(connection: Connection) -> None:
        add_session(connection, opened.session)
        add_run(connection, opened.run)
        if also:
            also.write(connection, opened)

    await log.append(opened.session.id, events, also=add)
