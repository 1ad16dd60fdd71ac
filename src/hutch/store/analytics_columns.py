"""Column names of the analytics, which the tables and their migration share."""

from sqlalchemy import BigInteger, Column

COUNT_COLUMNS = (
    "runs runs_done runs_tests_failing runs_limited runs_stuck runs_cancelled runs_failed provider_errors "
    "duration_ms turns retries input_tokens cached_tokens output_tokens cost_nano_usd unpriced tool_calls "
    "tool_errors denials egress_denied command_timeouts interventions proposals"
)
HISTOGRAM_COLUMNS = "count total_ms " + " ".join(f"bin_{number}" for number in range(24))


def number_keys(names: str) -> list[Column[int]]:
    """The numbers of a primary key."""
    return [Column(name, BigInteger, primary_key=True, autoincrement=False) for name in names.split()]
