"""The log of a session as JSON Lines: one entry per line, for other programs.

Unlike a record it proves nothing; it is easier to read.
"""

from collections.abc import AsyncGenerator

from hutch.domain.current_actor_and_author import author_of
from hutch.domain.errors import EventsMissing
from hutch.domain.ids import SessionId
from hutch.domain.log_entry_audience import Reader, VisibleEntry, entry_json, filter_entry
from hutch.store.event_log_interface import EventLog


async def json_lines(
    log: EventLog, session_id: SessionId, reader: Reader, *, damaged: bool = False
) -> AsyncGenerator[bytes]:
    """The entries up to the present end of a log as this reader may see them, in chunks of whole lines.

    Raises `EventsMissing` at an event that is missing, unless `damaged`: then it is omitted.
    """
    newest, after = (await log.head(session_id)).seq, 0
    while after < newest:
        try:
            entries = await log.read(session_id, after=after)
        except EventsMissing as missing:
            if not damaged:
                raise
            after = missing.last
            continue
        yield b"".join(_line(filter_entry(entry, reader)) for entry in entries if entry.seq <= newest)
        after = entries[-1].seq


def _line(entry: VisibleEntry) -> bytes:
    """An entry as clients get it, and its author. Of withheld and erased events the author is not known."""
    return entry_json(entry, author=author_of(entry.event)) + b"\n"
