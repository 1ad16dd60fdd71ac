"""Tasks, their history, and links to sessions, changes and pull requests."""

import sqlalchemy as sa
from alembic import op

from hutch.store.columns_shared_with_migrations import ROW, numbers, text_keys, texts

revision = "0024"
down_revision = "0023"


def upgrade() -> None:
    op.create_table(
        "tasks",
        *text_keys("id"),
        *texts("repository key title state owner priority estimate milestone"),
        *texts("labels depends_on criteria description created_by"),
        *numbers("revision created_ms updated_ms"),
        sa.Column("archived", sa.Boolean, nullable=False),
        sa.UniqueConstraint("repository", "key"),
    )
    op.create_index("tasks_by_state", "tasks", ["state", "id"])
    op.create_index("tasks_by_owner", "tasks", ["owner", "id"])
    op.create_table(
        "task_history",
        sa.Column("position", ROW, primary_key=True),
        *texts("task_id kind by note changes"),
        *numbers("revision at_ms"),
    )
    op.create_index("task_history_by_task", "task_history", ["task_id", "position"])
    op.create_table("task_links", *text_keys("task_id kind target"), *texts("by"), *numbers("at_ms"))
    op.create_index("task_links_by_target", "task_links", ["target"])
