"""Reads the log of a session as its reader may see it, for every client.

`sessions.allowed` decides whether a caller may see the session at all. This module decides which
kind of reader the caller is, and `domain.audience.filter_entry` filters the entries.
"""

import asyncio
from dataclasses import dataclass

from hutch.domain.audience import Reader, VisibleEntry, filter_entry
from hutch.domain.ids import SessionId
from hutch.domain.session import Session
from hutch.domain.user import Caller
from hutch.flows.services import Services
from hutch.flows.sessions import allowed, reader_of


@dataclass(frozen=True, slots=True)
class EntryPage:
    """Some entries of a session, oldest first; `more`: there are entries after them."""

    session: Session
    entries: list[VisibleEntry]
    more: bool


async def read_page(
    services: Services, who: Caller, session: Session | str, *, after: int = 0, limit: int = 500
) -> EntryPage:
    """The next entries after a number, for a caller who may see the session."""
    session_id = SessionId(session if isinstance(session, str) else session.id)
    found, read = await asyncio.gather(  # concurrently, because logs are read often
        _with_reader(services, who, session),
        services.log.page(session_id, after=after, limit=limit),
        return_exceptions=True,
    )
    for problem in (found, read):  # in this order: callers without access get a 404
        if isinstance(problem, BaseException):
            raise problem
    assert isinstance(found, tuple) and isinstance(read, tuple)
    (session, reader), (entries, more) = found, read
    if more and len(entries) == limit:
        more = entries[-1].seq < (await services.log.head(session_id)).seq
    return EntryPage(session, [filter_entry(entry, reader) for entry in entries], more)


async def _with_reader(services: Services, who: Caller, session: Session | str) -> tuple[Session, Reader]:
    found = await allowed(services, who, session)
    return found, await reader_of(services, who, found)
