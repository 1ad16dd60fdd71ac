"""Helpers: sessions to which the agent of another session delegated a task."""

import sqlalchemy as sa
from alembic import op

revision = "0031"
down_revision = "0030"


def upgrade() -> None:
    op.add_column("sessions", sa.Column("parent", sa.Text, nullable=False, server_default=""))
    op.add_column("sessions", sa.Column("helper", sa.Text, nullable=False, server_default="{}"))
    op.create_index("ix_sessions_parent", "sessions", ["parent"])
