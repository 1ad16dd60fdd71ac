"""Finds ids that users shorten to a prefix or suffix."""

from sqlalchemy import ColumnElement, desc, select, union

from hutch.domain.ids import resolve_id
from hutch.store.schema import changes, logs, runs
from hutch.store.table_access_interface import Rows


async def find_session_id(rows: Rows, name: str) -> str | None:
    """The id of the session whose log a name means; None if there is no match."""
    return await _find(rows, name, "sessions", logs.c.session_id)


async def find_work_id(rows: Rows, name: str) -> str | None:
    """The id of the run, session or change that a name means; None if there is no match."""
    columns = (changes.c.id, changes.c.run_id, runs.c.id, logs.c.session_id)
    return await _find(rows, name, "runs, sessions and changes", *columns)


async def _find(rows: Rows, name: str, what: str, *columns: ColumnElement[str]) -> str | None:
    # A superset, which `one_of` narrows down to prefixes and suffixes.
    statement = union(
        *(select(each.label("id")).where(each.contains(name, autoescape=True)) for each in columns)
    )
    found = await rows.fetch(lambda connection: list(connection.scalars(statement.order_by(desc("id")))))
    return resolve_id(found, name, what)
