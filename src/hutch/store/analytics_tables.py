"""The tables of the analytics: counts and latencies by minute, hour and day, and facts about sessions.

The `analytics_session_…` tables have the share of each session, so that an erased one can be subtracted.
The others are their sums over all sessions, so that queries read few rows.
"""

from sqlalchemy import BigInteger, Column, Index, Table, Text

from hutch.store.analytics_columns import COUNT_COLUMNS, HISTOGRAM_COLUMNS, number_keys
from hutch.store.columns_shared_with_migrations import ROW, numbers, text_keys, texts
from hutch.store.schema import metadata

analytics_sessions = Table(
    "analytics_sessions",
    metadata,
    *text_keys("session_id"),
    *texts("user_id repository"),
    *numbers("opened_ms prompted_ms proposed_ms"),
    Index("analytics_sessions_by_user", "user_id"),
)

analytics_runs = Table(
    "analytics_runs",
    metadata,
    *text_keys("session_id run_id"),
    *texts("model persona"),
    *numbers("duration_ms cost_nano_usd limit_nano_usd spent_ms"),
    Index("analytics_runs_by_time", "spent_ms"),
)

analytics_session_counts = Table(
    "analytics_session_counts",
    metadata,
    *text_keys("session_id"),
    *number_keys("step_ms at_ms"),
    *text_keys("user_id repository model persona"),
    *numbers(COUNT_COLUMNS),
)

analytics_counts = Table(
    "analytics_counts",
    metadata,
    *number_keys("step_ms at_ms"),
    *text_keys("user_id repository model persona"),
    *numbers(COUNT_COLUMNS),
)

analytics_session_latencies = Table(
    "analytics_session_latencies",
    metadata,
    *text_keys("session_id"),
    *number_keys("step_ms at_ms"),
    *text_keys("user_id repository kind name"),
    *numbers(HISTOGRAM_COLUMNS),
)

analytics_latencies = Table(
    "analytics_latencies",
    metadata,
    *number_keys("step_ms at_ms"),
    *text_keys("user_id repository kind name"),
    *numbers(HISTOGRAM_COLUMNS),
)

# --- Not projections: written by people and by the server. ---

annotations = Table(
    "annotations",
    metadata,
    Column("id", Text, primary_key=True),
    Column("at_ms", BigInteger, nullable=False, index=True),
    *texts("kind text by"),
)

budgets = Table(
    "budgets",
    metadata,
    Column("id", Text, primary_key=True),
    *texts("scope target"),
    Column("limit_nano_usd", BigInteger, nullable=False),
    Column("created_by", Text, nullable=False),
    Column("created_ms", BigInteger, nullable=False),
)

# The cost of a month while there are budgets. Unlike the analytics, an erasure does not lower it.
budget_spending = Table(
    "budget_spending",
    metadata,
    *text_keys("month user_id repository"),
    *numbers("cost_nano_usd"),
)

# Requests to models that are under way: their estimated cost counts until it is known.
budget_reservations = Table(
    "budget_reservations",
    metadata,
    Column("id", Text, primary_key=True),
    *texts("month user_id repository"),
    *numbers("cost_nano_usd until_ms"),
)

# Levels of budgets that were announced, and alerts: each once.
alerts = Table(
    "alerts",
    metadata,
    Column("id", ROW, primary_key=True),
    Column("key", Text, nullable=False, unique=True),
    *texts("kind text user_id session_id"),
    *numbers("at_ms"),
)

report_deliveries = Table(
    "report_deliveries",
    metadata,
    *text_keys("report channel"),
    *texts("state problem"),
    *numbers("attempts at_ms"),
)
