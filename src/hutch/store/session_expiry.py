"""Sessions that nobody has touched for long: found, ended, and without a workspace from then on."""

from sqlalchemy import Connection, func, select, update

from hutch.domain.ids import SessionId
from hutch.domain.session import Session, SessionState
from hutch.store.inputs import count_untaken
from hutch.store.rows import Rows
from hutch.store.schema import runs, sessions
from hutch.store.sessions import read_session

IDLE_STATES: tuple[SessionState, ...] = ("parked", "ended")  # nothing is under way in these
ONCE = '%"once": true%'  # as JSON has it; a quotation mark in a text has a backslash before it


class SessionExpiry:
    """The sessions of a server that are past their time."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows

    async def list_idle(self, before_ms: int, *, once: bool, limit: int, after: str = "") -> list[Session]:
        """Sessions at rest with a workspace that were last touched before then, in the order of their ids.

        With `once`, only those that were made for a single request.
        """
        wanted = select(sessions).where(
            sessions.c.workspace_id != "",
            sessions.c.state.in_(IDLE_STATES),
            sessions.c.updated_ms < before_ms,
            sessions.c.id > after,
        )
        if once:
            wanted = wanted.where(sessions.c.delivery.like(ONCE))
        wanted = wanted.order_by(sessions.c.id).limit(limit)
        found = await self._rows.fetch(lambda connection: connection.execute(wanted).mappings().all())
        return [read_session(row) for row in found]

    async def end_idle(self, session: Session, reason: str) -> bool:
        """End a session at rest; False when somebody has begun something in it since it was looked at."""
        return await self._rows.change(lambda connection: _end_idle(connection, session, reason))

    async def clear_workspace(self, session_id: SessionId) -> None:
        """Its files are gone."""
        gone = update(sessions).where(sessions.c.id == session_id).values(workspace_id="")
        await self._rows.change(lambda connection: connection.execute(gone))


def _end_idle(connection: Connection, session: Session, reason: str) -> bool:
    here = (runs.c.session_id == session.id, runs.c.state != "ended")
    if connection.scalar(select(func.count()).select_from(runs).where(*here)):
        return False
    if count_untaken(connection, session.id):
        return False
    same = (
        sessions.c.id == session.id,
        sessions.c.state == session.state,
        sessions.c.updated_ms == session.updated_ms,
    )
    told = session.reason if reason in session.reason else f"{session.reason} {reason}".strip()
    if session.state == "parked":  # why that was is no matter any more
        told = reason
    ended = update(sessions).where(*same).values(state="ended", reason=told)
    return connection.execute(ended).rowcount == 1
