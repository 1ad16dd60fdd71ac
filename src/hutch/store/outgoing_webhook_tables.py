"""The tables of webhooks to other systems."""

from sqlalchemy import Boolean, Column, Index, Table

from hutch.store.columns_shared_with_migrations import numbers, text_keys, texts
from hutch.store.schema import metadata

webhook_endpoints = Table(
    "webhook_endpoints",
    metadata,
    *text_keys("id"),
    *texts("url description"),
    *texts("events"),  # JSON
    Column("disabled", Boolean, nullable=False),
    *texts("created_by"),
    *numbers("created_ms old_secret_until_ms"),
)

webhook_messages = Table(
    "webhook_messages",
    metadata,
    *text_keys("id"),
    *texts("endpoint_id event interview body state"),
    *texts("attempts"),  # JSON
    *numbers("next_ms created_ms"),
    Index("webhook_messages_by_endpoint", "endpoint_id", "id"),
    Index("webhook_messages_by_state", "state", "next_ms"),
)
