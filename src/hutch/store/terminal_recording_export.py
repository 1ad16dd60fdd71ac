"""Exports the recording of a terminal from a session's log, while the terminal runs or long after."""

import json
from collections.abc import AsyncGenerator

from sqlalchemy import ColumnElement, and_, func, select

from hutch.domain.asciicast import TerminalRecording
from hutch.domain.errors import NotFound
from hutch.domain.events import TerminalOpened
from hutch.domain.ids import SessionId
from hutch.domain.log_entry_audience import Reader, filter_entry
from hutch.domain.one_line_text import echo
from hutch.store.event_log_interface import EventLog
from hutch.store.schema import events, logs
from hutch.store.table_access_interface import Rows

PAGE_ENTRIES = 200


async def count_terminals(rows: Rows, session_id: SessionId) -> int:
    """How many terminals were opened in a session so far."""
    statement = select(func.count()).select_from(events).where(_openings(session_id))
    return await rows.fetch(lambda connection: connection.execute(statement).scalar_one())


async def find_terminal(
    log: EventLog, rows: Rows, session_id: SessionId, terminal: str, reader: Reader
) -> int:
    """The number of the event that opened a terminal: the last one, where old logs have several of an id.

    Raises `NotFound` if there is none that this reader may see.
    """
    statement = select(events.c.seq, events.c.payload).where(
        _openings(session_id), events.c.payload.is_not(None)
    )
    found = await rows.fetch(lambda connection: connection.execute(statement).all())
    seqs = [seq for seq, payload in found if json.loads(payload).get("terminal") == terminal]
    for seq in sorted(seqs, reverse=True):
        for entry in await log.read(session_id, after=seq - 1, limit=1):
            if isinstance(filter_entry(entry, reader).event, TerminalOpened):
                return int(seq)
    raise NotFound(f"The log of session {session_id} has no terminal {echo(terminal, 40)}.")


async def export_terminal(
    log: EventLog, session_id: SessionId, terminal: str, reader: Reader, *, opened: int
) -> AsyncGenerator[bytes]:
    """Yield the recording in chunks of whole lines, up to the end of the terminal or of the log. `opened` is
    the number from `find_terminal`."""
    recording = TerminalRecording(terminal)
    after, last = opened - 1, (await log.head(session_id)).seq
    while after < last and not recording.has_ended:
        page = await log.read(session_id, after=after, limit=min(PAGE_ENTRIES, last - after))
        if not page:
            return
        after = page[-1].seq
        if chunk := b"".join(line for entry in page for line in recording.lines(filter_entry(entry, reader))):
            yield chunk


def _openings(session_id: SessionId) -> ColumnElement[bool]:
    log_id = select(logs.c.id).where(logs.c.session_id == session_id).scalar_subquery()
    return and_(events.c.log_id == log_id, events.c.type == "terminal.opened")
