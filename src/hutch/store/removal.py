"""A session that is removed: its rows go, its log stays."""

from sqlalchemy import Connection, delete, select
from sqlalchemy.dialects.sqlite import insert

from hutch.store.schema import inputs, removals, runs, sessions, shares


def remove_session(connection: Connection, session_id: str) -> None:
    """It is no longer in any list, and nobody has a part in it. What happened is still in the log."""
    for table in (inputs, runs, shares, removals):
        connection.execute(delete(table).where(table.c.session_id == session_id))
    connection.execute(delete(sessions).where(sessions.c.id == session_id))


def note_removal(connection: Connection, session_id: str) -> None:
    """Write down that a session is to be removed, whatever happens to this process."""
    connection.execute(insert(removals).values(session_id=session_id).on_conflict_do_nothing())


def forget_removal(connection: Connection, session_id: str) -> None:
    connection.execute(delete(removals).where(removals.c.session_id == session_id))


def noted_removals(connection: Connection) -> list[str]:
    """The sessions whose removal has begun and not ended."""
    return list(connection.scalars(select(removals.c.session_id)))
