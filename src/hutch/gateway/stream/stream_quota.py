"""How many streams one user may have open.

A stream holds a descriptor, a task and what waits for its client, for as long as the
client likes. Whoever wants to follow takes a ticket; it is given back when the
connection is over, or before when somebody follows several things by one connection.
"""

from collections import Counter
from typing import Any

from starlette.types import ASGIApp, Receive, Scope, Send

from hutch.domain.errors import LimitReached
from hutch.domain.user import Caller

HELD = "hutch.tickets"  # in the scope: those of this connection


class Ticket:
    """For one stream."""

    def __init__(self, tickets: "Tickets", user_id: str) -> None:
        self._tickets: Tickets | None = tickets
        self._user_id = user_id

    def give_back(self) -> None:
        """Once; after that it changes nothing."""
        tickets, self._tickets = self._tickets, None
        if tickets is not None:
            tickets.put_back(self._user_id)


class Tickets:
    """Those that are out, by user."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._out: Counter[str] = Counter()

    def take(self, scope: Any, who: Caller) -> Ticket:
        """One more stream of a user, over this connection."""
        self.check(who)
        self._out[who.user.id] += 1
        ticket = Ticket(self, who.user.id)
        scope[HELD].append(ticket)
        return ticket

    def check(self, who: Caller) -> None:
        """Refuse who has as many as there may be."""
        if self._out[who.user.id] >= self._most:
            raise LimitReached(
                f"{who.user.name} has {self._most} streams open already. Close some, or raise "
                "server.streams_per_user.",
                limit="server.streams_per_user",
            )

    def put_back(self, user_id: str) -> None:
        self._out[user_id] -= 1
        if not self._out[user_id]:
            del self._out[user_id]

    def __len__(self) -> int:
        return self._out.total()


class Ticketed:
    """Middleware: what was taken for a connection is given back when that is over."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        held: list[Ticket] = []
        scope[HELD] = held
        try:
            await self._app(scope, receive, send)
        finally:
            for ticket in held:
                ticket.give_back()


def tickets_of(app: Any) -> Tickets:
    """Those of an application."""
    tickets: Tickets = app.state.tickets
    return tickets
