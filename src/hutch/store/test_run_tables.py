"""The tables of test runs and of their tests. Of large runs the log has only some tests."""

from sqlalchemy import BigInteger, Boolean, Column, Index, Table, Text

from hutch.store.columns_shared_with_migrations import ROW, numbers, texts
from hutch.store.schema import metadata

test_runs = Table(
    "test_runs",
    metadata,
    Column("position", ROW, primary_key=True),
    Column("id", Text, nullable=False, unique=True),
    *texts("session_id run_id by cause state command reason"),
    Column("partial", Boolean, nullable=False),
    *numbers("passed failed skipped total"),
    Column("stored", BigInteger, nullable=False),  # rows of test_cases
    *numbers("started_ms ended_ms"),
    Index("test_runs_by_session", "session_id", "position"),
)

test_cases = Table(
    "test_cases",
    metadata,
    Column("run_position", BigInteger, primary_key=True),
    Column("number", BigInteger, primary_key=True),
    *texts("suite name outcome"),
    Column("duration_us", BigInteger, nullable=False),
    *texts("message file"),
    Column("line", BigInteger, nullable=False),
    Column("selector", Text, nullable=False),
    Index("test_cases_by_name", "run_position", "name"),
    sqlite_with_rowid=False,
)
