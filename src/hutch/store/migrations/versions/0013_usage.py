"""Projections: how far each has come, which logs it has to fold anew, and the rows of the usage totals."""

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"

COUNTS = (
    "runs",
    "turns",
    "input_tokens",
    "cached_tokens",
    "output_tokens",
    "cost_nano_usd",
    "unpriced",
    "tool_calls",
    "tool_errors",
    "duration_ms",
)


def upgrade() -> None:
    op.create_table(
        "projections",
        sa.Column("name", sa.Text, primary_key=True),
        sa.Column("version", sa.Integer, nullable=False),
        sa.Column("position", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "refolds",
        sa.Column("projection", sa.Text, primary_key=True),
        sa.Column("session_id", sa.Text, primary_key=True),
        sa.Column("erasures", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "usage",
        sa.Column("session_id", sa.Text, primary_key=True),
        sa.Column("user_id", sa.Text, primary_key=True),
        sa.Column("model", sa.Text, primary_key=True),
        sa.Column("persona", sa.Text, primary_key=True),
        sa.Column("day", sa.Text, primary_key=True),
        *(sa.Column(name, sa.BigInteger, nullable=False) for name in COUNTS),
    )
    op.create_index("usage_by_user", "usage", ["user_id"])
    op.create_table(
        "usage_sessions",
        sa.Column("session_id", sa.Text, primary_key=True),
        sa.Column("user_id", sa.Text, nullable=False),
    )
    op.create_table(
        "usage_runs",
        sa.Column("session_id", sa.Text, primary_key=True),
        sa.Column("run_id", sa.Text, primary_key=True),
        sa.Column("model", sa.Text, nullable=False),
        sa.Column("persona", sa.Text, nullable=False),
        sa.Column("duration_ms", sa.BigInteger, nullable=False),
    )
