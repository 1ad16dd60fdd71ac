"""Agents at work on tasks: assigned, queued, worked on, reviewed, merged."""
