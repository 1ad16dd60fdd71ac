"""The task filters that users have saved, as rows."""

import json

from sqlalchemy import Connection, delete, func, insert, select

from hutch.domain.errors import LimitReached
from hutch.store.table_access_interface import Rows
from hutch.store.task_tables import task_filters
from hutch.system.clock_without_jumps import wall_ms

MAX_FILTERS = 100  # of one user


class TaskFilters:
    """The saved filters of one user, by name."""

    def __init__(self, rows: Rows, user_id: str) -> None:
        self._rows, self._user_id = rows, user_id

    async def list(self) -> dict[str, dict[str, object]]:
        here = task_filters.c.user_id == self._user_id
        statement = (
            select(task_filters.c.name, task_filters.c.query).where(here).order_by(task_filters.c.name)
        )
        return await self._rows.fetch(
            lambda db: {row.name: json.loads(row.query) for row in db.execute(statement)}
        )

    async def set(self, name: str, query: dict[str, object]) -> None:
        here = (task_filters.c.user_id == self._user_id, task_filters.c.name == name)

        def change(db: Connection) -> None:
            db.execute(delete(task_filters).where(*here))
            count = select(func.count()).where(task_filters.c.user_id == self._user_id)
            if db.execute(count).scalar_one() >= MAX_FILTERS:
                raise LimitReached(
                    f"You have {MAX_FILTERS} saved filters already. Delete one.", limit="task_filters"
                )
            row = {"user_id": self._user_id, "name": name, "query": json.dumps(query)}
            db.execute(insert(task_filters).values(**row, updated_ms=wall_ms()))

        await self._rows.change(change)

    async def delete(self, name: str) -> bool:
        """Delete a filter; False if there is none of this name."""
        here = (task_filters.c.user_id == self._user_id, task_filters.c.name == name)
        statement = delete(task_filters).where(*here)
        return await self._rows.change(lambda db: db.execute(statement).rowcount > 0)
