"""Webhook deliveries of forges, as rows.

A delivery is accepted once, even if the same content arrives again under another id.
"""

from dataclasses import asdict
from typing import Any

from sqlalchemy import Connection, delete, insert, or_, select, update

from hutch.domain.request_from_forge import WebhookDelivery
from hutch.domain.session import SessionInput
from hutch.store.schema import deliveries
from hutch.store.session_creation import OpenedSession
from hutch.store.table_access_interface import Rows
from hutch.system.clock_without_jumps import STEADY, SteadyClock, wall_ms
from hutch.system.lazy_dataclass import dataclass

RETENTION_MS = 400 * 24 * 3600 * 1000
MAX_WAIT_MS = 1800 * 1000  # before a retry


class WebhookInbox:
    """The queue of received webhooks, and the record of processed ones."""

    def __init__(self, rows: Rows, clock: SteadyClock = STEADY) -> None:
        self._rows = rows
        self._clock = clock

    async def add(self, delivery: WebhookDelivery) -> bool:
        """Store a delivery; False if its id or its content was received before."""
        same = or_(deliveries.c.id == delivery.id, deliveries.c.digest == delivery.digest)

        def take(connection: Connection) -> bool:
            old = deliveries.c.at_ms < self._clock.now_ms() - RETENTION_MS
            connection.execute(delete(deliveries).where(old))
            if connection.execute(select(deliveries.c.id).where(same)).first():
                return False
            connection.execute(insert(deliveries).values(asdict(delivery)))
            return True

        return await self._rows.change(take)

    async def list_open(self, *, limit: int = 100) -> list[WebhookDelivery]:
        """Deliveries that are due or in progress, oldest first."""
        now = wall_ms()
        # A time further ahead than the longest wait means that the clock was set back since: treat it as due.
        put_off = deliveries.c.next_ms.between(now + 1, now + MAX_WAIT_MS)
        due = (deliveries.c.state == "queued") & ~put_off
        statement = select(deliveries).where(due | (deliveries.c.state == "working"))
        statement = statement.order_by(deliveries.c.at_ms, deliveries.c.id).limit(limit)
        found = await self._rows.fetch(lambda connection: connection.execute(statement).mappings().all())
        return [WebhookDelivery(**row) for row in found]

    async def get(self, id: str) -> WebhookDelivery | None:
        statement = select(deliveries).where(deliveries.c.id == id)
        row = await self._rows.fetch(lambda connection: connection.execute(statement).mappings().first())
        return WebhookDelivery(**row) if row else None

    async def update(self, id: str, **values: Any) -> None:
        await self._rows.change(lambda connection: note(connection, id, **values))


@dataclass(frozen=True, slots=True)
class StartedInSession:
    """Marks a delivery as in progress, in the transaction that opens its session."""

    delivery_id: str

    def write(self, connection: Connection, made: OpenedSession) -> None:
        note(connection, self.delivery_id, state="working", session_id=made.session.id)


@dataclass(frozen=True, slots=True)
class StartedByInput:
    """Marks a delivery as in progress, in the transaction that adds its input to a session."""

    delivery_id: str

    def write(self, connection: Connection, made: SessionInput) -> None:
        note(connection, self.delivery_id, state="working", session_id=made.session_id, input=made.seq)


async def is_from_forge(rows: Rows, session_id: str, input: int) -> bool:
    """True if a delivery of a forge opened the session, or gave it this input."""
    here = (deliveries.c.session_id == session_id, deliveries.c.input == input)
    statement = select(deliveries.c.id).where(*here).limit(1)
    return await rows.fetch(lambda connection: connection.scalar(statement) is not None)


def note(connection: Connection, id: str, **values: Any) -> None:
    """Update the progress of a delivery; a finished one no longer needs its text."""
    if values.get("state") in ("ended", "ignored"):
        values["request"] = ""
    connection.execute(update(deliveries).where(deliveries.c.id == id).values(values))
