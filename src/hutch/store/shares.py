"""Shares of sessions with other users, as rows."""

from dataclasses import dataclass

from sqlalchemy import Connection, delete, insert, select, update

from hutch.domain.errors import NotFound
from hutch.domain.ids import UserId
from hutch.domain.quoted_text import echo
from hutch.domain.user import ShareRole
from hutch.store.schema import shares
from hutch.store.table_access import Rows
from hutch.store.users import get_user
from hutch.system.clock import wall_ms


@dataclass(frozen=True, slots=True)
class Share:
    """The role of a user in a shared session."""

    session_id: str
    user_id: UserId
    role: ShareRole
    created_by: str
    created_ms: int


_COLUMNS = tuple(shares.c[name] for name in Share.__dataclass_fields__)


class Shares:
    """Shares of sessions: one role for a user in a session."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows

    async def set(self, session_id: str, user_id: str, role: ShareRole, *, created_by: str) -> Share:
        """Share a session with a user, or change the role in it."""
        return await self._rows.change(lambda db: set_share(db, session_id, user_id, role, created_by))

    async def remove(self, session_id: str, user_id: str) -> None:
        statement = delete(shares).where(shares.c.session_id == session_id, shares.c.user_id == user_id)
        if await self._rows.change(lambda db: db.execute(statement).rowcount) != 1:
            raise NotFound(f"The session is not shared with {echo(user_id, 80)}.")

    async def role(self, session_id: str, user_id: str) -> ShareRole | None:
        """The role of a user in a session of another user."""
        statement = select(shares.c.role).where(
            shares.c.session_id == session_id, shares.c.user_id == user_id
        )
        return await self._rows.fetch(lambda db: db.execute(statement).scalar_one_or_none())

    async def of_session(self, session_id: str) -> list[Share]:
        statement = select(*_COLUMNS).where(shares.c.session_id == session_id).order_by(shares.c.created_ms)
        return await self._rows.fetch(lambda db: [Share(*row) for row in db.execute(statement)])

    async def of_user(self, user_id: str) -> list[Share]:
        statement = select(*_COLUMNS).where(shares.c.user_id == user_id).order_by(shares.c.session_id)
        return await self._rows.fetch(lambda db: [Share(*row) for row in db.execute(statement)])


def set_share(db: Connection, session_id: str, user_id: str, role: ShareRole, created_by: str) -> Share:
    user = get_user(db, user_id)
    share = Share(session_id, user.id, role, created_by, wall_ms())
    changed = db.execute(
        update(shares)
        .where(shares.c.session_id == session_id, shares.c.user_id == user_id)
        .values(role=role, created_by=created_by)
    ).rowcount
    if not changed:
        values = {name: getattr(share, name) for name in Share.__dataclass_fields__}
        db.execute(insert(shares).values(values))
    return share
