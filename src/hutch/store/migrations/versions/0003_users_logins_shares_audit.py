"""The gateway: users, logins, shares and the audit."""

import sqlalchemy as sa
from alembic import op

from hutch.store.columns_shared_with_migrations import ROW, numbers, text_keys, texts

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    _users()
    _create_login_tables()
    _audit()


def _users() -> None:
    op.create_table(
        "users",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("name_key", sa.Text, nullable=False, unique=True),
        *texts("role password_hash"),
        sa.Column("created_ms", sa.BigInteger, nullable=False),
        sa.Column("disabled", sa.Boolean, nullable=False),
    )
    op.create_table(
        "shares",
        sa.Column("session_id", sa.Text, primary_key=True),
        sa.Column("user_id", sa.Text, sa.ForeignKey("users.id"), primary_key=True, index=True),
        *texts("role created_by"),
        sa.Column("created_ms", sa.BigInteger, nullable=False),
    )


def _create_login_tables() -> None:
    op.create_table(
        "tokens",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("user_id", sa.Text, sa.ForeignKey("users.id"), nullable=False, index=True),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("hash", sa.Text, nullable=False, unique=True),
        *texts("prefix scopes"),
        sa.Column("created_ms", sa.BigInteger, nullable=False),
        sa.Column("expires_ms", sa.BigInteger),
        sa.Column("last_used_ms", sa.BigInteger),
        sa.Column("revoked_ms", sa.BigInteger),
    )
    op.create_table(
        "browser_sessions",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("user_id", sa.Text, sa.ForeignKey("users.id"), nullable=False, index=True),
        sa.Column("hash", sa.Text, nullable=False, unique=True),
        *texts("began_by address agent"),
        *numbers("created_ms used_ms"),
    )
    op.create_table(
        "links",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("hash", sa.Text, nullable=False, unique=True),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("user_id", sa.Text, sa.ForeignKey("users.id")),
        sa.Column("role", sa.Text),
        sa.Column("session_id", sa.Text),
        sa.Column("share_role", sa.Text),
        sa.Column("created_by", sa.Text, nullable=False),
        *numbers("created_ms expires_ms"),
        sa.Column("used_ms", sa.BigInteger),
        sa.Column("used_by", sa.Text),
    )
    op.create_table(
        "identities",
        *text_keys("issuer subject"),
        sa.Column("user_id", sa.Text, sa.ForeignKey("users.id"), nullable=False, index=True),
        sa.Column("email", sa.Text, nullable=False),
        sa.Column("created_ms", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "login_attempts",
        sa.Column("key", sa.Text, primary_key=True),
        sa.Column("failures", sa.Integer, nullable=False),
        sa.Column("last_ms", sa.BigInteger, nullable=False, index=True),
        sa.Column("until_ms", sa.BigInteger, nullable=False),
    )


def _audit() -> None:
    op.create_table(
        "audit",
        sa.Column("id", ROW, primary_key=True),
        sa.Column("at_ms", sa.BigInteger, nullable=False),
        *texts("user_id credential_id action object address"),
        sa.Column("ok", sa.Boolean, nullable=False),
        *texts("detail trace_id"),
    )
