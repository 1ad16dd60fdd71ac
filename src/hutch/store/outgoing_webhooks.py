"""Webhooks to other systems, as rows.

A message is written in the transaction of the step that it is about. So a crash loses none, and none is sent
about a step that did not happen.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from sqlalchemy import Connection, RowMapping, delete, insert, select, update

from hutch.domain.errors import NotFound
from hutch.domain.events import Event
from hutch.domain.ids import new_webhook_message_id
from hutch.domain.interview import Interview
from hutch.domain.one_line_text import echo
from hutch.domain.outgoing_webhook import OF_LOGGED, MessageState, WebhookEndpoint, WebhookMessage
from hutch.store.outgoing_webhook_tables import webhook_endpoints, webhook_messages
from hutch.store.table_access_interface import Rows
from hutch.system.clock_without_jumps import wall_ms

RETENTION_MS = 30 * 24 * 3600 * 1000  # of messages that were delivered or have failed
MAX_ENDPOINTS = 50


class OutgoingWebhooks:
    """Endpoints and messages."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows

    async def endpoints(self) -> list[WebhookEndpoint]:
        """All of them, oldest first."""
        return await self._rows.fetch(_endpoints)

    async def endpoint(self, id: str) -> WebhookEndpoint:
        statement = select(webhook_endpoints).where(webhook_endpoints.c.id == id)
        row = await self._rows.fetch(lambda db: db.execute(statement).mappings().first())
        if row is None:
            raise NotFound(f"There is no webhook {echo(id, 80)}.")
        return _endpoint(row)

    async def add_endpoint(self, endpoint: WebhookEndpoint) -> bool:
        """False if there are too many."""
        values = {**asdict(endpoint), "events": json.dumps(endpoint.events)}

        def add(db: Connection) -> bool:
            if len(_endpoints(db)) >= MAX_ENDPOINTS:
                return False
            db.execute(insert(webhook_endpoints).values(values))
            return True

        return await self._rows.change(add)

    async def change_endpoint(self, id: str, *, events: Sequence[str] | None = None, **values: Any) -> None:
        """Change these columns; None leaves one as it is."""
        values = {name: value for name, value in values.items() if value is not None}
        if events is not None:
            values["events"] = json.dumps(list(events))
        if not values:
            return
        statement = update(webhook_endpoints).where(webhook_endpoints.c.id == id).values(values)
        await self._rows.change(lambda db: db.execute(statement))

    async def delete_endpoint(self, id: str) -> None:
        """With its messages."""

        def do(db: Connection) -> None:
            db.execute(delete(webhook_messages).where(webhook_messages.c.endpoint_id == id))
            db.execute(delete(webhook_endpoints).where(webhook_endpoints.c.id == id))

        await self._rows.change(do)

    async def messages(self, endpoint_id: str, *, before: str = "", limit: int = 50) -> list[WebhookMessage]:
        """Messages to an endpoint, newest first."""
        statement = select(webhook_messages).where(webhook_messages.c.endpoint_id == endpoint_id)
        if before:
            statement = statement.where(webhook_messages.c.id < before)
        statement = statement.order_by(webhook_messages.c.id.desc()).limit(limit)
        found = await self._rows.fetch(lambda db: db.execute(statement).mappings().all())
        return [_message(row) for row in found]

    async def due(self, now_ms: int, limit: int = 50) -> list[WebhookMessage]:
        """Messages to send now, oldest first."""
        columns = webhook_messages.c
        statement = select(webhook_messages).where(columns.state == "waiting", columns.next_ms <= now_ms)
        statement = statement.order_by(columns.next_ms, columns.id).limit(limit)
        found = await self._rows.fetch(lambda db: db.execute(statement).mappings().all())
        return [_message(row) for row in found]

    async def note_attempt(
        self, message: WebhookMessage, attempt: dict[str, object], state: MessageState, next_ms: int
    ) -> None:
        """Add an attempt to a message."""
        attempts = json.dumps([*message.attempts, attempt])
        statement = update(webhook_messages).where(webhook_messages.c.id == message.id)
        values = {"attempts": attempts, "state": state, "next_ms": next_ms}
        await self._rows.change(lambda db: db.execute(statement.values(values)))

    async def send_again(self, endpoint_id: str, message_id: str) -> None:
        """Send a message once more, under the same id."""
        here = (webhook_messages.c.id == message_id, webhook_messages.c.endpoint_id == endpoint_id)
        statement = update(webhook_messages).where(*here).values(state="waiting", next_ms=0, attempts="[]")
        if not await self._rows.change(lambda db: db.execute(statement).rowcount):
            raise NotFound(f"There is no message {echo(message_id, 80)} of this webhook.")

    async def forget_old(self, now_ms: int) -> None:
        old = (webhook_messages.c.state != "waiting", webhook_messages.c.created_ms < now_ms - RETENTION_MS)
        await self._rows.change(lambda db: db.execute(delete(webhook_messages).where(*old)))

    async def queue(self, event: str, interview: Interview | None, endpoint_id: str = "") -> None:
        """A message that belongs to no step: to all endpoints that want it, or to one."""
        await self._rows.change(lambda db: _queue(db, event, interview, {}, endpoint_id))


def queue_messages(db: Connection, interview: Interview, events: Sequence[Event]) -> None:
    """Queue the messages about these events, in the transaction that writes them."""
    for event in events:
        if name := OF_LOGGED.get(event.type):
            more = {key: getattr(event, key) for key in ("role", "cause") if hasattr(event, key)}
            _queue(db, name, interview, more)


def _queue(
    db: Connection, event: str, interview: Interview | None, more: dict[str, Any], endpoint_id: str = ""
) -> None:
    wanting = [each for each in _endpoints(db) if each.wants(event) and endpoint_id in ("", each.id)]
    now_ms = wall_ms()
    about = {"interview": interview.id, "reference": interview.plan.reference} if interview else {}
    if interview:
        about |= {"phase": interview.phase, **more}
    for endpoint in wanting:
        message = {
            "id": new_webhook_message_id(),
            "endpoint_id": endpoint.id,
            "event": event,
            "interview": interview.id if interview else "",
            "body": json.dumps({"type": event, "timestamp_ms": now_ms, "data": about}),
            "state": "waiting",
            "attempts": "[]",
            "next_ms": 0,
            "created_ms": now_ms,
        }
        db.execute(insert(webhook_messages).values(message))


def _endpoints(db: Connection) -> list[WebhookEndpoint]:
    statement = select(webhook_endpoints).order_by(webhook_endpoints.c.id)
    return [_endpoint(row) for row in db.execute(statement).mappings()]


def _endpoint(row: RowMapping) -> WebhookEndpoint:
    return WebhookEndpoint(**{**row, "events": tuple(json.loads(row["events"]))})


def _message(row: RowMapping) -> WebhookMessage:
    return WebhookMessage(**{**row, "attempts": tuple(json.loads(row["attempts"]))})
