"""Budgets of a month, and alerts."""

from collections.abc import Sequence

from fastapi import Request, Response
from pydantic import Field

from hutch.domain.user import Caller
from hutch.flows.analytics import budget_requests as flow
from hutch.flows.analytics.budgeted_model import NANO
from hutch.gateway.auth.caller_dependency import Admin, Reader
from hutch.gateway.idempotency import ByKey
from hutch.gateway.request_and_response_bodies import In, Limit, Out, answer, fields_from
from hutch.gateway.rest.base_route import router, server_of
from hutch.store.alerts_and_report_deliveries import Alert
from hutch.store.budgets import BudgetScope, BudgetState

routes = router("analytics")


class BudgetOut(Out):
    """A budget of each month, and what was spent of it this month."""

    id: str
    scope: BudgetScope
    target: str = Field(description="A user's id, or a repository; empty for the installation.")
    name: str = Field(description="The user's name, or the repository; empty for the installation.")
    limit_usd: float
    spent_usd: float
    reserved_usd: float = Field(description="The estimated cost of requests under way.")
    percent: int


class NewBudget(In):
    """The maximum cost of a month."""

    scope: BudgetScope
    target: str = Field("", max_length=500, description="A user's name or id, or a repository.")
    limit_usd: float


@fields_from(Alert)
class AlertOut(Out):
    """A condition that needs attention: a budget, no progress, errors, a provider, an unknown price."""


@routes.get("/analytics/budgets", operation_id="list_budgets", response_model=Sequence[BudgetOut])
async def budgets(request: Request, caller: Reader) -> Response:
    """Budgets: all for owners, their own for other users."""
    return answer(await _list(request, caller))


@routes.post("/analytics/budgets", status_code=201, operation_id="add_budget", response_model=BudgetOut)
async def add(request: Request, caller: Admin, keyed: ByKey, body: NewBudget) -> Response:
    """Limit the cost of each month, or change the limit.

    When it is spent, no model is called for what it covers.
    """
    rows = server_of(request).rows
    made = await flow.set_budget(rows, caller, body.scope, body.target, body.limit_usd)
    (found,) = [each for each in await _list(request, caller) if each["id"] == made.id]
    return answer(found, 201)


@routes.delete("/analytics/budgets/{budget}", status_code=204, operation_id="remove_budget")
async def remove(request: Request, caller: Admin, budget: str) -> Response:
    """Remove a budget."""
    await flow.remove_budget(server_of(request).rows, caller, budget)
    return Response(status_code=204)


@routes.get("/analytics/alerts", operation_id="list_alerts", response_model=Sequence[AlertOut])
async def alerts(request: Request, caller: Reader, limit: Limit = 50) -> Response:
    """The newest alerts first: all for owners, those of their own sessions for other users."""
    return answer(await flow.list_alerts(server_of(request).rows, caller, limit=limit))


async def _list(request: Request, caller: Caller) -> list[dict[str, object]]:
    rows = server_of(request).rows
    found = await flow.list_budgets(rows, caller)
    names = await flow.names_of_targets(rows, found)
    return [_out(each, names[each.budget.target]) for each in found]


def _out(state: BudgetState, name: str) -> dict[str, object]:
    budget = state.budget
    return {
        "id": budget.id,
        "scope": budget.scope,
        "target": budget.target,
        "name": name,
        "limit_usd": budget.limit_nano_usd / NANO,
        "spent_usd": state.spent_nano_usd / NANO,
        "reserved_usd": state.reserved_nano_usd / NANO,
        "percent": state.percent,
    }
