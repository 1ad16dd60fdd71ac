"""The expected cost of a month."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

from hutch.system.lazy_dataclass import dataclass

DAY_MS = 86_400_000
BASE_DAYS = 28


@dataclass(frozen=True, slots=True)
class Forecast:
    """The cost of this month so far, and at its end if the daily mean of the last 28 days continues."""

    month: str
    spent_usd: float
    daily_mean_usd: float
    expected_usd: float
    base_days: int  # days with data, at most 28: few make it uncertain


def month_of(at_ms: int) -> tuple[int, int]:
    """The first millisecond of a month in UTC, and of the next."""
    at = datetime.fromtimestamp(at_ms / 1000, UTC)
    first = datetime(at.year, at.month, 1, tzinfo=UTC)
    following = (first + timedelta(days=32)).replace(day=1)
    return int(first.timestamp() * 1000), int(following.timestamp() * 1000)


def forecast_month(cost_of_days: Mapping[int, float], now_ms: int) -> Forecast:
    """Extrapolate; `cost_of_days` has the cost of each day by its first millisecond."""
    begin_ms, end_ms = month_of(now_ms)
    today_ms = now_ms - now_ms % DAY_MS
    spent = sum(cost for at_ms, cost in cost_of_days.items() if begin_ms <= at_ms < end_ms)
    base_ms = today_ms - BASE_DAYS * DAY_MS
    past = {at_ms: cost for at_ms, cost in cost_of_days.items() if base_ms <= at_ms < today_ms}
    days = (today_ms - min(past)) // DAY_MS if past else 0
    # On the first day, the rest of it is expected to cost as much per hour.
    mean = sum(past.values()) / days if days else spent * DAY_MS / max(1, now_ms - today_ms)
    rest_days = (end_ms - max(now_ms, begin_ms)) / DAY_MS
    month = datetime.fromtimestamp(begin_ms / 1000, UTC).strftime("%Y-%m")
    return Forecast(month, spent, mean, spent + mean * rest_days, days)
