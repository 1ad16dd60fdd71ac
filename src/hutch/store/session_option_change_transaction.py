"""Changes the options of a session: its row and the event, in one transaction."""

from sqlalchemy import Connection

from hutch.domain.events import SessionChanged
from hutch.domain.session import Session
from hutch.store.event_log_interface import EventLog
from hutch.store.sessions import change_session


class _Outdated(Exception):
    """The row is no longer as it was read."""


async def store_change(log: EventLog, before: Session, after: Session, event: SessionChanged) -> bool:
    """Write both or nothing. False if another request has changed the session since it was read."""

    def write(connection: Connection) -> None:
        if not change_session(connection, before, after):
            raise _Outdated

    try:
        await log.append(before.id, [event], also=write)
    except _Outdated:
        return False
    return True
