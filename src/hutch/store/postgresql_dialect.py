"""The dialect of PostgreSQL, so that the queries of this package give the same results as in SQLite.

- Text is ordered and compared byte by byte: all text columns have the collation C.
- LIKE ignores the case of ASCII letters.
- A sum of integers is an integer. PostgreSQL makes it a decimal number.
- The functions of SQLite that queries use are translated.

Only databases in PostgreSQL load this module.
"""

from collections.abc import Callable
from typing import Any

from sqlalchemy import Boolean, Column, Text
from sqlalchemy.dialects import registry
from sqlalchemy.dialects.postgresql.base import PGTypeCompiler
from sqlalchemy.dialects.postgresql.psycopg import PGCompiler_psycopg, PGDialect_psycopg
from sqlalchemy.util import LRUCache

DRIVER = "postgresql+hutch"
MAX_STATEMENTS = 1000


class Compiler(PGCompiler_psycopg):
    """Compiles statements that were written for SQLite."""

    def visit_like_op_binary(self, binary: Any, operator: Any, **options: Any) -> str:
        ilike: Callable[..., str] = self.visit_ilike_op_binary
        return ilike(binary, operator, **options)

    def visit_not_like_op_binary(self, binary: Any, operator: Any, **options: Any) -> str:
        not_ilike: Callable[..., str] = self.visit_not_ilike_op_binary
        return not_ilike(binary, operator, **options)

    def visit_ilike_case_insensitive_operand(self, element: Any, **options: Any) -> str:
        return str(element.element._compiler_dispatch(self, **options))

    def visit_sum_func(self, function: Any, **options: Any) -> str:
        return f"CAST(sum{self.function_argspec(function, **options)} AS BIGINT)"

    def visit_instr_func(self, function: Any, **options: Any) -> str:
        whole, part = (self.process(clause, **options) for clause in function.clauses)
        return f"position({part} in {whole})"

    def visit_json_extract_func(self, function: Any, **options: Any) -> str:
        document, path = function.clauses
        value = f"({self.process(document, **options)}::json #>> '{{{path.value.removeprefix('$.')}}}')"
        return f"{value}::boolean" if isinstance(function.type, Boolean) else value

    def _on_conflict_target(self, clause: Any, **options: Any) -> str:
        """The target of `insert` of SQLite's dialect, which knows no constraints by name."""
        names = clause.inferred_target_elements
        return f"({', '.join(map(self.preparer.quote, names))})" if names else ""


class TypeCompiler(PGTypeCompiler):
    """Gives text columns a collation that does not depend on the database."""

    def visit_TEXT(self, type_: Text, **options: Any) -> str:
        of_column = isinstance(options.get("type_expression"), Column)
        return 'TEXT COLLATE "C"' if of_column else "TEXT"


class Dialect(PGDialect_psycopg):
    """Equal to every other one, so that it finds their compiled statements."""

    supports_statement_cache = True
    statement_compiler = Compiler
    type_compiler_cls = TypeCompiler

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self)

    def __hash__(self) -> int:
        return hash(type(self))


COMPILED: LRUCache[Any, Any] = LRUCache(MAX_STATEMENTS)
registry.register(DRIVER.replace("+", "."), __name__, Dialect.__name__)
