"""The delivery options of a session."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    op.add_column("sessions", sa.Column("delivery", sa.Text, nullable=False, server_default="{}"))
