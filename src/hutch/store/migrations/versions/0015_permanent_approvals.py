"""Permanent approvals. Before, each user had a file of them, which is imported once."""

import sqlalchemy as sa
from alembic import op

from hutch.store.columns_shared_with_migrations import ROW, texts

revision = "0015"
down_revision = "0014"


def upgrade() -> None:
    op.create_table(
        "kept_rules",
        sa.Column("position", ROW, primary_key=True),
        *texts("user_id tool pattern"),
        sa.UniqueConstraint("user_id", "tool", "pattern"),
    )
