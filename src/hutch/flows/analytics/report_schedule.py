"""Which daily and weekly reports are due. Pure functions."""

from datetime import UTC, datetime, timedelta

from hutch.system.lazy_dataclass import dataclass

DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
DEFAULT_TIME = "07:00"


@dataclass(frozen=True, slots=True)
class DueReport:
    """A report by its name, such as `daily-2026-01-31`, and the time that it covers."""

    name: str
    from_ms: int
    to_ms: int


def due_reports(daily_at: str | None, weekly_on: str | None, now_ms: int) -> list[DueReport]:
    """The newest report of each kind; older ones that were missed while the server was off are skipped."""
    now = datetime.fromtimestamp(now_ms / 1000, UTC)
    hour, minute = map(int, (daily_at or DEFAULT_TIME).split(":"))
    last = now.replace(hour=hour, minute=minute, second=0, microsecond=0)
    if last > now:
        last -= timedelta(days=1)
    found = []
    if daily_at:
        found.append(_report("daily", last, days=1))
    if weekly_on:
        back = (last.weekday() - DAYS.index(weekly_on)) % 7
        found.append(_report("weekly", last - timedelta(days=back), days=7))
    return found


def _report(kind: str, sent: datetime, *, days: int) -> DueReport:
    end = datetime(sent.year, sent.month, sent.day, tzinfo=UTC)
    begin = end - timedelta(days=days)
    last_day = (end - timedelta(days=1)).strftime("%Y-%m-%d")
    return DueReport(f"{kind}-{last_day}", int(begin.timestamp() * 1000), int(end.timestamp() * 1000))
