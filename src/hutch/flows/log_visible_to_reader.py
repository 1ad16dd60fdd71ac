"""Reads the log of a session as its reader may see it, for every client.

`sessions.allowed` decides whether a caller may see the session at all. This module decides which
kind of reader the caller is, and `filter_entry` filters the entries.
"""

import asyncio
from collections.abc import Sequence

from hutch.domain.current_actor_and_author import AGENT, HUTCH
from hutch.domain.errors import BadRequest, NotFound
from hutch.domain.event_query import MAX_VALUES, parse_query
from hutch.domain.ids import SessionId
from hutch.domain.log_entry_audience import Reader, VisibleEntry, filter_entry
from hutch.domain.session import Session
from hutch.domain.user import Caller
from hutch.flows.flow_services import Services
from hutch.flows.sessions import allowed, reader_of
from hutch.store.event_log_interface import SearchResult
from hutch.store.table_access_interface import Rows
from hutch.store.users import Users
from hutch.system.clock_without_jumps import wall_ms
from hutch.system.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class EntryPage:
    """Some entries of a session, oldest first; `more`: there are entries after them, or before them."""

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


async def read_page_before(
    services: Services, who: Caller, session_id: str, *, before: int, limit: int
) -> EntryPage:
    """The last entries before a number, for a caller who may see the session."""
    session, reader = await _with_reader(services, who, session_id)
    entries = await services.log.page_before(session.id, before=before, limit=limit)
    more = bool(entries) and entries[0].seq > 1
    return EntryPage(session, [filter_entry(entry, reader) for entry in entries], more)


@dataclass(frozen=True, slots=True)
class Search:
    """A search in a log, as a caller writes it; see `domain.event_query`."""

    text: str = ""
    kinds: Sequence[str] = ()
    by: Sequence[str] = ()  # names or ids of users, `agent`, `hutch`
    since: str = ""
    until: str = ""
    newest_first: bool = False


async def search_events(
    services: Services,
    who: Caller,
    session: Session | str,
    search: Search,
    *,
    after: int | None = None,
    limit: int = 100,
) -> SearchResult:
    """The next entries that match, for a caller who may see the session."""
    found, reader = await _with_reader(services, who, session)
    query = parse_query(
        text=search.text,
        kinds=search.kinds,
        authors=await find_authors(services.rows, search.by, lenient=not who.is_owner) if search.by else None,
        since=search.since,
        until=search.until,
        now_ms=wall_ms(),
    )
    return await services.log.search(
        found.id, query, reader, after=after, limit=limit, newest_first=search.newest_first
    )


async def find_authors(rows: Rows, names: Sequence[str], *, lenient: bool = False) -> frozenset[str]:
    """The authors that these names mean: ids of users, `agent`, `hutch`.

    Refuses an unknown name, unless `lenient`: then it matches no event, as the name of a user who wrote none
    does. Callers who may not list the users learn no names from it.
    """
    if len(names) > MAX_VALUES:
        raise BadRequest(f"A search has at most {MAX_VALUES} authors.")
    authors: set[str] = set()
    for name in names:
        if name in (AGENT, HUTCH):
            authors.add(name)
            continue
        try:
            authors.add((await Users(rows).find(name)).id)
        except NotFound:
            if not lenient:
                raise
    return frozenset(authors)


async def _with_reader(services: Services, who: Caller, session: Session | str) -> tuple[Session, Reader]:
    found = await allowed(services, who, session)
    return found, await reader_of(services, who, found)
