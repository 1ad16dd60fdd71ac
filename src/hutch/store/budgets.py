"""Budgets of a month, and what was spent of them, as rows.

A request to a model reserves its estimated cost in the transaction that checks the budgets, so concurrent
runs of all processes see each other. Then its cost replaces the estimate. A reservation that nobody settles,
after a crash, counts as spent.
"""

from collections.abc import Sequence
from typing import Literal

from sqlalchemy import Connection, delete, func, insert, select, update
from sqlalchemy.dialects.sqlite import insert as upsert

from hutch.domain.canonical_repository_name import repository_name
from hutch.domain.errors import NotFound
from hutch.domain.one_line_text import echo
from hutch.store.analytics_projection import DAY_MS
from hutch.store.analytics_tables import (
    alerts,
    analytics_counts,
    budget_reservations,
    budget_spending,
    budgets,
)
from hutch.store.table_access_interface import Rows
from hutch.system.lazy_dataclass import dataclass

BudgetScope = Literal["installation", "user", "repository"]
RESERVATION_TIMEOUT_MS = 30 * 60_000  # no reply of a model takes longer
WARNING_PERCENTS = (50, 80, 100)


@dataclass(frozen=True, slots=True)
class Budget:
    """The maximum cost of a month; `target` is a user's id or a repository."""

    id: str
    scope: BudgetScope
    target: str
    limit_nano_usd: int
    created_by: str
    created_ms: int

    def covers(self, user_id: str, repository: str) -> bool:
        match self.scope:
            case "installation":
                return True
            case "user":
                return self.target == user_id
            case "repository":
                return self.target == repository
        return False


@dataclass(frozen=True, slots=True)
class BudgetState:
    """A budget and what was spent of it."""

    budget: Budget
    spent_nano_usd: int
    reserved_nano_usd: int  # for requests under way

    @property
    def is_used_up(self) -> bool:
        return self.spent_nano_usd + self.reserved_nano_usd >= self.budget.limit_nano_usd

    @property
    def percent(self) -> int:
        return self.spent_nano_usd * 100 // max(1, self.budget.limit_nano_usd)


@dataclass(frozen=True, slots=True)
class Spender:
    """The user and the repository of a run, and the month of a request."""

    user_id: str
    repository: str
    month: str  # as 2026-01


def place_of(repository: str) -> str:
    """A repository as budgets name it, so that no other spelling evades one."""
    return repository_name(repository) if repository.strip() else ""


class Budgets:
    """Reads and changes budgets."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows

    async def are_set(self) -> bool:
        statement = select(budgets.c.id).limit(1)
        return await self._rows.fetch(lambda connection: connection.scalar(statement) is not None)

    async def states(self, month: str) -> list[BudgetState]:
        """All budgets, with what was spent in a month."""
        return await self._rows.fetch(
            lambda connection: [_state(connection, budget, month) for budget in _all(connection)]
        )

    async def add(self, new: Budget, month: str, month_ms: tuple[int, int]) -> None:
        """Add a budget. Costs that the analytics have counted this month are spent already."""

        def do(connection: Connection) -> None:
            if not _all(connection):  # until now, nothing was recorded
                _seed(connection, month, month_ms)
            values = {name: getattr(new, name) for name in Budget.__dataclass_fields__}
            connection.execute(insert(budgets).values(values))

        await self._rows.change(do)

    async def set_limit(self, id: str, limit_nano_usd: int) -> None:
        """Change a budget. Its levels are noted again, for the new limit."""
        changing = update(budgets).where(budgets.c.id == id).values(limit_nano_usd=limit_nano_usd)
        await self._rows.change(lambda connection: connection.execute(changing))

    async def remove(self, id: str) -> None:
        def do(connection: Connection) -> int:
            return connection.execute(delete(budgets).where(budgets.c.id == id)).rowcount

        if not await self._rows.change(do):
            raise NotFound(f"There is no budget {echo(id, 80)}. List them: hutch analytics budgets")

    async def reserve(self, id: str, spender: Spender, cost_nano_usd: int, now_ms: int) -> BudgetState | None:
        """Reserve the estimated cost of a request; or the budget that is used up, and nothing is reserved."""

        def do(connection: Connection) -> BudgetState | None:
            _settle_abandoned(connection, now_ms)
            for budget in _all(connection):
                if budget.covers(spender.user_id, spender.repository):
                    state = _state(connection, budget, spender.month)
                    if state.is_used_up:
                        return state
            row = {"id": id, **_fields(spender), "cost_nano_usd": cost_nano_usd}
            connection.execute(
                insert(budget_reservations).values(**row, until_ms=now_ms + RESERVATION_TIMEOUT_MS)
            )
            return None

        return await self._rows.change(do)

    async def settle(self, id: str, spender: Spender, cost_nano_usd: int, now_ms: int) -> None:
        """Replace a reservation by the cost, and note the levels that a budget has reached, each once."""

        def do(connection: Connection) -> None:
            gone = connection.execute(delete(budget_reservations).where(budget_reservations.c.id == id))
            if not gone.rowcount:
                return  # it was abandoned, and has counted already
            _spend(connection, spender, cost_nano_usd)
            for budget in _all(connection):
                if budget.covers(spender.user_id, spender.repository):
                    _note_levels(connection, _state(connection, budget, spender.month), spender, now_ms)

        await self._rows.change(do)


def _fields(spender: Spender) -> dict[str, str]:
    return {"month": spender.month, "user_id": spender.user_id, "repository": spender.repository}


def _all(connection: Connection) -> Sequence[Budget]:
    found = connection.execute(select(budgets).order_by(budgets.c.id)).mappings()
    return [Budget(**row) for row in found]


def _state(connection: Connection, budget: Budget, month: str) -> BudgetState:
    amounts = []
    for table in (budget_spending, budget_reservations):
        statement = select(func.coalesce(func.sum(table.c.cost_nano_usd), 0)).where(table.c.month == month)
        if budget.scope != "installation":
            column = table.c.user_id if budget.scope == "user" else table.c.repository
            statement = statement.where(column == budget.target)
        amounts.append(int(connection.scalar(statement) or 0))
    return BudgetState(budget, *amounts)


def _spend(connection: Connection, spender: Spender, cost_nano_usd: int) -> None:
    adding = upsert(budget_spending).values(**_fields(spender), cost_nano_usd=cost_nano_usd)
    total = budget_spending.c.cost_nano_usd + adding.excluded.cost_nano_usd
    keys = ["month", "user_id", "repository"]
    connection.execute(adding.on_conflict_do_update(index_elements=keys, set_={"cost_nano_usd": total}))


def _settle_abandoned(connection: Connection, now_ms: int) -> None:
    """Count the estimates of processes that ended before they could say what a request cost."""
    is_over = budget_reservations.c.until_ms < now_ms
    for row in connection.execute(select(budget_reservations).where(is_over)).all():
        _spend(connection, Spender(row.user_id, row.repository, row.month), row.cost_nano_usd)
    connection.execute(delete(budget_reservations).where(is_over))


def _seed(connection: Connection, month: str, month_ms: tuple[int, int]) -> None:
    table = analytics_counts
    statement = (
        select(table.c.user_id, table.c.repository, func.sum(table.c.cost_nano_usd).label("cost"))
        .where(table.c.step_ms == DAY_MS, table.c.at_ms.between(month_ms[0], month_ms[1] - 1))
        .group_by(table.c.user_id, table.c.repository)
    )
    found: dict[tuple[str, str], int] = {}
    for row in connection.execute(statement):
        key = (row.user_id, place_of(row.repository))
        found[key] = found.get(key, 0) + row.cost
    for (user_id, repository), cost in found.items():
        spender = Spender(user_id, repository, month)
        here = [budget_spending.c[name] == value for name, value in _fields(spender).items()]
        known = connection.scalar(select(budget_spending.c.cost_nano_usd).where(*here)) or 0
        _spend(connection, spender, max(0, cost - known))


def _note_levels(connection: Connection, state: BudgetState, spender: Spender, now_ms: int) -> None:
    budget = state.budget
    for percent in WARNING_PERCENTS:
        if state.percent < percent:
            return
        key = f"budget:{budget.id}:{budget.limit_nano_usd}:{spender.month}:{percent}"
        of = {"installation": "this installation"}.get(budget.scope, f"the {budget.scope} {budget.target}")
        text = (
            f"{percent} % of the budget of {of} for {spender.month} is spent: "
            f"${state.spent_nano_usd / 1e9:,.2f} of ${budget.limit_nano_usd / 1e9:,.2f}."
        )
        if percent == 100:
            text += " No further request to a model is made."
        user_id = budget.target if budget.scope == "user" else ""
        row = {"key": key, "kind": "budget", "text": text, "user_id": user_id, "session_id": ""}
        noted = upsert(alerts).values(**row, at_ms=now_ms)
        connection.execute(noted.on_conflict_do_nothing(index_elements=["key"]))
