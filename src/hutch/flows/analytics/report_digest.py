"""The text and the data of a daily or weekly report: what came of the work, its cost, trouble, and alerts."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from hutch.domain.dollar_amount_formatting import dollars
from hutch.domain.redaction import Redactor
from hutch.flows.analytics.report_channels import Message
from hutch.flows.analytics.report_columns import Value
from hutch.flows.analytics.report_schedule import DueReport
from hutch.flows.analytics.reports import Report, ReportName, ReportRequest, iso_time, report_for
from hutch.store.alerts_and_report_deliveries import Alert, Alerts
from hutch.store.analytics_queries import AnalyticsGroup
from hutch.store.table_access_interface import Rows
from hutch.system.lazy_dataclass import dataclass

MAX_ROWS = 5  # of each table; the first are the most expensive
LEFT_OUT = ("prompted", "with_change", "cost_of_merged_usd", "turns")  # they are on the page


@dataclass(frozen=True, slots=True)
class DigestParts:
    """The reports of a time, the same total of the time before, and the alerts."""

    outcomes: Report
    before: Report
    spend: Sequence[Report]  # by model, by repository
    reliability: Report
    alerts: Sequence[Alert]


async def digest_parts(rows: Rows, due: DueReport) -> DigestParts:
    async def read(name: ReportName, group: AnalyticsGroup, begin_ms: int, end_ms: int) -> Report:
        return await report_for(rows, None, ReportRequest(name, group, from_ms=begin_ms, to_ms=end_ms))

    span = (due.from_ms, due.to_ms)
    found = await Alerts(rows).newest(since_ms=due.from_ms)
    return DigestParts(
        outcomes=await read("outcomes", "all", *span),
        before=await read("outcomes", "all", 2 * due.from_ms - due.to_ms, due.from_ms),
        spend=[await read("spend", "model", *span), await read("spend", "repository", *span)],
        reliability=await read("reliability", "all", *span),
        alerts=[each for each in found if each.at_ms < due.to_ms],
    )


def digest_message(due: DueReport, parts: DigestParts, redactor: Redactor) -> Message:
    data: dict[str, Any] = {
        "from": iso_time(due.from_ms),
        "to": iso_time(due.to_ms),
        **{each.name: {"total": each.total} for each in (parts.outcomes, parts.spend[0], parts.reliability)},
        **{f"cost_by_{each.group}_usd": _costs(each) for each in parts.spend},
        "alerts": [redactor.redact(each.text) for each in parts.alerts],
    }
    subject = f"Hutch, {_period(due)}: {_headline(parts)}"
    return Message(due.name, subject, redactor.redact("\n".join(_lines(due, parts)) + "\n"), data)


def _costs(report: Report) -> dict[str, Value]:
    return {row.label: row.values["cost_usd"] for row in report.rows}


def _period(due: DueReport) -> str:
    """A day, or the first and the last day of a week."""
    first, last = (iso_time(at_ms)[:10] for at_ms in (due.from_ms, due.to_ms - 1))
    return first if first == last else f"{first} to {last}"


def _headline(parts: DigestParts) -> str:
    total = parts.outcomes.total
    if not total:
        return "no sessions"
    merged, sessions = int(total["merged"] or 0), int(total["sessions"] or 0)
    return (
        f"{merged} {'change' if merged == 1 else 'changes'} merged of {sessions} "
        f"{'session' if sessions == 1 else 'sessions'}, {dollars(parts.spend[0].total.get('cost_usd') or 0)}"
    )


def _lines(due: DueReport, parts: DigestParts) -> Iterator[str]:
    yield f"Hutch, {iso_time(due.from_ms)} to {iso_time(due.to_ms)}"
    if not parts.outcomes.total and not parts.spend[0].total:
        yield "\nNo session was opened, and no model was used."
    else:
        yield from _totals("Outcomes", parts.outcomes, parts.before.total)
        yield from _totals("Spend", parts.spend[0], {})
        for report in parts.spend:
            yield from _expensive_rows(report)
        yield from _totals("Reliability", parts.reliability, {})
    if parts.alerts:
        yield "\nAlerts"
        yield from (f"  {iso_time(each.at_ms)}  {each.text}" for each in parts.alerts)


def _totals(title: str, report: Report, before: Mapping[str, Value]) -> Iterator[str]:
    """Each column with a value, aligned; and its value in the time before, if that is given."""
    shown = [
        (column.title, _shown(column.unit, value), before.get(column.name), column.unit)
        for column in report.columns
        if column.name not in LEFT_OUT and (value := report.total.get(column.name))
    ]
    yield f"\n{title}"
    if not shown:
        yield "  nothing"
    width = max((len(name) for name, *_ in shown), default=0)
    for name, text, old, unit in shown:
        compared = f"   before: {_shown(unit, old)}" if old is not None else ""
        yield f"  {name:<{width}}  {text:>10}{compared}".rstrip()


def _expensive_rows(report: Report) -> Iterator[str]:
    rows = [row for row in report.rows if row.values["cost_usd"]][:MAX_ROWS]
    if rows:
        yield f"\nMost expensive by {report.group}"
        yield from (f"  {_shown('usd', row.values['cost_usd'] or 0):>10}  {row.label}" for row in rows)


def _shown(unit: str, value: float) -> str:
    if unit == "usd":
        return dollars(value)
    if unit == "share":
        return f"{value:.1%}"
    return f"{value:,.1f} s" if unit == "s" else f"{value:,}"
