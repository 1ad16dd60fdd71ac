"""Changes: branches that were proposed, and what became of them."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    texts = ("session_id", "run_id", "repository", "branch", "base", "base_commit", "commit", "title")
    op.create_table(
        "changes",
        sa.Column("id", sa.Text, primary_key=True),
        *(sa.Column(name, sa.Text, nullable=False) for name in texts),
        sa.Column("body", sa.Text, nullable=False),
        sa.Column("tests", sa.Text, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("created_ms", sa.BigInteger, nullable=False),
        sa.Column("merged_commit", sa.Text, nullable=False),
    )
