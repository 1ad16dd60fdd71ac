"""A model whose requests are checked against the budgets of the month.

Every request of a run passes here: replies, summaries and reviews. A request that a budget does not allow is
not made. One that is under way, and the tool calls of its reply, are never interrupted.
"""

import math
import secrets
from collections.abc import AsyncGenerator
from contextlib import aclosing
from datetime import UTC, datetime

from hutch.domain.dollar_amount_formatting import dollars
from hutch.domain.errors import BudgetReached
from hutch.llm.interface import Delta, Finish, Model, Request, Usage
from hutch.llm.reply_cost import Prices, cost_usd, unpriced
from hutch.store.budgets import Budgets, BudgetState, Spender, place_of
from hutch.store.table_access_interface import Rows
from hutch.system.clock_without_jumps import wall_ms
from hutch.system.uncancellable_work import run_to_end

CHARS_PER_TOKEN = 4
EXPECTED_REPLY_TOKENS = 1_000
NANO = 1_000_000_000


class BudgetedModel:
    """Reserves the estimated cost of each request, and replaces it by the real one."""

    def __init__(self, model: Model, rows: Rows, user_id: str, repository: str, prices: Prices) -> None:
        self.name, self.context_tokens = model.name, model.context_tokens
        self._model, self._budgets, self._prices = model, Budgets(rows), prices
        self._user_id, self._repository = user_id, place_of(repository)

    async def stream(self, request: Request) -> AsyncGenerator[Delta]:
        """The reply. Refuses the request if a budget is used up."""
        if not await self._budgets.are_set():
            async with aclosing(self._model.stream(request)) as deltas:
                async for delta in deltas:
                    yield delta
            return
        id, spender, estimate = await self._reserve(request)
        usage, is_begun, is_whole = Usage(), False, False
        try:
            async with aclosing(self._model.stream(request)) as deltas:
                async for delta in deltas:
                    is_begun = True
                    if isinstance(delta, Usage):
                        usage += delta
                    is_whole = is_whole or isinstance(delta, Finish)
                    yield delta
        finally:
            known = self._cost(usage)
            # A reply that was broken off may cost what it would have: its usage is not known.
            cost = known if is_whole else max(known, estimate) if is_begun else 0
            await run_to_end(self._budgets.settle(id, spender, cost, wall_ms()))

    async def close(self) -> None:
        await self._model.close()

    async def _reserve(self, request: Request) -> tuple[str, Spender, int]:
        tokens = Usage(input=_size_of(request) // CHARS_PER_TOKEN, output=EXPECTED_REPLY_TOKENS)
        price = cost_usd(self.name, tokens, self._prices)
        now_ms = wall_ms()
        spender = Spender(self._user_id, self._repository, month_name(now_ms))
        if price is None:
            states = await self._budgets.states(spender.month)
            if any(each.budget.covers(spender.user_id, spender.repository) for each in states):
                raise BudgetReached(f"There is a budget. {unpriced(self.name)}")
        estimate, id = _nano(price or 0.0), secrets.token_hex(16)
        used_up = await self._budgets.reserve(id, spender, estimate, now_ms)
        if used_up is not None:
            raise BudgetReached(_sentence(used_up, spender.month))
        return id, spender, estimate

    def _cost(self, usage: Usage) -> int:
        return _nano(cost_usd(self.name, usage, self._prices) or 0.0)


def month_name(at_ms: int) -> str:
    """The month of a moment in UTC, as 2026-01."""
    return datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%Y-%m")


def _sentence(state: BudgetState, month: str) -> str:
    """Names no amounts of others: the user of a run may not see what the installation spends."""
    if state.budget.scope == "installation":
        whose = "The budget of this installation"
        return f"{whose} for {month} is used up. An owner can raise it: hutch analytics set-budget"
    spent, limit = dollars(state.spent_nano_usd / NANO), dollars(state.budget.limit_nano_usd / NANO)
    whose = "Your budget" if state.budget.scope == "user" else f"The budget of {state.budget.target}"
    return f"{whose} for {month} is used up: {spent} of {limit}. An owner can raise it."


def _size_of(request: Request) -> int:
    texts = (getattr(message, "text", "") for message in request.messages)
    return len(request.system) + sum(map(len, texts))


def _nano(dollars_: float) -> int:
    return max(0, min(2**53, round(dollars_ * NANO))) if math.isfinite(dollars_) else 0
