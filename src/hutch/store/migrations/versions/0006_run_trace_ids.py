"""The trace id of a run, from the request that queued it."""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    op.add_column("runs", sa.Column("trace_id", sa.Text, nullable=False, server_default=""))
