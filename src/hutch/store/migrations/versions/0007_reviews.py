"""Comments and reviews of changes, and webhook deliveries."""

import sqlalchemy as sa
from alembic import op

from hutch.store.columns_shared_with_migrations import numbers, texts

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    op.create_table(
        "comments",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("change_id", sa.Text, nullable=False, index=True),
        *texts("review_id author path"),
        sa.Column("line", sa.BigInteger, nullable=False),
        *texts("side severity body commit"),
        *numbers("created_ms resolved_ms"),
        sa.Column("resolved_by", sa.Text, nullable=False),
    )
    op.create_table(
        "reviews",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("change_id", sa.Text, nullable=False, index=True),
        sa.Column("pull_url", sa.Text, nullable=False, index=True),
        *texts("author verdict title body commit session_id"),
        sa.Column("run_id", sa.Text, nullable=False, index=True),
        sa.Column("url", sa.Text, nullable=False),
        sa.Column("created_ms", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "deliveries",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("digest", sa.Text, nullable=False, unique=True),
        sa.Column("at_ms", sa.BigInteger, nullable=False, index=True),
        sa.Column("event", sa.Text, nullable=False),
        sa.Column("state", sa.Text, nullable=False, index=True),
        *texts("wish reason session_id run_id"),
        *numbers("input comment_id"),
        sa.Column("attempts", sa.Integer, nullable=False),
        sa.Column("next_ms", sa.BigInteger, nullable=False),
    )
