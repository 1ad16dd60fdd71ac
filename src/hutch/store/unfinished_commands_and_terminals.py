"""Terminals and commands that were open in a jail when the last event of a log was written."""

import json
from collections import Counter

from sqlalchemy import func, select

from hutch.domain.ids import SessionId
from hutch.store.schema import events, logs
from hutch.store.table_access_interface import Rows
from hutch.system.lazy_dataclass import dataclass

JAIL_TYPES = ("session.prepared", "session.woken", "session.parked")  # a jail was opened, or closed
START_TYPES = ("terminal.opened", "command.started")
END_TYPES = ("terminal.ended", "command.ended")


@dataclass(frozen=True, slots=True)
class UnfinishedWork:
    """The ids of terminals, and the number of commands, whose end is not in the log."""

    terminals: tuple[str, ...] = ()
    commands: int = 0

    def __bool__(self) -> bool:
        return bool(self.terminals or self.commands)


async def find_unfinished_work(rows: Rows, session_id: SessionId) -> UnfinishedWork:
    """Find terminals and commands that the last jail started and did not end. Ignores erased events."""
    log_id = select(logs.c.id).where(logs.c.session_id == session_id).scalar_subquery()
    here = events.c.log_id == log_id
    since = select(func.max(events.c.seq)).where(here, events.c.type.in_(JAIL_TYPES)).scalar_subquery()
    statement = select(events.c.type, events.c.payload).where(
        here,
        events.c.seq > func.coalesce(since, 0),
        events.c.type.in_((*START_TYPES, *END_TYPES, "events.omitted")),
        events.c.payload.is_not(None),
    )
    statement = statement.order_by(events.c.seq)
    open_: Counter[tuple[str, str]] = Counter()
    for type_, payload in await rows.fetch(lambda connection: connection.execute(statement).all()):
        event = json.loads(payload)
        if type_ == "events.omitted":
            if event.get("cause") == "crash":  # everything that was open has ended, and this is recorded
                open_.clear()
            continue
        kind, _, happened = type_.partition(".")
        name = event.get("terminal") or event.get("shell", "")
        open_[kind, name] += -1 if happened == "ended" else 1
    terminals = tuple(name for (kind, name), count in open_.items() if kind == "terminal" and count > 0)
    return UnfinishedWork(
        terminals, sum(max(0, count) for (kind, _), count in open_.items() if kind == "command")
    )
