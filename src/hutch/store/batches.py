"""What belongs to many sessions at once: one query for each kind, however many they are."""

from collections.abc import Collection
from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, Table, func, or_, select

from hutch.domain.change import Change
from hutch.domain.session import QueuedRun, Session
from hutch.domain.user import User
from hutch.store.runs import read_run
from hutch.store.schema import changes, runs, sessions, shares, users
from hutch.store.sessions import read_session
from hutch.store.shares import Share

Ids = Collection[str]


def newest_runs(connection: Connection, session_ids: Ids, each: int) -> dict[str, list[QueuedRun]]:
    """The newest few runs of each session; those that only make one ready are left out."""
    found: dict[str, list[QueuedRun]] = {}
    for row in connection.execute(_newest(runs, session_ids, each, runs.c.kind == "prompt")).mappings():
        found.setdefault(row["session_id"], []).append(read_run(_without_place(row)))
    return found


def newest_changes(connection: Connection, session_ids: Ids, each: int) -> dict[str, list[Change]]:
    """The newest few changes of each session."""
    found: dict[str, list[Change]] = {}
    for row in connection.execute(_newest(changes, session_ids, each)).mappings():
        found.setdefault(row["session_id"], []).append(Change(**_without_place(row)))
    return found


def shares_of(connection: Connection, session_ids: Ids) -> dict[str, list[Share]]:
    """With whom each session is shared."""
    found: dict[str, list[Share]] = {}
    wanted = select(shares).where(shares.c.session_id.in_(session_ids)).order_by(shares.c.created_ms)
    for row in connection.execute(wanted).mappings():
        found.setdefault(row["session_id"], []).append(Share(**row))
    return found


def users_of(connection: Connection, user_ids: Ids) -> dict[str, User]:
    """Users by their ids; who is not there is not in the answer."""
    columns = (users.c.id, users.c.name, users.c.role, users.c.created_ms, users.c.disabled)
    wanted = select(*columns).where(users.c.id.in_(user_ids))
    return {
        row.id: User(row.id, row.name, row.role, row.created_ms, bool(row.disabled))
        for row in connection.execute(wanted)
    }


def changed_sessions(connection: Connection, since_ms: int, most: int) -> list[Session]:
    """Sessions that are otherwise than they were, the longest ago first."""
    wanted = select(sessions).where(sessions.c.updated_ms >= since_ms).order_by(sessions.c.updated_ms)
    return [read_session(row) for row in connection.execute(wanted.limit(most)).mappings()]


def seen_by(connection: Connection, user_id: str | None, session_ids: Ids) -> set[str]:
    """Those of these sessions that there are and that a user owns or was let into; all of them with None."""
    wanted = select(sessions.c.id).where(sessions.c.id.in_(session_ids))
    if user_id is not None:
        shared = select(shares.c.session_id).where(shares.c.user_id == user_id)
        wanted = wanted.where(or_(sessions.c.owner == user_id, sessions.c.id.in_(shared)))
    return set(connection.scalars(wanted))


def _newest(table: Table, session_ids: Ids, each: int, *also: ColumnElement[bool]) -> Select[Any]:
    place = func.row_number().over(partition_by=table.c.session_id, order_by=table.c.id.desc()).label("place")
    ranked = select(table, place).where(table.c.session_id.in_(session_ids), *also).subquery()
    return select(ranked).where(ranked.c.place <= each).order_by(ranked.c.id.desc())


def _without_place(row: Any) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name != "place"}
