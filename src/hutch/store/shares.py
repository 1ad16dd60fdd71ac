"""Shares of sessions with other users, as rows."""

from typing import Any

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Connection,
    RowMapping,
    Select,
    and_,
    bindparam,
    delete,
    exists,
    func,
    insert,
    select,
    update,
)

from hutch.domain.errors import NotFound
from hutch.domain.ids import UserId
from hutch.domain.one_line_text import echo
from hutch.domain.user import SHARE_SCOPES, ShareRole, ShareScope
from hutch.store.interview_tables import interviews
from hutch.store.schema import shares
from hutch.store.table_access_interface import Rows
from hutch.store.users import get_user
from hutch.system.clock_without_jumps import wall_ms
from hutch.system.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Share:
    """The role of a user in a shared session."""

    session_id: str
    user_id: UserId
    role: ShareRole
    created_by: str
    created_ms: int
    scopes: tuple[ShareScope, ...] = ()  # empty: all that the role includes
    expires_ms: int | None = None

    def includes(self, scope: ShareScope) -> bool:
        return not self.scopes or scope in self.scopes


_COLUMNS = tuple(shares.c[name] for name in Share.__dataclass_fields__)


def _valid() -> ColumnElement[bool]:
    bound = func.json_extract(interviews.c.progress, "$.candidate")
    taken = exists().where(interviews.c.id == shares.c.session_id, bound != "", bound != shares.c.user_id)
    now_ms = bindparam("now_ms", callable_=wall_ms, type_=BigInteger)
    return and_(
        shares.c.expires_ms.is_(None) | (shares.c.expires_ms > now_ms),
        (shares.c.role != "candidate") | ~taken,
    )


# Built once: access is checked so often that building the statement would cost more than running it.
IS_VALID = _valid()
"""The condition for shares that have not expired, and are not those of a candidate in the interview of
another: its first candidate is the only one."""
_FIND = select(*_COLUMNS).where(
    shares.c.session_id == bindparam("session"), shares.c.user_id == bindparam("user"), IS_VALID
)


def shared_with(user_id: str) -> Select[tuple[str]]:
    """The ids of the sessions that are shared with a user."""
    return select(shares.c.session_id).where(shares.c.user_id == user_id, IS_VALID)


def read_share(row: RowMapping) -> Share:
    """A share from its row."""
    values: dict[str, Any] = dict(row)
    return Share(**{**values, "scopes": split_scopes(values["scopes"])})


def split_scopes(text: str) -> tuple[ShareScope, ...]:
    """Scopes as a row stores them."""
    return tuple(scope for scope in SHARE_SCOPES if scope in text.split(","))


class Shares:
    """Shares of sessions: one role for a user in a session."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows

    async def set(
        self,
        session_id: str,
        user_id: str,
        role: ShareRole,
        *,
        created_by: str,
        scopes: tuple[ShareScope, ...] = (),
        expires_ms: int | None = None,
    ) -> Share:
        """Share a session with a user, or change the role in it."""
        return await self._rows.change(
            lambda db: set_share(db, session_id, user_id, role, created_by, scopes, expires_ms)
        )

    async def remove(self, session_id: str, user_id: str) -> None:
        statement = delete(shares).where(shares.c.session_id == session_id, shares.c.user_id == user_id)
        if await self._rows.change(lambda db: db.execute(statement).rowcount) != 1:
            raise NotFound(f"The session is not shared with {echo(user_id, 80)}.")

    async def role(self, session_id: str, user_id: str) -> ShareRole | None:
        """The role of a user in a session of another user."""
        share = await self.find(session_id, user_id)
        return share.role if share else None

    async def find(self, session_id: str, user_id: str) -> Share | None:
        """The share of a user in a session, unless it has expired."""
        named = {"session": session_id, "user": user_id}
        row = await self._rows.fetch(lambda db: db.execute(_FIND, named).mappings().first())
        return None if row is None else read_share(row)

    async def of_session(self, session_id: str) -> list[Share]:
        here = (shares.c.session_id == session_id, IS_VALID)
        statement = select(*_COLUMNS).where(*here).order_by(shares.c.created_ms)
        return await self._all(statement)

    async def of_user(self, user_id: str) -> list[Share]:
        here = (shares.c.user_id == user_id, IS_VALID)
        statement = select(*_COLUMNS).where(*here).order_by(shares.c.session_id)
        return await self._all(statement)

    async def _all(self, statement: Select[Any]) -> list[Share]:
        found = await self._rows.fetch(lambda db: db.execute(statement).mappings().all())
        return [read_share(row) for row in found]


def set_share(
    db: Connection,
    session_id: str,
    user_id: str,
    role: ShareRole,
    created_by: str,
    scopes: tuple[ShareScope, ...] = (),
    expires_ms: int | None = None,
) -> Share:
    user = get_user(db, user_id)
    share = Share(session_id, user.id, role, created_by, wall_ms(), scopes, expires_ms)
    values = {name: getattr(share, name) for name in Share.__dataclass_fields__}
    values["scopes"] = ",".join(scopes)
    changes = {name: values[name] for name in ("role", "created_by", "scopes", "expires_ms")}
    here = (shares.c.session_id == session_id, shares.c.user_id == user_id)
    if not db.execute(update(shares).where(*here).values(changes)).rowcount:
        db.execute(insert(shares).values(values))
    return share
