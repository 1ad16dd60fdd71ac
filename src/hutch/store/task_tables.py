"""The tables of tasks: their current state, everything that happened to them, and what belongs to them."""

from sqlalchemy import Boolean, Column, Index, Table, UniqueConstraint

from hutch.store.columns_shared_with_migrations import ROW, numbers, text_keys, texts
from hutch.store.schema import metadata

tasks = Table(
    "tasks",
    metadata,
    *text_keys("id"),
    *texts("repository key title state owner priority estimate milestone"),
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

task_links = Table(
    "task_links",
    metadata,
    *text_keys("task_id kind target"),
    *texts("by"),
    *numbers("at_ms"),
    Index("task_links_by_target", "target"),
)
