"""The use cases, one per file."""
