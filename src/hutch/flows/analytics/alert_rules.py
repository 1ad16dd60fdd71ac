"""When the analytics of the last minutes are an alert. Pure functions."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

from hutch.domain.dollar_amount_formatting import dollars
from hutch.store.alerts_and_report_deliveries import NewAlert
from hutch.store.analytics_from_events import NANO
from hutch.store.analytics_queries import Row, RunCost
from hutch.store.budgets import WARNING_PERCENTS

WINDOW_MS = 15 * 60_000
MIN_TOOL_CALLS = 20
MIN_ERROR_SHARE = 0.5
MIN_PROVIDER_ERRORS = 3
MIN_RETRIES = 10


def alerts_of(
    by_model: Sequence[Row], by_repository: Sequence[Row], by_session: Sequence[Row], now_ms: int
) -> list[NewAlert]:
    """The alerts by the counts of the last 15 minutes; each is raised at most once per hour."""
    hour = datetime.fromtimestamp(now_ms / 1000, UTC).strftime("%Y-%m-%dT%H")
    return [
        *_stuck(by_session),
        *_tool_errors(by_repository, hour),
        *_providers(by_model, hour),
        *_unpriced(by_model, hour[:10]),
    ]


def run_cost_alerts(runs: Iterable[RunCost]) -> Iterable[NewAlert]:
    """The highest level of its cost limit that each run has reached; each level once."""
    for run in runs:
        percent = run.cost_nano_usd * 100 // run.limit_nano_usd
        level = max((each for each in WARNING_PERCENTS if each <= percent), default=0)
        if level:
            spent, limit = dollars(run.cost_nano_usd / NANO), dollars(run.limit_nano_usd / NANO)
            text = f"{level} % of the cost limit of a run in {run.session_id} is spent: {spent} of {limit}."
            key = f"run:{run.session_id}:{run.run_id}:{run.limit_nano_usd}:{level}"
            yield NewAlert(key, "budget", text, session_id=run.session_id)


def _stuck(rows: Sequence[Row]) -> Iterable[NewAlert]:
    for row in rows:
        if stuck := row.counts["runs_stuck"]:
            text = f"A run in {row.key} was stopped because it repeated itself without progress."
            yield NewAlert(
                f"no_progress:{row.key}:{row.at_ms}:{stuck}", "no_progress", text, session_id=row.key
            )


def _tool_errors(rows: Sequence[Row], hour: str) -> Iterable[NewAlert]:
    for row in rows:
        calls, errors = row.counts["tool_calls"], row.counts["tool_errors"]
        if calls >= MIN_TOOL_CALLS and errors >= calls * MIN_ERROR_SHARE:
            text = f"{errors} of {calls} tool calls failed in 15 minutes, in {row.key or 'no repository'}."
            yield NewAlert(f"tool_errors:{row.key}:{hour}", "tool_errors", text)


def _providers(rows: Sequence[Row], hour: str) -> Iterable[NewAlert]:
    for row in rows:
        failed, retries = row.counts["provider_errors"], row.counts["retries"]
        if failed >= MIN_PROVIDER_ERRORS or retries >= MIN_RETRIES:
            text = (
                f"{row.key or 'A model'} does not respond reliably: in 15 minutes {failed} runs failed, and "
                f"{retries} requests were repeated."
            )
            yield NewAlert(f"provider:{row.key}:{hour}", "provider", text)


def _unpriced(rows: Sequence[Row], day: str) -> Iterable[NewAlert]:
    for row in rows:
        if count := row.counts["unpriced"]:
            text = (
                f"The price of {row.key or 'a model'} is unknown, so {count} replies are not in the costs. "
                "Set it in models.prices."
            )
            yield NewAlert(f"unpriced:{row.key}:{day}", "unpriced", text)
