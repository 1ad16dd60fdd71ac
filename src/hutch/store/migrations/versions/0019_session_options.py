"""The company of a session, the resources of its commands, and options of the model's replies."""

import sqlalchemy as sa
from alembic import op

revision = "0019"
down_revision = "0018"


def upgrade() -> None:
    op.add_column("sessions", sa.Column("company", sa.Text, nullable=False, server_default=""))
    op.add_column("sessions", sa.Column("resources", sa.Text, nullable=False, server_default="{}"))
    op.add_column("sessions", sa.Column("generation", sa.Text, nullable=False, server_default="{}"))
    op.add_column("runs", sa.Column("generation", sa.Text, nullable=False, server_default="{}"))
