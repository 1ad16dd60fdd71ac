"""The size of each log, and the events omitted since it reached its limit.

Payloads in blobs of existing logs are not counted: the database does not know their size.
"""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"


def upgrade() -> None:
    op.add_column("logs", sa.Column("payload_bytes", sa.BigInteger, nullable=False, server_default="0"))
    op.add_column("logs", sa.Column("omitted", sa.Text, nullable=False, server_default=""))
    op.execute(
        "UPDATE logs SET payload_bytes = coalesce("
        "(SELECT sum(length(payload)) FROM events WHERE events.log_id = logs.id), 0)"
    )
