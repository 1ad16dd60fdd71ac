"""Sessions of a server, the queue of their runs, their inputs, and answered requests."""

import sqlalchemy as sa
from alembic import op

from hutch.store.columns_shared_with_migrations import ROW, numbers, texts

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    op.create_table(
        "sessions",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("owner", sa.Text, nullable=False, index=True),
        *texts("purpose role expectations repository revision persona model"),
        *texts("network limits"),
        sa.Column("deliver", sa.Boolean, nullable=False),
        *texts("workspace_id forked_from"),
        sa.Column("state", sa.Text, nullable=False, index=True),
        *texts("reason"),
        *numbers("created_ms updated_ms"),
    )
    op.create_table(
        "runs",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("session_id", sa.Text, sa.ForeignKey("sessions.id"), nullable=False, index=True),
        *texts("owner kind prompt"),
        *numbers("input"),
        sa.Column("state", sa.Text, nullable=False, index=True),
        *texts("worker"),
        *numbers("lease_until_ms queued_ms started_ms ended_ms"),
        *texts("outcome reason"),
    )
    op.create_table(
        "inputs",
        sa.Column("position", ROW, primary_key=True),
        sa.Column("session_id", sa.Text, sa.ForeignKey("sessions.id"), nullable=False),
        *numbers("seq at_ms"),
        *texts("by body"),
        sa.Column("taken", sa.Boolean, nullable=False),
        sa.UniqueConstraint("session_id", "seq"),
    )
    op.create_table(
        "answered_requests",
        sa.Column("user_id", sa.Text, primary_key=True),
        sa.Column("key", sa.Text, primary_key=True),
        *texts("request_hash"),
        sa.Column("status", sa.Integer, nullable=False),
        *texts("headers"),
        sa.Column("body", sa.LargeBinary, nullable=False),
        sa.Column("at_ms", sa.BigInteger, nullable=False, index=True),
    )
