"""Rows beside the event log: what is asked for, and who may ask.

What happened is in the log. Rows hold what must be found fast or is no event:
sessions with their state, the queue of runs, inputs, users, tokens.
"""

from collections.abc import Callable
from typing import Protocol, TypeVar

from sqlalchemy import Connection

T = TypeVar("T")


class Rows(Protocol):
    """The database, for those who know its tables."""

    async def fetch(self, query: Callable[[Connection], T]) -> T:
        """Read in a thread; the query sees one state of the database per statement."""
        ...

    async def change(self, do: Callable[[Connection], T]) -> T:
        """Write in one transaction: durable when this returns, and nothing of it when it raises."""
        ...
