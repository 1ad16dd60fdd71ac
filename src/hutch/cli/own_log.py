"""What the commands on this machine's own records share: the log they open, and which session is meant."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from hutch import settings
from hutch.app.records import EventLog, event_log
from hutch.domain.errors import NotFound
from hutch.domain.ids import SessionId, parse_session_id

NONE_YET = "There are no sessions yet. `make demo` records one."


@asynccontextmanager
async def open_sessions(loaded: settings.Loaded) -> AsyncIterator[EventLog]:
    """The event log of an installation that has one; looking does not make one."""
    if not loaded.paths.database.exists():
        raise NotFound(NONE_YET)
    async with event_log(loaded.paths) as log:
        yield log


async def find_session(log: EventLog, text: str) -> SessionId:
    """The session with this id; `last` is the one that was opened last."""
    if text != "last":
        return parse_session_id(text)
    heads = await log.heads(limit=1)
    if not heads:
        raise NotFound(NONE_YET)
    return heads[0].session_id
