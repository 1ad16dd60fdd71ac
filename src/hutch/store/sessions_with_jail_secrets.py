"""The sessions whose jails get secrets."""

import json

from sqlalchemy import select

from hutch.store.schema import sessions
from hutch.store.sessions import ENDED_STATES
from hutch.store.table_access_interface import Rows


async def sessions_with_secrets(rows: Rows, owner: str | None = None) -> list[tuple[str, str, list[str]]]:
    """Sessions that have not ended, of one owner or of all: id, owner, and the names of their secrets."""
    columns = (sessions.c.id, sessions.c.owner, sessions.c.secrets)
    statement = select(*columns).where(sessions.c.secrets != "[]", sessions.c.state.not_in(ENDED_STATES))
    if owner is not None:
        statement = statement.where(sessions.c.owner == owner)
    found = await rows.fetch(lambda connection: connection.execute(statement.order_by(sessions.c.id)).all())
    return [(row[0], row[1], json.loads(row[2])) for row in found]
