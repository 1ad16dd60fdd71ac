"""Ends sessions that were idle for long, and clears their workspaces."""

from sqlalchemy import Connection, func, select, update

from hutch.domain.ids import SessionId
from hutch.domain.session import Session, SessionState
from hutch.store.schema import runs, sessions
from hutch.store.session_inputs import count_unprocessed
from hutch.store.sessions import read_session
from hutch.store.table_access_interface import Rows

IDLE_STATES: tuple[SessionState, ...] = ("parked", "ended")  # no work is in progress in these
ONCE = '%"once": true%'  # as serialised in JSON; a quote inside a text is escaped


class SessionExpiry:
    """Finds and ends expired sessions."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows

    async def list_idle(self, before_ms: int, *, once: bool, limit: int, after: str = "") -> list[Session]:
        """Idle sessions with a workspace that were last used before `before_ms`, in the order of their ids.

        With `once`, only those that were created for a single request.
        """
        statement = select(sessions).where(
            sessions.c.workspace_id != "",
            sessions.c.state.in_(IDLE_STATES),
            sessions.c.updated_ms < before_ms,
            sessions.c.id > after,
        )
        if once:
            statement = statement.where(sessions.c.delivery.like(ONCE))
        statement = statement.order_by(sessions.c.id).limit(limit)
        found = await self._rows.fetch(lambda connection: connection.execute(statement).mappings().all())
        return [read_session(row) for row in found]

    async def end_idle(self, session: Session, reason: str) -> bool:
        """End an idle session; False if it was used since it was read."""
        return await self._rows.change(lambda connection: _end_idle(connection, session, reason))

    async def clear_workspace(self, session_id: SessionId) -> None:
        """Record that the files of a session were deleted."""
        gone = update(sessions).where(sessions.c.id == session_id).values(workspace_id="")
        await self._rows.change(lambda connection: connection.execute(gone))


def _end_idle(connection: Connection, session: Session, reason: str) -> bool:
    here = (runs.c.session_id == session.id, runs.c.state != "ended")
    if connection.scalar(select(func.count()).select_from(runs).where(*here)):
        return False
    if count_unprocessed(connection, session.id):
        return False
    same = (
        sessions.c.id == session.id,
        sessions.c.state == session.state,
        sessions.c.updated_ms == session.updated_ms,
    )
    text = session.reason if reason in session.reason else f"{session.reason} {reason}".strip()
    if session.state == "parked":  # the reason for parking is obsolete
        text = reason
    ended = update(sessions).where(*same).values(state="ended", reason=text)
    return connection.execute(ended).rowcount == 1
