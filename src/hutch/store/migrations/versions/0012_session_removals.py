"""Sessions whose removal has started, so that it continues after a crash."""

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"


def upgrade() -> None:
    op.create_table("removals", sa.Column("session_id", sa.Text, primary_key=True))
