"""The tables of interviews. Their events are in the logs."""

from sqlalchemy import BigInteger, Boolean, Column, Table, Text

from hutch.store.columns_shared_with_migrations import numbers, texts
from hutch.store.schema import metadata

interviews = Table(
    "interviews",
    metadata,
    Column("id", Text, primary_key=True),  # of the session that is its room
    Column("owner", Text, nullable=False, index=True),
    Column("phase", Text, nullable=False, index=True),
    Column("plan", Text, nullable=False),  # JSON
    Column("progress", Text, nullable=False),  # JSON: all other fields
    Column("sealed", Boolean, nullable=False),
    Column("seen_ms", BigInteger, nullable=False),  # the last sign of the candidate; 0 before the first
    *numbers("created_ms version"),
)

interview_workspaces = Table(
    "interview_workspaces",
    metadata,
    Column("interview", Text, primary_key=True),
    Column("number", BigInteger, primary_key=True),
    Column("language", Text, primary_key=True),
    Column("session_id", Text, nullable=False, unique=True),
    *texts("question digest"),
)
