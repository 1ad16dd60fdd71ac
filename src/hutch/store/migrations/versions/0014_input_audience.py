"""The audience of an input: an answer has that of its question."""

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"


def upgrade() -> None:
    op.add_column("inputs", sa.Column("audience", sa.Text))
