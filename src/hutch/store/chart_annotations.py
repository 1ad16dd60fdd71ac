"""Annotations of charts: releases, changed settings, and notes of users, as rows."""

from typing import Literal

from sqlalchemy import Connection, delete, insert, select

from hutch.store.analytics_tables import annotations
from hutch.store.table_access_interface import Rows
from hutch.system.lazy_dataclass import dataclass

AnnotationKind = Literal["release", "settings", "note"]
MAX_ANNOTATIONS = 200


@dataclass(frozen=True, slots=True)
class Annotation:
    """A moment that a chart marks."""

    id: str
    at_ms: int
    kind: AnnotationKind
    text: str
    by: str  # a user's id; empty: Hutch


class Annotations:
    """Reads and writes annotations."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows

    async def add(self, new: Annotation) -> None:
        values = {name: getattr(new, name) for name in Annotation.__dataclass_fields__}
        await self._rows.change(lambda connection: connection.execute(insert(annotations).values(values)))

    async def between(self, from_ms: int, to_ms: int) -> list[Annotation]:
        """The newest annotations of a time, oldest first."""
        statement = (
            select(annotations)
            .where(annotations.c.at_ms.between(from_ms, to_ms - 1))
            .order_by(annotations.c.at_ms.desc())
            .limit(MAX_ANNOTATIONS)
        )
        found = await self._rows.fetch(lambda connection: connection.execute(statement).mappings().all())
        return [Annotation(**row) for row in reversed(found)]

    async def newest(self, kind: AnnotationKind) -> Annotation | None:
        newest = annotations.c.at_ms.desc()
        statement = select(annotations).where(annotations.c.kind == kind).order_by(newest).limit(1)
        row = await self._rows.fetch(lambda connection: connection.execute(statement).mappings().first())
        return Annotation(**row) if row else None

    async def remove(self, id: str) -> bool:
        """True if there was one."""

        def do(connection: Connection) -> bool:
            return bool(connection.execute(delete(annotations).where(annotations.c.id == id)).rowcount)

        return await self._rows.change(do)
