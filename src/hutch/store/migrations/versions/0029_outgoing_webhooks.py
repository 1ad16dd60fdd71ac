"""Webhooks to other systems, and their messages."""

import sqlalchemy as sa
from alembic import op

from hutch.store.columns_shared_with_migrations import numbers, text_keys, texts

revision = "0029"
down_revision = "0028"


def upgrade() -> None:
    op.create_table(
        "webhook_endpoints",
        *text_keys("id"),
        *texts("url description events"),
        sa.Column("disabled", sa.Boolean, nullable=False),
        *texts("created_by"),
        *numbers("created_ms old_secret_until_ms"),
    )
    op.create_table(
        "webhook_messages",
        *text_keys("id"),
        *texts("endpoint_id event interview body state attempts"),
        *numbers("next_ms created_ms"),
    )
    op.create_index("webhook_messages_by_endpoint", "webhook_messages", ["endpoint_id", "id"])
    op.create_index("webhook_messages_by_state", "webhook_messages", ["state", "next_ms"])
