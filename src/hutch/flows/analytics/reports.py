"""Reports: outcomes, spend, reliability and latency. One response has a chart and the table behind it.

Owners see everything; other users see their own sessions and those shared with them. No report counts lines
of code.
"""

from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from datetime import UTC, datetime
from typing import Literal, get_args

from hutch.domain.errors import BadRequest
from hutch.domain.one_line_text import echo
from hutch.domain.user import Caller
from hutch.flows.analytics.newest_visible_events import named_user
from hutch.flows.analytics.report_columns import LATENCY, OUTCOMES, RELIABILITY, SPEND, Column, Counted, Value
from hutch.flows.analytics.spend_forecast import Forecast, forecast_month, month_of
from hutch.store.analytics_from_events import MINUTE_MS, NANO, place_name
from hutch.store.analytics_projection import DAY_MS, HOUR_MS
from hutch.store.analytics_queries import Analytics, AnalyticsGroup, Row, Window
from hutch.store.chart_annotations import Annotation, Annotations
from hutch.store.table_access_interface import Rows
from hutch.system.clock_without_jumps import wall_ms
from hutch.system.lazy_dataclass import dataclass

ReportName = Literal["outcomes", "spend", "reliability", "latency"]
Step = Literal["minute", "hour", "day"]
STEP_MS: Mapping[Step, int] = {"minute": MINUTE_MS, "hour": HOUR_MS, "day": DAY_MS}
MAX_TIMES = 1_500
MAX_SERIES = 12  # keys with a line of their own; the table has all
DEFAULT_STEPS: Mapping[Step, int] = {"minute": 120, "hour": 72, "day": 30}
_COLUMNS = {"outcomes": OUTCOMES, "spend": SPEND, "reliability": RELIABILITY, "latency": LATENCY}


@dataclass(frozen=True, slots=True)
class ReportRequest:
    """The report that a user asks for. Times are in milliseconds; 0 means the default."""

    name: ReportName
    group: AnalyticsGroup = "all"
    step: Step = "day"
    from_ms: int = 0
    to_ms: int = 0
    repository: str = ""
    user: str = ""
    model: str = ""
    persona: str = ""


@dataclass(frozen=True, slots=True)
class ReportRow:
    """One row of the table."""

    key: str
    label: str
    values: Mapping[str, Value]


@dataclass(frozen=True, slots=True)
class Series:
    """The lines of one key in the chart: for each column one value per time."""

    key: str
    label: str
    values: Mapping[str, Sequence[Value]]


@dataclass(frozen=True, slots=True)
class Report:
    """A chart and the table behind it."""

    name: ReportName
    group: AnalyticsGroup
    step: Step
    from_ms: int
    to_ms: int
    columns: Sequence[Column]
    rows: Sequence[ReportRow]
    total: Mapping[str, Value]
    times_ms: Sequence[int]
    series: Sequence[Series]
    annotations: Sequence[Annotation]
    behind: int
    forecast: Forecast | None = None
    funnel: Mapping[str, int] = field(default_factory=dict)


async def make_report(rows: Rows, who: Caller, asked: ReportRequest) -> Report:
    """The report, as this user may see it."""
    who.need("read")
    asked = replace(asked, user=await named_user(rows, who, asked.user))
    return await report_for(rows, None if who.is_owner else str(who.user.id), asked)


async def report_for(rows: Rows, viewer: str | None, asked: ReportRequest) -> Report:
    """The report for a user by id, or for the installation itself."""
    window = _window(viewer, asked)
    analytics, columns = Analytics(rows), _COLUMNS[asked.name]
    whole, timed, total_timed = await _read(analytics, window, asked)
    labels = await _labels(analytics, asked, [row.key for row in whole])
    times = list(range(window.from_ms, window.to_ms, window.step_ms))
    keys = [row.key for row in whole[:MAX_SERIES]]
    series = _series(timed, keys, times, columns, labels) if timed else []
    shown = [ReportRow(row.key, labels.get(row.key, row.key), _values(columns, row.counts)) for row in whole]
    summed = _sum(total_timed or whole)  # the rows may be cut off, or leave out sessions without a task
    return Report(
        *(asked.name, asked.group, asked.step, window.from_ms, window.to_ms, columns),
        rows=[row for row in shown if any(row.values.values())],
        total=_values(columns, summed) if summed else {},
        times_ms=times,
        series=[*_series(total_timed, [""], times, columns, {"": "All"}), *series],
        annotations=await Annotations(rows).between(window.from_ms, window.to_ms),
        behind=await analytics.count_unprocessed(),
        forecast=await _forecast(analytics, window) if asked.name == "spend" else None,
        funnel=await analytics.funnel(window) if asked.name == "outcomes" else {},
    )


def _window(viewer: str | None, asked: ReportRequest) -> Window:
    step_ms = STEP_MS[asked.step]
    to_ms = asked.to_ms or wall_ms()
    to_ms += -to_ms % step_ms
    from_ms = asked.from_ms or to_ms - DEFAULT_STEPS[asked.step] * step_ms
    from_ms -= from_ms % step_ms
    if from_ms >= to_ms:
        raise BadRequest("The report ends before it begins. Swap `since` and `until`.")
    if (to_ms - from_ms) // step_ms > MAX_TIMES:
        most = f"{MAX_TIMES} {asked.step}s"
        raise BadRequest(f"A report has at most {most}. Ask for a longer step, or for less time.")
    named = (place_name(asked.repository), asked.user, asked.model, asked.persona)
    return Window(step_ms, from_ms, to_ms, viewer, *named)


async def _read(
    analytics: Analytics, window: Window, asked: ReportRequest
) -> tuple[list[Row], list[Row], list[Row]]:
    """The rows of the table, those by key and time, and those by time alone."""
    if asked.name == "latency":
        if asked.group != "all" or window.model or window.persona:
            raise BadRequest("The latency report is by kind and name. Filter it by user or repository.")
        timed = await analytics.latencies(window, by_time=True)
        return await analytics.latencies(window), timed, []
    if asked.name == "outcomes":
        if (
            asked.group not in ("all", "user", "repository", "session", "task")
            or window.model
            or window.persona
        ):
            raise BadRequest(f"Outcomes are not counted by {echo(asked.group, 20)}, model or persona.")
        timed = [] if asked.group == "all" else await analytics.outcomes(window, asked.group, by_time=True)
        whole = await analytics.outcomes(window, asked.group)
        return whole, timed, await analytics.outcomes(window, "all", by_time=True)
    columns = _COLUMNS[asked.name]
    # the others are of events of other reports
    whole = [
        row
        for row in await analytics.counts(window, asked.group)
        if any(_values(columns, row.counts).values())
    ]
    keys = [row.key for row in whole[:MAX_SERIES]]
    timed = (
        [] if asked.group == "all" else await analytics.counts(window, asked.group, by_time=True, keys=keys)
    )
    return whole, timed, await analytics.counts(window, "all", by_time=True)


async def _labels(analytics: Analytics, asked: ReportRequest, keys: Sequence[str]) -> dict[str, str]:
    names: dict[str, str] = {"": "All" if asked.group == "all" else "(unknown)"}
    if asked.group == "user":
        known = await analytics.names()
        names |= {key: known[key] for key in keys if key in known}
    elif asked.group == "task":
        names |= await analytics.task_names(keys)
    return names


def _values(columns: Sequence[Column], counts: Counted) -> dict[str, Value]:
    return {column.name: column.value(counts) for column in columns}


def _sum(rows: Sequence[Row]) -> dict[str, int]:
    summed: dict[str, int] = {}
    for row in rows:
        for name, count in row.counts.items():
            summed[name] = summed.get(name, 0) + count
    return summed


def _series(
    timed: Sequence[Row],
    keys: Sequence[str],
    times: Sequence[int],
    columns: Sequence[Column],
    labels: Mapping[str, str],
) -> list[Series]:
    by_key: dict[str, dict[int, Counted]] = {key: {} for key in keys}
    for row in timed:
        if row.key in by_key:
            by_key[row.key][row.at_ms] = row.counts
    zero = dict.fromkeys(timed[0].counts, 0) if timed else {}
    if not zero:
        return []
    return [
        Series(
            key,
            labels.get(key, key),
            {column.name: [column.value(found.get(at, zero)) for at in times] for column in columns},
        )
        for key, found in by_key.items()
    ]


async def _forecast(analytics: Analytics, window: Window) -> Forecast:
    """The expected cost of this month, from its days so far and the 28 days before."""
    now_ms = wall_ms()
    begin_ms, end_ms = month_of(now_ms)
    since_ms = min(begin_ms, now_ms - now_ms % DAY_MS - 28 * DAY_MS)
    of_days = replace(window, step_ms=DAY_MS, from_ms=since_ms, to_ms=end_ms)
    found = await analytics.counts(of_days, "all", by_time=True)
    return forecast_month({row.at_ms: row.counts["cost_nano_usd"] / NANO for row in found}, now_ms)


def iso_time(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def parse_report_name(text: str) -> ReportName:
    for name in get_args(ReportName):
        if name == text:
            return name  # type: ignore[no-any-return]
    raise BadRequest(f"There is no report {echo(text, 40)}. There are: {', '.join(get_args(ReportName))}.")
