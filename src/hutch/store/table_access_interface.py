"""Access to the tables beside the event log.

The log records what happened. Tables hold what must be found fast or is no event:
sessions with their state, the queue of runs, inputs, users, tokens.
"""

from collections.abc import Callable
from typing import Protocol, TypeVar

from sqlalchemy import Connection

T = TypeVar("T")
Made = TypeVar("Made", contravariant=True)


class Rows(Protocol):
    """The database. Only the modules of this package query it; others pass it on."""

    async def fetch(self, query: Callable[[Connection], T]) -> T:
        """Read in a thread; the query sees one state of the database per statement."""
        ...

    async def change(self, do: Callable[[Connection], T]) -> T:
        """Write in one transaction: durable when this returns, rolled back if it raises."""
        ...


class ExtraWrite(Protocol[Made]):
    """A further write in the transaction that creates an object: both are written, or neither."""

    def write(self, connection: Connection, made: Made) -> None: ...
