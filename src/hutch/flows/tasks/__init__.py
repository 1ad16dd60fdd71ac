"""Tasks for callers: create, change, list, comment, and keep in step with a TASKS.md."""
