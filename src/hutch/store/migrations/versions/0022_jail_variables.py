"""Variables of a session's jail, and the names of the secrets that it gets."""

import sqlalchemy as sa
from alembic import op

revision = "0022"
down_revision = "0020"


def upgrade() -> None:
    op.add_column("sessions", sa.Column("variables", sa.Text, nullable=False, server_default="[]"))
    op.add_column("sessions", sa.Column("secrets", sa.Text, nullable=False, server_default="[]"))
