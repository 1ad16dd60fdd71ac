"""The tables of all modules, for what concerns the whole database. A table is registered by its import."""

from sqlalchemy import Table

from hutch.store import (
    analytics_tables,
    interview_tables,
    outgoing_webhook_tables,
    schema,
    task_tables,
    test_run_tables,
)

MODULES = (analytics_tables, interview_tables, outgoing_webhook_tables, schema, task_tables, test_run_tables)


def all_tables() -> list[Table]:
    """Every table, each after those that it refers to."""
    return list(schema.metadata.sorted_tables)
