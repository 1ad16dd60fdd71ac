"""Rows of many sessions, with one query per kind instead of one per session."""

from collections.abc import Collection, Sequence
from typing import Any

from sqlalchemy import ColumnElement, RowMapping, Select, Table, func, or_, select

from hutch.domain.proposed_change import Change
from hutch.domain.session import QueuedRun, Session
from hutch.domain.user import User
from hutch.store.event_log_interface import Head
from hutch.store.log_reader import to_head
from hutch.store.run_queue import read_run
from hutch.store.schema import changes, logs, runs, sessions, shares, users
from hutch.store.sessions import read_session
from hutch.store.shares import IS_VALID, Share, read_share, shared_with
from hutch.store.table_access_interface import Rows

Ids = Collection[str]


class BulkQueries:
    """Rows of many sessions or users."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows

    async def newest_runs(self, session_ids: Ids, each: int) -> dict[str, list[QueuedRun]]:
        """The newest few runs of each session, without preparation runs."""
        found: dict[str, list[QueuedRun]] = {}
        for row in await self._all(_newest(runs, session_ids, each, runs.c.kind == "prompt")):
            found.setdefault(row["session_id"], []).append(read_run(_without_place(row)))
        return found

    async def newest_changes(self, session_ids: Ids, each: int) -> dict[str, list[Change]]:
        """The newest few changes of each session."""
        found: dict[str, list[Change]] = {}
        for row in await self._all(_newest(changes, session_ids, each)):
            found.setdefault(row["session_id"], []).append(Change(**_without_place(row)))
        return found

    async def shares(self, session_ids: Ids) -> dict[str, list[Share]]:
        """The shares of each session."""
        found: dict[str, list[Share]] = {}
        here = (shares.c.session_id.in_(session_ids), IS_VALID)
        for row in await self._all(select(shares).where(*here).order_by(shares.c.created_ms)):
            found.setdefault(row["session_id"], []).append(read_share(row))
        return found

    async def users(self, user_ids: Ids) -> dict[str, User]:
        """Users by id; unknown ids are omitted."""
        columns = (users.c.id, users.c.name, users.c.role, users.c.created_ms, users.c.disabled)
        found = await self._all(select(*columns).where(users.c.id.in_(user_ids)))
        return {row["id"]: User(**{**row, "disabled": bool(row["disabled"])}) for row in found}

    async def changed_sessions(self, since_ms: int, limit: int) -> list[Session]:
        """Sessions that changed since a time, oldest change first."""
        statement = select(sessions).where(sessions.c.updated_ms >= since_ms).order_by(sessions.c.updated_ms)
        return [read_session(row) for row in await self._all(statement.limit(limit))]

    async def heads(self, session_ids: Ids) -> dict[str, Head]:
        """The heads of several logs; sessions without a log are omitted."""
        statement = select(logs).where(logs.c.session_id.in_(session_ids))
        return await self._rows.fetch(
            lambda connection: {row.session_id: to_head(row) for row in connection.execute(statement)}
        )

    async def visible_to(self, user_id: str | None, session_ids: Ids) -> set[str]:
        """Those of these sessions that exist and that a user owns or shares; with None, all that exist."""
        statement = select(sessions.c.id).where(sessions.c.id.in_(session_ids))
        if user_id is not None:
            shared = shared_with(user_id)
            statement = statement.where(or_(sessions.c.owner == user_id, sessions.c.id.in_(shared)))
        return {row["id"] for row in await self._all(statement)}

    async def _all(self, statement: Select[Any]) -> Sequence[RowMapping]:
        return await self._rows.fetch(lambda connection: connection.execute(statement).mappings().all())


def _newest(table: Table, session_ids: Ids, each: int, *also: ColumnElement[bool]) -> Select[Any]:
    place = func.row_number().over(partition_by=table.c.session_id, order_by=table.c.id.desc()).label("place")
    ranked = select(table, place).where(table.c.session_id.in_(session_ids), *also).subquery()
    return select(ranked).where(ranked.c.place <= each).order_by(ranked.c.id.desc())


def _without_place(row: Any) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name != "place"}
