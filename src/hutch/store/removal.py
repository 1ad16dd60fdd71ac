"""A session that is removed: its rows go, its log stays."""

from sqlalchemy import Connection, delete

from hutch.store.schema import inputs, runs, sessions, shares


def remove_session(connection: Connection, session_id: str) -> None:
    """It is no longer in any list, and nobody has a part in it. What happened is still in the log."""
    for table in (inputs, runs, shares):
        connection.execute(delete(table).where(table.c.session_id == session_id))
    connection.execute(delete(sessions).where(sessions.c.id == session_id))
