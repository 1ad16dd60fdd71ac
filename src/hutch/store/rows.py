"""Rows beside the event log: what is asked for, and who may ask.

What happened is in the log. Rows hold what must be found fast or is no event:
sessions with their state, the queue of runs, inputs, users, tokens.
"""

from collections.abc import Callable
from typing import Protocol, TypeVar

from sqlalchemy import Connection

T = TypeVar("T")
Made = TypeVar("Made", contravariant=True)


class Rows(Protocol):
    """The database, for the modules of this room: others hand it on to them."""

    async def fetch(self, query: Callable[[Connection], T]) -> T:
        """Read in a thread; the query sees one state of the database per statement."""
        ...

    async def change(self, do: Callable[[Connection], T]) -> T:
        """Write in one transaction: durable when this returns, and nothing of it when it raises."""
        ...


class ExtraWrite(Protocol[Made]):
    """A further row for the transaction that makes something: both are written, or neither is."""

    def write(self, connection: Connection, made: Made) -> None: ...
