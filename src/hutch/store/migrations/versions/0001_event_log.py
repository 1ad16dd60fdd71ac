"""The event log: heads, events, signed statements and the keys that signed them."""

from typing import Any

import sqlalchemy as sa
from alembic import op

from hutch.store.columns_shared_with_migrations import ROW, numbers, texts

revision = "0001"
down_revision = None


def upgrade() -> None:
    op.create_table(
        "logs",
        sa.Column("id", ROW, primary_key=True),
        sa.Column("session_id", sa.Text, nullable=False, unique=True),
        sa.Column("seq", sa.BigInteger, nullable=False),
        sa.Column("hash", sa.Text, nullable=False),
        *numbers("at_ms opened_ms"),
        sa.Column("ended", sa.Boolean, nullable=False),
        sa.Column("signed_seq", sa.BigInteger, nullable=False),
    )
    unsigned = sa.text("signed_seq < seq")
    # The name of another dialect would load that.
    where: dict[str, Any] = {f"{op.get_bind().dialect.name}_where": unsigned}
    op.create_index("logs_unsigned", "logs", ["id"], **where)
    op.create_table(
        "events",
        sa.Column("position", ROW, primary_key=True),
        sa.Column("log_id", ROW, sa.ForeignKey("logs.id"), nullable=False),
        *numbers("seq at_ms"),
        *texts("type payload_hash hash"),
        sa.Column("salt", sa.LargeBinary),
        sa.Column("payload", sa.LargeBinary),
        sa.UniqueConstraint("log_id", "seq"),
    )
    op.create_table(
        "statements",
        sa.Column("id", ROW, primary_key=True),
        sa.Column("log_id", ROW, sa.ForeignKey("logs.id"), nullable=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("seq", sa.BigInteger, nullable=False),
        sa.Column("hash", sa.Text, nullable=False),
        sa.Column("at_ms", sa.BigInteger, nullable=False),
        *texts("reason key"),
        sa.Column("signature", sa.LargeBinary, nullable=False),
    )
    op.create_index("statements_by_seq", "statements", ["log_id", "seq"])
    op.create_table(
        "public_keys",
        sa.Column("fingerprint", sa.Text, primary_key=True),
        sa.Column("public_key", sa.LargeBinary, nullable=False),
    )
    op.create_table("doomed_blobs", sa.Column("name", sa.Text, primary_key=True))
