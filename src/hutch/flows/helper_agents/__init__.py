"""Helpers: sessions that work on parts of a task for the agent of another session."""
