"""The audit log: who did what from which address. Rows are only ever added."""

from sqlalchemy import func, insert, select

from hutch.store.schema import audit
from hutch.store.table_access_interface import Rows
from hutch.system.clock_without_jumps import wall_ms
from hutch.system.lazy_dataclass import dataclass

MAX_TEXT_CHARS = 200


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """One action that was done or attempted."""

    id: int
    at_ms: int
    user_id: str
    credential_id: str
    action: str
    object: str
    address: str
    ok: bool
    detail: str
    trace_id: str


_COLUMNS = tuple(audit.c[name] for name in AuditEntry.__dataclass_fields__)


class Audit:
    """The audit log. Only owners read it."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows

    async def add(
        self,
        action: str,
        *,
        user_id: str = "",
        credential_id: str = "",
        object: str = "",
        address: str = "",
        ok: bool = True,
        detail: str = "",
        trace_id: str = "",
    ) -> None:
        row = insert(audit).values(
            at_ms=wall_ms(),
            user_id=user_id,
            credential_id=credential_id,
            action=action,
            object=object[:MAX_TEXT_CHARS],
            address=address,
            ok=ok,
            detail=detail[:MAX_TEXT_CHARS],
            trace_id=trace_id,
        )
        await self._rows.change(lambda db: db.execute(row).rowcount)

    async def has(self, action: str) -> bool:
        """True if this action was ever recorded."""
        statement = select(audit.c.id).where(audit.c.action == action).limit(1)
        return await self._rows.fetch(lambda connection: connection.scalar(statement) is not None)

    async def newest(self, credential_id: str, *, after: int = 0) -> int:
        """The id of the newest action with a credential; `after` if there is no newer one."""
        here = (audit.c.id > after, audit.c.credential_id == credential_id)
        statement = select(func.max(audit.c.id)).where(*here)
        return await self._rows.fetch(lambda connection: connection.scalar(statement)) or after

    async def list(self, *, before: int | None = None, limit: int = 100) -> "list[AuditEntry]":
        """The newest first; `before` is the id of the last one seen."""
        statement = select(*_COLUMNS).order_by(audit.c.id.desc()).limit(limit)
        if before is not None:
            statement = statement.where(audit.c.id < before)
        return await self._rows.fetch(lambda db: [AuditEntry(*row) for row in db.execute(statement)])
