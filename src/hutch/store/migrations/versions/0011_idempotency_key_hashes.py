"""Idempotency keys are stored as hashes."""

import hashlib

from alembic import op
from sqlalchemy import column, select, table, update

revision = "0011"
down_revision = "0010"


def upgrade() -> None:
    answered = table("answered_requests", column("user_id"), column("key"))
    connection = op.get_bind()
    for user_id, key in connection.execute(select(answered.c.user_id, answered.c.key)).all():
        here = (answered.c.user_id == user_id, answered.c.key == key)
        hashed = hashlib.sha256(key.encode()).hexdigest()
        connection.execute(update(answered).where(*here).values(key=hashed))
