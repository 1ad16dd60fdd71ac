"""The forge of a change, and its page there."""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    op.add_column("changes", sa.Column("forge", sa.Text, nullable=False, server_default="local"))
    op.add_column("changes", sa.Column("number", sa.BigInteger, nullable=False, server_default="0"))
    op.add_column("changes", sa.Column("web_url", sa.Text, nullable=False, server_default=""))
    op.execute("UPDATE changes SET forge = 'git' WHERE repository LIKE '%://%' OR repository NOT LIKE '/%'")
