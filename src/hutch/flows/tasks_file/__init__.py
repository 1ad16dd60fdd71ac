"""`docs/TASKS.md`: read, merged with the stored tasks, and written line by line. No I/O."""
