"""A look at the database behind the store's back, on a connection that is closed again."""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any


def sql(path: Path, *statements: str, given: tuple[Any, ...] = ()) -> list[Any]:
    """Run statements, each committed at once; the rows of the last one."""
    rows: list[Any] = []
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for statement in statements:
            rows = connection.execute(statement, given).fetchall()
    return rows
