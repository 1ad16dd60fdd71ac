"""Makes a table of one database equal to that of another, in steps, or finds where they differ.

Both are read in the order of their primary keys. So an interrupted copy continues where it ended, rows
that have changed since are written again, and a last run without writing proves that both are equal.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from sqlalchemy import Connection, Row, Table, delete, insert, literal, select, tuple_, update

PAGE_ROWS = 500  # an inline payload has at most 16 KiB

Key = tuple[Any, ...]
Found = Row[Any]
OnRows = Callable[[int], None]  # gets the number of rows that were compared, and may raise to stop


def delete_others(source: Connection, target: Connection, table: Table) -> None:
    """Delete the rows of the target that the source does not have."""
    for rows in _pages(target, table):
        keys = [_key(table, row) for row in rows]
        there = {_key(table, row) for row in _between(source, table, keys[0], keys[-1])}
        others = [key for key in keys if key not in there]
        if others:
            with_key = delete(table).where(tuple_(*table.primary_key.columns).in_(others))
            target.execute(with_key)


def copy_rows(source: Connection, target: Connection, table: Table, on_rows: OnRows) -> None:
    """Insert and update the rows that differ; each page in one transaction."""
    for rows in _pages(source, table):
        known = {_key(table, row): row for row in _between(target, table, *_ends(table, rows))}
        new = [row._asdict() for row in rows if _key(table, row) not in known]
        changed = [row for row in rows if known.get(_key(table, row), row) != row]
        if new or changed:
            target.exec_driver_sql("BEGIN")
            for row in changed:
                here = tuple_(*table.primary_key.columns) == tuple_(*_key(table, row))
                target.execute(update(table).where(here).values(row._asdict()))
            if new:
                target.execute(insert(table).inline(), new)
            target.exec_driver_sql("COMMIT")
        on_rows(len(rows))


def find_difference(source: Connection, target: Connection, table: Table, on_rows: OnRows) -> str:
    """A description of the first row that differs; empty if the tables are equal."""
    others = _pages(target, table)
    for rows in _pages(source, table):
        other = next(others, [])
        for a, b in zip(rows, [*other, *[None] * (len(rows) - len(other))], strict=False):
            if a != b:
                return f"{table.name} {_key(table, a)}"
        if len(other) > len(rows):
            return f"{table.name} {_key(table, other[len(rows)])}"
        on_rows(len(rows))
    extra = next(others, [])
    return f"{table.name} {_key(table, extra[0])}" if extra else ""


def _pages(connection: Connection, table: Table) -> Iterator[Sequence[Found]]:
    """All rows in the order of their keys, in pages that are not empty."""
    keys = list(table.primary_key.columns)
    first = select(table).order_by(*keys).limit(PAGE_ROWS)
    page = connection.execute(first).all()
    while page:
        yield page
        last = tuple_(*(_bound(key, value) for key, value in zip(keys, _key(table, page[-1]), strict=True)))
        page = connection.execute(first.where(tuple_(*keys) > last)).all()


def _between(connection: Connection, table: Table, first: Key, last: Key) -> Sequence[Found]:
    keys = list(table.primary_key.columns)
    ends = [tuple_(*map(_bound, keys, end)) for end in (first, last)]
    return connection.execute(select(table).where(tuple_(*keys) >= ends[0], tuple_(*keys) <= ends[1])).all()


def _bound(column: Any, value: Any) -> Any:
    return literal(value, column.type)


def _ends(table: Table, rows: Sequence[Found]) -> tuple[Key, Key]:
    return _key(table, rows[0]), _key(table, rows[-1])


def _key(table: Table, row: Found) -> Key:
    return tuple(row._mapping[column] for column in table.primary_key.columns)
