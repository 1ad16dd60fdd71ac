"""Compiled statements, shared by all databases that a process opens.

SQLAlchemy keeps compiled statements for each engine, since each has a dialect of its own. To compile
takes longer than to run: half the time of opening a server. All databases here have the same dialect,
so the statements of one fit the others.
"""

from typing import Any

from sqlalchemy.dialects import registry
from sqlalchemy.dialects.sqlite.pysqlite import SQLiteDialect_pysqlite
from sqlalchemy.util import LRUCache

DRIVER = "sqlite+hutch"
MAX_STATEMENTS = 1000


class Dialect(SQLiteDialect_pysqlite):
    """Equal to every other one, so that it finds their statements."""

    supports_statement_cache = True

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self)

    def __hash__(self) -> int:
        return hash(type(self))


COMPILED: LRUCache[Any, Any] = LRUCache(MAX_STATEMENTS)
registry.register(DRIVER.replace("+", "."), __name__, Dialect.__name__)
