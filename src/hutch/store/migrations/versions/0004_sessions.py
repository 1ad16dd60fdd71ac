"""Sessions of a server, the queue of their runs, their inputs, and answers that are given once."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"

_key = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def _texts(*names: str) -> list[sa.Column[str]]:
    return [sa.Column(name, sa.Text, nullable=False) for name in names]


def _numbers(*names: str) -> list[sa.Column[int]]:
    return [sa.Column(name, sa.BigInteger, nullable=False) for name in names]


def upgrade() -> None:
    op.create_table(
        "sessions",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("owner", sa.Text, nullable=False, index=True),
        *_texts("purpose", "role", "expectations", "repository", "revision", "persona", "model"),
        *_texts("network", "limits"),
        sa.Column("deliver", sa.Boolean, nullable=False),
        *_texts("workspace_id", "forked_from"),
        sa.Column("state", sa.Text, nullable=False, index=True),
        *_texts("reason"),
        *_numbers("created_ms", "updated_ms"),
    )
    op.create_table(
        "runs",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("session_id", sa.Text, sa.ForeignKey("sessions.id"), nullable=False, index=True),
        *_texts("owner", "kind", "prompt"),
        *_numbers("input"),
        sa.Column("state", sa.Text, nullable=False, index=True),
        *_texts("worker"),
        *_numbers("lease_until_ms", "queued_ms", "started_ms", "ended_ms"),
        *_texts("outcome", "reason"),
    )
    op.create_table(
        "inputs",
        sa.Column("position", _key, primary_key=True),
        sa.Column("session_id", sa.Text, sa.ForeignKey("sessions.id"), nullable=False),
        *_numbers("seq", "at_ms"),
        *_texts("by", "body"),
        sa.Column("taken", sa.Boolean, nullable=False),
        sa.UniqueConstraint("session_id", "seq"),
    )
    op.create_table(
        "answered_requests",
        sa.Column("user_id", sa.Text, primary_key=True),
        sa.Column("key", sa.Text, primary_key=True),
        *_texts("request_hash"),
        sa.Column("status", sa.Integer, nullable=False),
        *_texts("headers"),
        sa.Column("body", sa.LargeBinary, nullable=False),
        sa.Column("at_ms", sa.BigInteger, nullable=False, index=True),
    )
