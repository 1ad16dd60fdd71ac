"""What users have allowed always, as rows: a tool and a pattern each."""

from collections.abc import Iterable, Sequence

from sqlalchemy import Connection, delete, insert, select

from hutch.domain.errors import LimitReached, NotFound
from hutch.store.rows import Rows
from hutch.store.schema import kept_rules

MAX_RULES = 1000  # of a user
MAX_BYTES = 1 << 17

KeptRule = tuple[str, str]  # a tool, and a pattern for what it is used on


class KeptRules:
    """The rules of users that allow, in the order in which they were given."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows

    async def list(self, user_id: str) -> list[KeptRule]:
        return await self._rows.fetch(lambda db: _of_user(db, user_id))

    async def add(self, user_id: str, rules: Iterable[KeptRule]) -> None:
        """Add rules; those that are there already stay once."""
        wanted = tuple(rules)

        def add(db: Connection) -> None:
            kept = _of_user(db, user_id)
            new = [rule for rule in dict.fromkeys(wanted) if rule not in kept]
            size = sum(len(part.encode(errors="replace")) for rule in (*kept, *new) for part in rule)
            if len(kept) + len(new) > MAX_RULES or size > MAX_BYTES:
                raise LimitReached(
                    "So much is allowed always that nothing more is kept. Withdraw some: hutch approvals rm",
                    limit="approvals",
                )
            for tool, pattern in new:
                db.execute(insert(kept_rules).values(user_id=user_id, tool=tool, pattern=pattern))

        await self._rows.change(add)

    async def remove(self, user_id: str, rules: Sequence[KeptRule]) -> None:
        """Take rules away, all or none of them."""

        def remove(db: Connection) -> None:
            for tool, pattern in rules:
                here = (kept_rules.c.tool == tool, kept_rules.c.pattern == pattern)
                gone = db.execute(delete(kept_rules).where(kept_rules.c.user_id == user_id, *here))
                if gone.rowcount != 1:
                    said = f"{tool} {pattern}".rstrip()
                    raise NotFound(f"'{said}' is not allowed always. See: hutch approvals list")

        await self._rows.change(remove)


def _of_user(db: Connection, user_id: str) -> list[KeptRule]:
    wanted = select(kept_rules.c.tool, kept_rules.c.pattern).where(kept_rules.c.user_id == user_id)
    return [(tool, pattern) for tool, pattern in db.execute(wanted.order_by(kept_rules.c.position))]
