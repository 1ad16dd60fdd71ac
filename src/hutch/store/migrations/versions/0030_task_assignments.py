"""Work of agents on tasks, saved filters, and the addresses of the repositories of tasks."""

import sqlalchemy as sa
from alembic import op

from hutch.store.columns_shared_with_migrations import numbers, text_keys, texts

revision = "0030"
down_revision = "0029"


def upgrade() -> None:
    op.add_column("tasks", sa.Column("address", sa.Text, nullable=False, server_default=""))
    op.create_table(
        "task_assignments",
        *text_keys("id"),
        *texts("task_id repository address persona model reviewer assigned_by delivery_id"),
        *texts("state reason session_id review_session_id change_id evidence files"),
        sa.Column("merges", sa.Boolean, nullable=False),
        *numbers("input reworks created_ms updated_ms"),
    )
    op.create_index("task_assignments_by_task", "task_assignments", ["task_id", "id"])
    op.create_index("task_assignments_by_state", "task_assignments", ["state", "id"])
    op.create_index("task_assignments_by_session", "task_assignments", ["session_id"])
    op.create_table(
        "task_files",
        *text_keys("repository"),
        *texts("address branch path mode base_text branch_text change_id problem set_by"),
        *numbers("synced_ms"),
    )
    op.create_table("task_filters", *text_keys("user_id name"), *texts("query"), *numbers("updated_ms"))
