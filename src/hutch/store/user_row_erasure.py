"""Erases the rows of a user. An erasure is noted first, so that it can be continued after a crash."""

from typing import Any, Literal

from sqlalchemy import Connection, delete, func, select, update
from sqlalchemy.dialects.sqlite import insert

from hutch.domain.errors import BadRequest
from hutch.store.schema import (
    answered_requests,
    approval_rules,
    browser_sessions,
    identities,
    links,
    preferences,
    runs,
    sessions,
    shares,
    tokens,
    user_erasures,
    users,
)
from hutch.store.table_access_interface import Rows
from hutch.store.task_tables import task_filters
from hutch.store.user_erasure_from_tasks import erase_from_tasks
from hutch.store.users import get_user
from hutch.system.clock_without_jumps import wall_ms
from hutch.system.lazy_dataclass import dataclass

Mentions = Literal["erase", "keep"]


@dataclass(frozen=True, slots=True)
class UserErasure:
    """An erasure that has begun, and how far it got."""

    user_id: str
    heir: str  # the user who gets the sessions; empty: they are erased
    mentions: Mentions
    sessions: tuple[str, ...]  # that the user owned when it began
    started_ms: int
    ended_ms: int  # 0 until its end


_COLUMNS = tuple(user_erasures.c[name] for name in UserErasure.__dataclass_fields__)


class UserErasures:
    """The steps of an erasure in the tables. Each can be repeated."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows

    async def find(self, user_id: str) -> UserErasure | None:
        statement = select(*_COLUMNS).where(user_erasures.c.user_id == user_id)
        row = await self._rows.fetch(lambda db: db.execute(statement).first())
        return None if row is None else _erasure(row)

    async def unfinished(self) -> list[UserErasure]:
        statement = select(*_COLUMNS).where(user_erasures.c.ended_ms == 0)
        return await self._rows.fetch(lambda db: [_erasure(row) for row in db.execute(statement)])

    async def begin(self, user_id: str, *, heir: str, mentions: Mentions) -> UserErasure:
        """Note the erasure and disable the user, so that nothing of theirs works from now on."""

        def begin(db: Connection) -> UserErasure:
            get_user(db, user_id)
            others = select(func.count()).where(
                users.c.role == "owner", users.c.disabled.is_(False), users.c.id != user_id
            )
            if not db.execute(others).scalar_one():
                raise BadRequest("This is the last owner, and there must be one. Make another user an owner.")
            owned = db.scalars(select(sessions.c.id).where(sessions.c.owner == user_id))
            values = {"heir": heir, "mentions": mentions}
            new = insert(user_erasures).values(
                user_id=user_id, sessions=" ".join(owned), started_ms=wall_ms(), ended_ms=0, **values
            )
            db.execute(new.on_conflict_do_update(index_elements=["user_id"], set_=values))
            db.execute(update(users).where(users.c.id == user_id).values(disabled=True, password_hash=""))
            _delete_credentials(db, user_id)
            row = db.execute(select(*_COLUMNS).where(user_erasures.c.user_id == user_id)).one()
            return _erasure(row)

        return await self._rows.change(begin)

    async def sessions_of(self, user_id: str) -> list[str]:
        """The ids of the sessions that a user owns."""
        statement = select(sessions.c.id).where(sessions.c.owner == user_id).order_by(sessions.c.id)
        return await self._rows.fetch(lambda db: list(db.scalars(statement)))

    async def hand_over(self, user_id: str, heir: str) -> None:
        """Give all sessions of a user to another one."""

        def hand_over(db: Connection) -> None:
            theirs = select(sessions.c.id).where(sessions.c.owner == user_id)
            db.execute(delete(shares).where(shares.c.user_id == heir, shares.c.session_id.in_(theirs)))
            db.execute(update(runs).where(runs.c.owner == user_id).values(owner=heir))
            db.execute(update(sessions).where(sessions.c.owner == user_id).values(owner=heir))

        await self._rows.change(hand_over)

    async def finish(self, user_id: str) -> None:
        """Delete the account and everything that belongs to it, and note the end."""

        def finish(db: Connection) -> None:
            _delete_credentials(db, user_id)
            name = db.scalar(select(users.c.name).where(users.c.id == user_id))
            erase_from_tasks(db, user_id, name or "")
            db.execute(update(links).where(links.c.used_by == name).values(used_by=user_id))
            for table in (shares, preferences, approval_rules, answered_requests, task_filters):
                db.execute(delete(table).where(table.c.user_id == user_id))
            db.execute(delete(users).where(users.c.id == user_id))
            here = user_erasures.c.user_id == user_id
            db.execute(update(user_erasures).where(here).values(ended_ms=wall_ms()))

        await self._rows.change(finish)


def _erasure(row: Any) -> UserErasure:
    user_id, heir, mentions, owned, started_ms, ended_ms = row
    return UserErasure(user_id, heir, mentions, tuple(owned.split()), started_ms, ended_ms)


def _delete_credentials(db: Connection, user_id: str) -> None:
    for table in (tokens, browser_sessions, links, identities):
        db.execute(delete(table).where(table.c.user_id == user_id))
    db.execute(delete(links).where(links.c.created_by == user_id, links.c.used_ms.is_(None)))
