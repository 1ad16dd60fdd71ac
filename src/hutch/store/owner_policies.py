"""Policies that owners added while the server runs, as rows. Those of the settings are not here."""

import json
from typing import Any

from sqlalchemy import Connection, delete, insert, select

from hutch.domain.errors import Conflict, LimitReached, NotFound
from hutch.domain.one_line_text import echo
from hutch.store.schema import policies
from hutch.store.table_access_interface import Rows
from hutch.system.clock_without_jumps import wall_ms

MAX_POLICIES = 200


class StoredPolicies:
    """The fields of policies, by name."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows

    async def list(self) -> list[dict[str, Any]]:
        """All policies, the oldest first."""
        statement = select(policies.c.body).order_by(policies.c.created_ms, policies.c.name)
        return await self._rows.fetch(lambda db: [json.loads(body) for body in db.scalars(statement)])

    async def add(self, fields: dict[str, Any], *, created_by: str) -> None:
        """Add a policy under a new name."""
        name = str(fields["name"])

        def add(db: Connection) -> None:
            names = list(db.scalars(select(policies.c.name)))
            if name in names:
                raise Conflict(f"There is a policy {name!r} already. Remove it first: hutch policy rm {name}")
            if len(names) >= MAX_POLICIES:
                raise LimitReached(f"There are {MAX_POLICIES} policies. Remove some first.", limit="policies")
            row = {"name": name, "body": json.dumps(fields), "created_by": created_by}
            db.execute(insert(policies).values(**row, created_ms=wall_ms()))

        await self._rows.change(add)

    async def remove(self, name: str) -> None:
        statement = delete(policies).where(policies.c.name == name)
        if await self._rows.change(lambda db: db.execute(statement).rowcount) != 1:
            raise NotFound(f"There is no policy {echo(name, 80)} that can be removed here.")
