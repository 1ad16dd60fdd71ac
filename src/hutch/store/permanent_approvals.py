"""Permanent approvals of users, as rows: a tool and a pattern each."""

from collections.abc import Iterable, Sequence

from sqlalchemy import Connection, delete, insert, select

from hutch.domain.errors import LimitReached, NotFound
from hutch.store.schema import approval_rules
from hutch.store.table_access_interface import Rows

MAX_RULES = 1000  # per user
MAX_BYTES = 1 << 17

ApprovalRule = tuple[str, str]  # a tool, and a pattern for its argument


class ApprovalRules:
    """The approval rules of users, oldest first."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows

    async def list(self, user_id: str) -> list[ApprovalRule]:
        return await self._rows.fetch(lambda db: _of_user(db, user_id))

    async def add(self, user_id: str, rules: Iterable[ApprovalRule]) -> None:
        """Add rules; existing ones are not duplicated."""
        requested = tuple(rules)

        def add(db: Connection) -> None:
            existing = _of_user(db, user_id)
            new = [rule for rule in dict.fromkeys(requested) if rule not in existing]
            size = sum(len(part.encode(errors="replace")) for rule in (*existing, *new) for part in rule)
            if len(existing) + len(new) > MAX_RULES or size > MAX_BYTES:
                raise LimitReached(
                    "There are too many permanent approvals. Withdraw some: hutch approvals rm",
                    limit="approvals",
                )
            for tool, pattern in new:
                db.execute(insert(approval_rules).values(user_id=user_id, tool=tool, pattern=pattern))

        await self._rows.change(add)

    async def remove(self, user_id: str, rules: Sequence[ApprovalRule]) -> None:
        """Delete rules, all or none."""

        def remove(db: Connection) -> None:
            for tool, pattern in rules:
                here = (approval_rules.c.tool == tool, approval_rules.c.pattern == pattern)
                gone = db.execute(delete(approval_rules).where(approval_rules.c.user_id == user_id, *here))
                if gone.rowcount != 1:
                    text = f"{tool} {pattern}".rstrip()
                    raise NotFound(f"'{text}' is not allowed always. See: hutch approvals list")

        await self._rows.change(remove)


def _of_user(db: Connection, user_id: str) -> list[ApprovalRule]:
    statement = select(approval_rules.c.tool, approval_rules.c.pattern).where(
        approval_rules.c.user_id == user_id
    )
    return [(tool, pattern) for tool, pattern in db.execute(statement.order_by(approval_rules.c.position))]
