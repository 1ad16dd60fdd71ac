"""Interviews, and the sessions in which their questions are worked on."""

import sqlalchemy as sa
from alembic import op

from hutch.store.columns_shared_with_migrations import numbers, texts

revision = "0023"
down_revision = "0022"


def upgrade() -> None:
    op.create_table(
        "interviews",
        sa.Column("id", sa.Text, primary_key=True),
        *texts("owner phase plan progress"),
        sa.Column("sealed", sa.Boolean, nullable=False),
        *numbers("seen_ms created_ms version"),
    )
    op.create_index("ix_interviews_owner", "interviews", ["owner"])
    op.create_index("ix_interviews_phase", "interviews", ["phase"])
    op.create_table(
        "interview_workspaces",
        sa.Column("interview", sa.Text, primary_key=True),
        sa.Column("number", sa.BigInteger, primary_key=True),
        sa.Column("language", sa.Text, primary_key=True),
        sa.Column("session_id", sa.Text, nullable=False, unique=True),
        *texts("question digest"),
    )
