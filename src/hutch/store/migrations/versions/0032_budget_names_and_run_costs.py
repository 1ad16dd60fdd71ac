"""Budgets name a repository by host and path, so that another spelling of its address does not evade one.

The analytics know the cost and the limit of each run.
"""

import sqlalchemy as sa
from alembic import op

from hutch.domain.canonical_repository_name import repository_name

revision = "0032"
down_revision = "0031"

_NAMES = ("month", "user_id", "repository", "cost_nano_usd")


def upgrade() -> None:
    for name in ("cost_nano_usd", "limit_nano_usd", "spent_ms"):
        op.add_column("analytics_runs", sa.Column(name, sa.BigInteger, nullable=False, server_default="0"))
    op.create_index("analytics_runs_by_time", "analytics_runs", ["spent_ms"])
    connection = op.get_bind()
    budgets = sa.table("budgets", sa.column("id"), sa.column("scope"), sa.column("target"))
    for id, target in connection.execute(
        sa.select(budgets.c.id, budgets.c.target).where(budgets.c.scope == "repository")
    ).all():
        named = sa.update(budgets).where(budgets.c.id == id).values(target=_name(target))
        connection.execute(named)
    spending = sa.table("budget_spending", *map(sa.column, _NAMES))
    sums: dict[tuple[str, str, str], int] = {}
    for month, user_id, repository, cost in connection.execute(sa.select(spending)).all():
        key = (month, user_id, _name(repository))
        sums[key] = sums.get(key, 0) + cost
    connection.execute(sa.delete(spending))
    for (month, user_id, repository), cost in sums.items():
        row = {"month": month, "user_id": user_id, "repository": repository, "cost_nano_usd": cost}
        connection.execute(sa.insert(spending).values(row))
    reserved = sa.table("budget_reservations", sa.column("id"), sa.column("repository"))
    for id, repository in connection.execute(sa.select(reserved)).all():
        here = sa.update(reserved).where(reserved.c.id == id)
        connection.execute(here.values(repository=_name(repository)))


def _name(repository: str) -> str:
    return repository_name(repository) if repository.strip() else ""
