"""Policies of owners, preferences and erasures of users; limits of shares and invites."""

import sqlalchemy as sa
from alembic import op

from hutch.store.columns_shared_with_migrations import numbers, text_keys, texts

revision = "0020"
down_revision = "0019"


def upgrade() -> None:
    op.create_table("policies", *text_keys("name"), *texts("body created_by"), *numbers("created_ms"))
    op.create_table("preferences", *text_keys("user_id name"), *texts("value"))
    op.create_table(
        "user_erasures",
        *text_keys("user_id"),
        *texts("heir mentions sessions"),
        *numbers("started_ms ended_ms"),
    )
    op.add_column("shares", sa.Column("scopes", sa.Text, nullable=False, server_default=""))
    op.add_column("shares", sa.Column("expires_ms", sa.BigInteger))
    op.add_column("links", sa.Column("more_sessions", sa.Text, nullable=False, server_default=""))
    op.add_column("links", sa.Column("share_scopes", sa.Text, nullable=False, server_default=""))
    op.add_column("links", sa.Column("access_until_ms", sa.BigInteger))
