"""Readiness checks: the schema is current, and the database is writable. Also its size."""

from pathlib import Path

from sqlalchemy import Connection, delete, insert, text

from hutch.domain.errors import Unavailable
from hutch.store.schema import REVISIONS, answered_requests
from hutch.store.table_access_interface import Rows
from hutch.system.clock_without_jumps import wall_ms


async def check_schema(rows: Rows) -> None:
    """Raise if another version of Hutch has changed the schema."""
    statement = text("SELECT version_num FROM alembic_version")
    revision = await rows.fetch(lambda connection: connection.scalar(statement))
    if revision != REVISIONS[-1]:
        raise Unavailable(
            f"The database has the schema {revision}, and this server needs {REVISIONS[-1]}. Restart it."
        )


async def check_writable(rows: Rows) -> None:
    """Write a row and delete it in the same transaction; raise if that fails."""

    def write(connection: Connection) -> None:
        mark = {"user_id": "", "key": "readyz"}
        empty = {"request_hash": "", "status": 0, "headers": "", "body": b"", "at_ms": wall_ms()}
        connection.execute(insert(answered_requests).values(**mark, **empty))
        is_mark = (answered_requests.c.user_id == "", answered_requests.c.key == "readyz")
        connection.execute(delete(answered_requests).where(*is_mark))

    await rows.change(write)


async def database_bytes(rows: Rows, file: Path) -> int:
    """The size of the database; of SQLite, whose file this is, with its write-ahead log."""

    def measure(connection: Connection) -> int:
        if connection.dialect.name == "postgresql":
            return int(connection.scalar(text("SELECT pg_database_size(current_database())")) or 0)
        files = (file, file.with_name(f"{file.name}-wal"))
        return sum(each.stat().st_size for each in files if each.exists())

    return await rows.fetch(measure)
