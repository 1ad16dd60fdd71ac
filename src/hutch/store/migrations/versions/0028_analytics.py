"""Analytics, budgets, alerts, and the delivery of reports."""

import sqlalchemy as sa
from alembic import op

from hutch.store.analytics_columns import COUNT_COLUMNS, HISTOGRAM_COLUMNS, number_keys
from hutch.store.columns_shared_with_migrations import ROW, numbers, text_keys, texts

revision = "0028"
down_revision = "0024"


def upgrade() -> None:
    op.create_table(
        "analytics_sessions",
        *text_keys("session_id"),
        *texts("user_id repository"),
        *numbers("opened_ms prompted_ms proposed_ms"),
    )
    op.create_index("analytics_sessions_by_user", "analytics_sessions", ["user_id"])
    op.create_table(
        "analytics_runs",
        *text_keys("session_id run_id"),
        *texts("model persona"),
        *numbers("duration_ms"),
    )
    for name, names, columns in (
        ("counts", "user_id repository model persona", COUNT_COLUMNS),
        ("latencies", "user_id repository kind name", HISTOGRAM_COLUMNS),
    ):
        time = "step_ms at_ms"
        op.create_table(f"analytics_{name}", *number_keys(time), *text_keys(names), *numbers(columns))
        op.create_table(
            f"analytics_session_{name}",
            *text_keys("session_id"),
            *number_keys(time),
            *text_keys(names),
            *numbers(columns),
        )
    op.create_table("annotations", *text_keys("id"), *numbers("at_ms"), *texts("kind text by"))
    op.create_index("ix_annotations_at_ms", "annotations", ["at_ms"])
    op.create_table(
        "budgets",
        *text_keys("id"),
        *texts("scope target"),
        *numbers("limit_nano_usd"),
        *texts("created_by"),
        *numbers("created_ms"),
    )
    op.create_table(
        "budget_reservations",
        *text_keys("id"),
        *texts("month user_id repository"),
        *numbers("cost_nano_usd until_ms"),
    )
    op.create_table("budget_spending", *text_keys("month user_id repository"), *numbers("cost_nano_usd"))
    op.create_table(
        "alerts",
        sa.Column("id", ROW, primary_key=True),
        sa.Column("key", sa.Text, nullable=False, unique=True),
        *texts("kind text user_id session_id"),
        *numbers("at_ms"),
    )
    op.create_table(
        "report_deliveries",
        *text_keys("report channel"),
        *texts("state problem"),
        *numbers("attempts at_ms"),
    )
