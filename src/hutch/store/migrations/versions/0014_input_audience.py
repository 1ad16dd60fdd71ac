"""An input has an audience: an answer is for those who may see its question."""

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"


def upgrade() -> None:
    op.add_column("inputs", sa.Column("audience", sa.Text))
