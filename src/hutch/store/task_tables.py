"""The tables of tasks: their state, their history, the work of agents on them, and saved filters."""

from sqlalchemy import Boolean, Column, Index, Table, UniqueConstraint

from hutch.store.columns_shared_with_migrations import ROW, numbers, text_keys, texts
from hutch.store.schema import metadata

tasks = Table(
    "tasks",
    metadata,
    *text_keys("id"),
    *texts("repository address key title state owner priority estimate milestone"),
    *texts("labels depends_on criteria"),  # JSON
    *texts("description created_by"),
    *numbers("revision created_ms updated_ms"),
    Column("archived", Boolean, nullable=False),
    UniqueConstraint("repository", "key"),
    Index("tasks_by_state", "state", "id"),
    Index("tasks_by_owner", "owner", "id"),
)

task_history = Table(
    "task_history",
    metadata,
    Column("position", ROW, primary_key=True),
    *texts("task_id kind by note"),
    *texts("changes"),  # JSON: the old and the new value of each field
    *numbers("revision at_ms"),
    Index("task_history_by_task", "task_id", "position"),
)

task_assignments = Table(
    "task_assignments",
    metadata,
    *text_keys("id"),
    *texts("task_id repository address persona model reviewer assigned_by delivery_id"),
    *texts("state reason session_id review_session_id change_id"),
    *texts("evidence files"),  # JSON
    Column("merges", Boolean, nullable=False),
    *numbers("input reworks created_ms updated_ms"),
    Index("task_assignments_by_task", "task_id", "id"),
    Index("task_assignments_by_state", "state", "id"),
    Index("task_assignments_by_session", "session_id"),
)

task_files = Table(
    "task_files",
    metadata,
    *text_keys("repository"),
    *texts("address branch path mode"),
    *texts("base_text"),  # after the last sync
    *texts("branch_text"),  # of the branch at the last sync
    *texts("change_id problem set_by"),
    *numbers("synced_ms"),
)

task_filters = Table(
    "task_filters",
    metadata,
    *text_keys("user_id name"),
    *texts("query"),  # JSON
    *numbers("updated_ms"),
)

task_links = Table(
    "task_links",
    metadata,
    *text_keys("task_id kind target"),
    *texts("by"),
    *numbers("at_ms"),
    Index("task_links_by_target", "target"),
)
