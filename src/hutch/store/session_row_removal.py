"""Removes sessions: deletes their rows, and keeps their logs."""

from sqlalchemy import Connection, delete, select
from sqlalchemy.dialects.sqlite import insert

from hutch.domain.session import Session, SessionInput
from hutch.store.interview_tables import interview_workspaces, interviews
from hutch.store.schema import inputs, runs, session_removals, sessions, shares
from hutch.store.table_access_interface import Rows
from hutch.store.test_runs import delete_tests


class PendingRemoval:
    """Marks a session for removal in the transaction of the input that ends it."""

    def write(self, connection: Connection, made: SessionInput) -> None:
        _note(connection, made.session_id)


class PendingRemovals:
    """Unfinished removals, which survive a restart."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows

    async def add(self, session_id: str) -> None:
        await self._rows.change(lambda connection: _note(connection, session_id))

    async def remove(self, session_id: str) -> None:
        statement = delete(session_removals).where(session_removals.c.session_id == session_id)
        await self._rows.change(lambda connection: connection.execute(statement))

    async def list(self) -> list[str]:
        """The ids of the sessions."""
        statement = select(session_removals.c.session_id)
        return await self._rows.fetch(lambda connection: list(connection.scalars(statement)))


async def remove_session(rows: Rows, session: Session) -> frozenset[str]:
    """Delete the rows of a session; returns the ids of the users who could see it."""

    def remove(connection: Connection) -> frozenset[str]:
        shared = connection.scalars(select(shares.c.user_id).where(shares.c.session_id == session.id))
        audience = frozenset({session.owner, *shared})
        for table in (inputs, runs, shares, session_removals):
            connection.execute(delete(table).where(table.c.session_id == session.id))
        delete_tests(connection, session.id)
        connection.execute(delete(interviews).where(interviews.c.id == session.id))
        for column in (interview_workspaces.c.interview, interview_workspaces.c.session_id):
            connection.execute(delete(interview_workspaces).where(column == session.id))
        connection.execute(delete(sessions).where(sessions.c.id == session.id))
        return audience

    return await rows.change(remove)


def _note(connection: Connection, session_id: str) -> None:
    connection.execute(insert(session_removals).values(session_id=session_id).on_conflict_do_nothing())
