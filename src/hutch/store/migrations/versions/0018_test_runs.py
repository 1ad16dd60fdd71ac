"""Test runs, and each of their tests."""

import sqlalchemy as sa
from alembic import op

from hutch.store.columns_shared_with_migrations import ROW, numbers, texts

revision = "0018"
down_revision = "0016"


def upgrade() -> None:
    op.create_table(
        "test_runs",
        sa.Column("position", ROW, primary_key=True),
        sa.Column("id", sa.Text, nullable=False, unique=True),
        *texts("session_id run_id by cause state command reason"),
        sa.Column("partial", sa.Boolean, nullable=False),
        *numbers("passed failed skipped total stored started_ms ended_ms"),
    )
    op.create_index("test_runs_by_session", "test_runs", ["session_id", "position"])
    op.create_table(
        "test_cases",
        sa.Column("run_position", sa.BigInteger, primary_key=True),
        sa.Column("number", sa.BigInteger, primary_key=True),
        *texts("suite name outcome"),
        sa.Column("duration_us", sa.BigInteger, nullable=False),
        *texts("message file"),
        sa.Column("line", sa.BigInteger, nullable=False),
        sa.Column("selector", sa.Text, nullable=False),
        sqlite_with_rowid=False,
    )
    op.create_index("test_cases_by_name", "test_cases", ["run_position", "name"])
