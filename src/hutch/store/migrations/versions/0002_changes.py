"""Changes: branches that were proposed, and their outcomes."""

import sqlalchemy as sa
from alembic import op

from hutch.store.columns_shared_with_migrations import texts

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    op.create_table(
        "changes",
        sa.Column("id", sa.Text, primary_key=True),
        *texts("session_id run_id repository branch base base_commit commit title body tests state"),
        sa.Column("created_ms", sa.BigInteger, nullable=False),
        sa.Column("merged_commit", sa.Text, nullable=False),
    )
