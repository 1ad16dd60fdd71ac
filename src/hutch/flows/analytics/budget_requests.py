"""Budgets and alerts for callers. Owners set budgets; a user sees their own."""

from collections.abc import Sequence
from dataclasses import replace

from hutch.domain.errors import BadRequest
from hutch.domain.ids import new_budget_id
from hutch.domain.user import Caller
from hutch.flows.analytics.budgeted_model import NANO, month_name
from hutch.flows.analytics.spend_forecast import month_of
from hutch.store.alerts_and_report_deliveries import Alert, Alerts
from hutch.store.budgets import Budget, Budgets, BudgetScope, BudgetState, place_of
from hutch.store.table_access_interface import Rows
from hutch.store.users import Users
from hutch.system.clock_without_jumps import wall_ms

MAX_BUDGETS = 500
MAX_USD = 1_000_000.0


async def list_budgets(rows: Rows, who: Caller) -> list[BudgetState]:
    """All budgets for owners; the caller's own for others."""
    who.need("read")
    found = await Budgets(rows).states(month_name(wall_ms()))
    own = [each for each in found if each.budget.scope == "user" and each.budget.target == who.user.id]
    return found if who.is_owner else own


async def names_of_targets(rows: Rows, states: Sequence[BudgetState]) -> dict[str, str]:
    """The name of each user or repository that has a budget, by target."""
    names = {each.budget.target: each.budget.target for each in states}
    if any(each.budget.scope == "user" for each in states):
        names.update({str(user.id): user.name for user in await Users(rows).list() if user.id in names})
    return names


async def set_budget(rows: Rows, who: Caller, scope: BudgetScope, target: str, limit_usd: float) -> Budget:
    """Limit the cost of each month, or change the limit that there is."""
    who.need("admin")
    if not 0 < limit_usd <= MAX_USD:
        raise BadRequest(f"A budget must be more than $0 and at most ${MAX_USD:,.0f}.")
    if (scope == "installation") != (not target.strip()):
        raise BadRequest(
            "A budget of a user or a repository has a target; that of the installation has none."
        )
    if scope == "user":
        target = (await Users(rows).find(target)).id
    elif scope == "repository":
        target = place_of(target)
    budgets, now_ms = Budgets(rows), wall_ms()
    known = await budgets.states(month_name(now_ms))
    limit = max(1, round(limit_usd * NANO))
    for state in known:
        if (state.budget.scope, state.budget.target) == (scope, target):
            await budgets.set_limit(state.budget.id, limit)
            return replace(state.budget, limit_nano_usd=limit)
    if len(known) >= MAX_BUDGETS:
        raise BadRequest(f"There are {MAX_BUDGETS} budgets already. Remove some.")
    new = Budget(new_budget_id(), scope, target, limit, str(who.user.id), now_ms)
    await budgets.add(new, month_name(now_ms), month_of(now_ms))
    return new


async def remove_budget(rows: Rows, who: Caller, id: str) -> None:
    who.need("admin")
    await Budgets(rows).remove(id)


async def list_alerts(rows: Rows, who: Caller, *, limit: int = 50) -> list[Alert]:
    """The newest alerts: all for owners, those of their own sessions for others."""
    who.need("read")
    return await Alerts(rows).newest(viewer=None if who.is_owner else str(who.user.id), limit=limit)
