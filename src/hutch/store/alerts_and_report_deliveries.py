"""Alerts, each once, and the deliveries of reports, each at most once, as rows."""

from collections.abc import Collection
from typing import Any, Literal

from sqlalchemy import Connection, insert, or_, select, update
from sqlalchemy.dialects.sqlite import insert as upsert

from hutch.store.analytics_tables import alerts, report_deliveries
from hutch.store.schema import sessions, users
from hutch.store.shares import shared_with
from hutch.store.table_access_interface import Rows
from hutch.system.lazy_dataclass import dataclass

AlertKind = Literal["budget", "no_progress", "tool_errors", "provider", "unpriced"]
MAX_ATTEMPTS = 5
MAX_ALERTS = 200


@dataclass(frozen=True, slots=True)
class NewAlert:
    """An alert. Another one with the same key is the same alert."""

    key: str
    kind: AlertKind
    text: str
    user_id: str = ""  # whom it concerns; empty: owners
    session_id: str = ""


@dataclass(frozen=True, slots=True)
class Alert:
    """A stored alert."""

    id: int
    at_ms: int
    kind: AlertKind
    text: str
    user_id: str
    session_id: str


class Alerts:
    """Reads and writes alerts."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows

    async def add(self, found: Collection[NewAlert], now_ms: int) -> None:
        rows = [
            {**{name: getattr(each, name) for name in NewAlert.__dataclass_fields__}, "at_ms": now_ms}
            for each in found
        ]
        if rows:
            adding = upsert(alerts).on_conflict_do_nothing(index_elements=["key"])
            await self._rows.change(lambda connection: connection.execute(adding, rows))

    async def newest(self, *, viewer: str | None = None, since_ms: int = 0, limit: int = 50) -> list[Alert]:
        """The newest first; with a viewer, those of their own sessions and of sessions shared with them.

        Texts are stored with ids of users, because erasing a user must erase the name.
        """
        columns = (alerts.c[name] for name in Alert.__dataclass_fields__)
        statement = select(*columns, users.c.name).outerjoin_from(
            alerts, users, (alerts.c.user_id != "") & (users.c.id == alerts.c.user_id)
        )
        statement = statement.where(alerts.c.at_ms >= since_ms).order_by(alerts.c.id.desc())
        if viewer is not None:
            own = select(sessions.c.id).where(sessions.c.owner == viewer)
            is_visible = alerts.c.session_id.in_(own) | alerts.c.session_id.in_(shared_with(viewer))
            statement = statement.where(or_(alerts.c.user_id == viewer, is_visible))
        statement = statement.limit(min(limit, MAX_ALERTS))
        found = await self._rows.fetch(lambda connection: connection.execute(statement).mappings().all())
        return [_named(**row) for row in found]


def _named(name: str | None, text: str, user_id: str, **fields: Any) -> Alert:
    return Alert(text=text.replace(user_id, name) if name else text, user_id=user_id, **fields)


class Deliveries:
    """Claims the right to send a report over a channel. A claim outlives a crash: nothing is sent twice."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows

    async def claim(self, report: str, channel: str, now_ms: int) -> bool:
        """True if the caller must send it now. A failed attempt may be repeated; one in doubt may not."""
        table = report_deliveries
        here = (table.c.report == report) & (table.c.channel == channel)

        def do(connection: Connection) -> bool:
            row = connection.execute(select(table).where(here)).first()
            if row is None:
                new = {"report": report, "channel": channel, "state": "sending", "problem": ""}
                connection.execute(insert(table).values(**new, attempts=1, at_ms=now_ms))
                return True
            if row.state != "failed" or row.attempts >= MAX_ATTEMPTS:
                return False
            wait_ms = 60_000 * 2**row.attempts
            if row.at_ms + wait_ms > now_ms:
                return False
            again = {"state": "sending", "attempts": row.attempts + 1, "at_ms": now_ms}
            connection.execute(update(table).where(here).values(again))
            return True

        return await self._rows.change(do)

    async def finish(self, report: str, channel: str, state: str, problem: str, now_ms: int) -> None:
        """Note the result: `sent`, `failed` (nothing arrived), or `unknown` (it may have arrived)."""
        table = report_deliveries
        here = (table.c.report == report) & (table.c.channel == channel)
        values = {"state": state, "problem": problem[:500], "at_ms": now_ms}
        await self._rows.change(
            lambda connection: connection.execute(update(table).where(here).values(values))
        )

    async def states(self, report: str) -> dict[str, str]:
        """The states of a report's deliveries by channel."""
        statement = select(report_deliveries).where(report_deliveries.c.report == report)
        found = await self._rows.fetch(lambda connection: connection.execute(statement).all())
        return {row.channel: row.state for row in found}
