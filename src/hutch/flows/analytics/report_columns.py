"""The columns of each report, and how their values follow from counts."""

from collections.abc import Callable, Mapping, Sequence
from typing import Literal

from hutch.store.analytics_from_events import BINS, NANO, bin_bounds_ms
from hutch.system.lazy_dataclass import dataclass

Value = float | int | None
Unit = Literal["count", "usd", "share", "s", "tokens"]
Counted = Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a report. Its value is None where it has no meaning, such as a share of nothing."""

    name: str
    title: str
    unit: Unit
    value: Callable[[Counted], Value]


def _count(name: str, title: str, unit: Unit = "count") -> Column:
    return Column(name, title, unit, lambda counts: counts[name])


def _share(name: str, title: str, part: str, of: Sequence[str]) -> Column:
    def value(counts: Counted) -> Value:
        whole = sum(counts[each] for each in of)
        return counts[part] / whole if whole else None

    return Column(name, title, "share", value)


def _usd(name: str, title: str, source: str, per: str = "") -> Column:
    def value(counts: Counted) -> Value:
        if per:
            return counts[source] / counts[per] / NANO if counts[per] else None
        return counts[source] / NANO

    return Column(name, title, "usd", value)


def _seconds(name: str, title: str, value: Callable[[Counted], Value]) -> Column:
    return Column(name, title, "s", value)


def percentile_s(counts: Counted, share: float) -> Value:
    """A percentile of a histogram, interpolated within its bin; None without values."""
    total = counts["count"]
    if not total:
        return None
    rank, seen = share * total, 0
    for number in range(BINS):
        found = counts[f"bin_{number}"]
        if found and seen + found >= rank:
            low, high = bin_bounds_ms(number)
            return round((low + (high - low) * (rank - seen) / found) / 1000, 4)
        seen += found
    return None


def _mean_time_to_change_s(counts: Counted) -> Value:
    return counts["change_ms"] / counts["with_change"] / 1000 if counts["with_change"] else None


SPEND = (
    _usd("cost_usd", "Cost", "cost_nano_usd"),
    _count("unpriced", "Replies without a price"),
    _count("runs", "Runs"),
    _count("turns", "Turns"),
    _count("input_tokens", "Input", "tokens"),
    _count("cached_tokens", "Cached", "tokens"),
    _count("output_tokens", "Output", "tokens"),
    _share("cached_share", "Cached share", "cached_tokens", ["input_tokens"]),
)
RELIABILITY = (
    _count("runs", "Runs"),
    _count("runs_done", "Done"),
    _count("runs_tests_failing", "Tests failing"),
    _count("runs_limited", "Limit reached"),
    _count("runs_stuck", "Without progress"),
    _count("runs_cancelled", "Cancelled"),
    _count("runs_failed", "Failed"),
    _count("provider_errors", "Provider errors"),
    _count("retries", "Repeated requests"),
    _count("tool_calls", "Tool calls"),
    _count("tool_errors", "Tool errors"),
    _share("tool_error_share", "Share of tool errors", "tool_errors", ["tool_calls"]),
    _count("denials", "Denied calls"),
    _count("egress_denied", "Denied connections"),
    _count("command_timeouts", "Commands over time"),
)
LATENCY = (
    _count("count", "Number"),
    _seconds("mean_s", "Mean", lambda row: row["total_ms"] / row["count"] / 1000 if row["count"] else None),
    _seconds("p50_s", "Median", lambda row: percentile_s(row, 0.5)),
    _seconds("p95_s", "95th percentile", lambda row: percentile_s(row, 0.95)),
)
OUTCOMES = (
    _count("sessions", "Sessions"),
    _count("prompted", "With a prompt"),
    _count("with_change", "With a change"),
    _count("changes", "Changes"),
    _count("merged", "Merged"),
    _count("closed", "Closed"),
    _share("tests_passing_share", "Tests passing", "runs_done", ["runs_done", "runs_tests_failing"]),
    _count("interventions", "Interventions"),
    _seconds("mean_time_to_change_s", "Mean time to a change", _mean_time_to_change_s),
    _usd("cost_usd", "Cost", "cost_nano_usd"),
    _usd("cost_per_merged_change_usd", "Cost per merged change", "cost_nano_usd", "merged"),
    _usd("cost_of_merged_usd", "Cost of merged sessions", "merged_cost_nano_usd"),
)
