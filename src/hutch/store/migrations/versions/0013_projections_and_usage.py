"""Projections: their positions, the logs to fold again, and the rows of the usage totals."""

import sqlalchemy as sa
from alembic import op

from hutch.store.columns_shared_with_migrations import numbers, text_keys, texts

revision = "0013"
down_revision = "0012"


def upgrade() -> None:
    op.create_table(
        "projections",
        sa.Column("name", sa.Text, primary_key=True),
        sa.Column("version", sa.Integer, nullable=False),
        sa.Column("position", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "refolds",
        *text_keys("projection session_id"),
        sa.Column("erasures", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "usage",
        *text_keys("session_id user_id model persona day"),
        *numbers("runs turns input_tokens cached_tokens output_tokens"),
        *numbers("cost_nano_usd unpriced tool_calls tool_errors duration_ms"),
    )
    op.create_index("usage_by_user", "usage", ["user_id"])
    op.create_table(
        "usage_sessions",
        sa.Column("session_id", sa.Text, primary_key=True),
        sa.Column("user_id", sa.Text, nullable=False),
    )
    op.create_table(
        "usage_runs",
        *text_keys("session_id run_id"),
        *texts("model persona"),
        sa.Column("duration_ms", sa.BigInteger, nullable=False),
    )
