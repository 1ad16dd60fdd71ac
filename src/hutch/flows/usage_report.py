"""Usage by user, model and day. Owners see all, other users that of their own sessions."""

from collections.abc import Sequence
from datetime import date

from hutch.domain.errors import BadRequest
from hutch.domain.user import Caller
from hutch.flows.flow_services import Services
from hutch.store.usage_totals import Usage, UsageGroup, UsageTotal
from hutch.system.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class UsagePage:
    """A page of totals, and the number of events that are not counted yet."""

    totals: Sequence[UsageTotal]
    behind: int


async def page(
    services: Services,
    who: Caller,
    group: UsageGroup,
    *,
    first: date | None = None,
    last: date | None = None,
    offset: int = 0,
    limit: int = 50,
) -> UsagePage:
    """Totals by the group's key, of days from `first` to `last`, both included."""
    who.need("read")
    if first and last and first > last:
        raise BadRequest(f"The first day, {first}, is after the last, {last}. Swap them.")
    rows = Usage(services.rows)
    totals = await rows.page(
        group,
        user_id=None if who.is_owner else who.user.id,
        first_day=first.isoformat() if first else "",
        last_day=last.isoformat() if last else "",
        offset=offset,
        limit=limit,
    )
    return UsagePage(totals, await rows.count_unprocessed())
