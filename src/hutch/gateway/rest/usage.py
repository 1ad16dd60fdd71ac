"""Totals of tokens, cost, tool calls and time."""

import re
from datetime import date
from typing import Annotated

from fastapi import Query, Request, Response
from pydantic import BeforeValidator, Field

from hutch.flows import usage_report as flow
from hutch.gateway.auth.caller_dependency import Reader
from hutch.gateway.request_and_response_bodies import Limit, NumberCursor, Out, Page, fields_from, page
from hutch.gateway.rest.base_route import router, server_of
from hutch.store.usage_totals import UsageGroup, UsageTotal

routes = router("usage")


def _check_date(value: object) -> object:
    """Refuse numbers, which pydantic takes for seconds since 1970."""
    if isinstance(value, str) and not re.fullmatch(r"\d{4}-\d{2}-\d{2}", value):
        raise ValueError("Write the day as 2026-01-31.")
    return value


Day = Annotated[date, BeforeValidator(_check_date)]


@fields_from(UsageTotal)
class UsageOut(Out):
    """The usage of one user, model, persona, day or session."""

    key: str = Field(
        description="The id or name of the user, model, persona, day or session; empty if unknown."
    )
    turns: int = Field(description="Replies of models.")
    cost_usd: float = Field(description="The cost of the replies with a known price.")
    unpriced: int = Field(description="Replies with an unknown price, which `cost_usd` does not include.")
    duration_s: float = Field(
        description="The duration of ended runs, without the time they waited for people."
    )


class UsagePage(Page[UsageOut]):
    """Totals by key."""

    behind: int = Field(description="How many of the newest events are not in the totals yet.")


@routes.get("/usage", operation_id="get_usage", response_model=UsagePage)
async def listed(
    request: Request,
    caller: Reader,
    group: Annotated[UsageGroup, Query(description="The key of the totals.")] = "day",
    first: Annotated[Day | None, Query(alias="from", description="The first day, in UTC.")] = None,
    last: Annotated[Day | None, Query(alias="to", description="The last day, in UTC.")] = None,
    cursor: NumberCursor = "",
    limit: Limit = 50,
) -> Response:
    """Totals of usage. Owners see all sessions, other users their own."""
    offset = int(cursor or 0)
    found = await flow.page(
        server_of(request).services, caller, group, first=first, last=last, offset=offset, limit=limit + 1
    )
    more = str(offset + limit) if len(found.totals) > limit else None
    items = [UsageOut.of(each) for each in found.totals[:limit]]
    return page(request, items, more, behind=found.behind)
