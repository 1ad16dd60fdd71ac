"""`hutch log`: show the events of a session, or list the sessions."""

import asyncio
import json
import os
import shutil
import sys
from collections.abc import Callable, Sequence
from contextlib import aclosing
from functools import partial
from typing import Annotated, Any, NamedTuple

import typer

from hutch import settings
from hutch.app import configure_logs
from hutch.cli import exit_codes
from hutch.cli.local_session_lookup import NONE_YET, find_session, is_new, open_sessions, warn_of_defects
from hutch.cli.recorded_change_display import show_changed
from hutch.cli.render.event_line import Names, event_line, utc_time
from hutch.cli.render.session_rows import log_table
from hutch.cli.render.terminal_line_layout import UNBOUNDED
from hutch.cli.signals_and_closed_output import stop_when_unread
from hutch.domain.errors import BadRequest, EventsMissing, NotFound
from hutch.domain.event_query import EventQuery, parse_query
from hutch.domain.events import Entry, SessionOpened
from hutch.domain.ids import SessionId
from hutch.domain.log_entry_audience import WHOLE, entry_json, filter_entry
from hutch.domain.session import Session
from hutch.flows.log_visible_to_reader import find_authors
from hutch.store.event_log import SqlLog
from hutch.store.event_log_interface import EventLog, Head
from hutch.store.log_damage_check import NO_END
from hutch.store.sessions import Sessions
from hutch.store.users import Users
from hutch.system.clock_without_jumps import wall_ms

SEARCH_PAGE = 200
SessionName = Annotated[
    str | None,
    typer.Argument(
        metavar="SESSION",
        help="A session's id, a unique prefix or suffix of it, or 'last'. By default, list all sessions.",
    ),
]
Follow = Annotated[bool, typer.Option("--follow", "-f", help="Follow the log until the session ends.")]
After = Annotated[int, typer.Option(min=0, metavar="SEQ", help="Start after this event.")]
Grep = Annotated[
    str,
    typer.Option(
        "--grep", metavar="TEXT", help="Only events with this text, in the line or a field; case is ignored."
    ),
]
Kind = Annotated[
    list[str] | None,
    typer.Option(
        metavar="KIND",
        help="Only events of this type (command.started) or group (command.). May be repeated.",
    ),
]
By = Annotated[
    list[str] | None,
    typer.Option(
        metavar="AUTHOR",
        help="Only events by this user, 'agent' or 'hutch', and changes that they may have made: 'perhaps "
        "by'. May be repeated.",
    ),
]
Since = Annotated[
    str, typer.Option(metavar="TIME", help="Only events from this time on: 30m, 2h, 7d ago, or a date (UTC).")
]
Until = Annotated[str, typer.Option(metavar="TIME", help="Only events up to this time.")]
Newest = Annotated[bool, typer.Option("--newest-first", "-r", help="Show the newest event first.")]
Limit = Annotated[int | None, typer.Option("--limit", "-n", min=1, metavar="N", help="Stop after N events.")]
Diff = Annotated[
    int, typer.Option(min=0, metavar="SEQ", help="Show the diff of this event, if it changed files.")
]
Content = Annotated[
    int, typer.Option(min=0, metavar="SEQ", help="Print the file that this event changed, after the change.")
]
Before = Annotated[bool, typer.Option("--before", help="With --content: the file before the change.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object per line.")]


class LogFilter(NamedTuple):
    """The events to show."""

    after: int
    limit: int | None
    newest_first: bool
    text: str
    kinds: Sequence[str]
    by: Sequence[str]
    since: str
    until: str

    async def query(self, log: SqlLog) -> EventQuery:
        """The search without the text, which is also searched for in the lines as they are shown."""
        parse_query(text=self.text, now_ms=wall_ms())  # refuses a text that is too long
        return parse_query(
            kinds=self.kinds,
            authors=await find_authors(log, self.by) if self.by else None,
            since=self.since,
            until=self.until,
            now_ms=wall_ms(),
        )

    @property
    def is_search(self) -> bool:
        return any((self.limit, self.newest_first, self.text, self.kinds, self.by, self.since, self.until))


def log_command(
    session: SessionName = None,
    follow: Follow = False,
    after: After = 0,
    grep: Grep = "",
    kind: Kind = None,
    by: By = None,
    since: Since = "",
    until: Until = "",
    newest_first: Newest = False,
    limit: Limit = None,
    diff: Diff = 0,
    content: Content = 0,
    before: Before = False,
    as_json: Json = False,
) -> int:
    """Show the events of a session, or list the sessions. Exits with 3 when events are missing.

    Conditions can be combined. With --follow they also apply to new events. With --diff or --content, show
    what a file.changed event changed.
    """
    chosen = LogFilter(after, limit, newest_first, grep, kind or (), by or (), since, until)
    if session is None and (follow or after or chosen.is_search or diff or content):
        raise BadRequest("Name a session: hutch log last, or use its id.")
    if before and not content:
        raise BadRequest("--before belongs to --content: hutch log last --content SEQ --before.")
    if session is not None and (diff or content):
        asyncio.run(show_changed(session, diff, content, "before" if before else "after"))
        return exit_codes.OK
    if session is None:
        asyncio.run(_list_sessions(as_json))
        return exit_codes.OK
    if follow and newest_first:
        raise BadRequest("--follow shows the oldest event first. Omit it or --newest-first.")
    return asyncio.run(_show_events(session, follow, chosen, as_json))


async def _list_sessions(as_json: bool) -> None:
    loaded = settings.load()
    configure_logs(loaded)
    if is_new(loaded):
        typer.echo(NONE_YET, err=True)
        return
    columns = shutil.get_terminal_size().columns if os.isatty(1) else UNBOUNDED
    before: SessionId | None = None
    async with open_sessions(loaded) as log:
        while heads := await log.heads(before=before):
            rows = [await _row(log, head, found) for head, found in await _with_sessions(log, heads)]
            for row in rows:
                if as_json:
                    typer.echo(json.dumps(row))
            if not as_json:
                for line in log_table(rows, columns, head=before is None):
                    typer.echo(line)
            before = heads[-1].session_id
    if before is None:
        typer.echo(NONE_YET, err=True)


async def _with_sessions(log: SqlLog, heads: Sequence[Head]) -> list[tuple[Head, Session | None]]:
    """Logs with their sessions. Logs of older versions and of the MCP server have none."""
    found = await Sessions(log).get_many([head.session_id for head in heads])
    return [(head, found.get(head.session_id)) for head in heads]


async def _row(log: SqlLog, head: Head, session: Session | None) -> dict[str, Any]:
    """A row of the list."""
    return {
        "session": head.session_id,
        "purpose": session.purpose if session else await _purpose(log, head.session_id),
        "repository": session.repository if session else "",
        "state": "ended" if head.ended else session.state if session else "open",
        "events": head.seq,
        "opened_ms": head.opened_ms,
        "at_ms": head.at_ms,
        "ended": head.ended,
        "hash": head.hash,
    }


async def _purpose(log: SqlLog, session_id: SessionId) -> str:
    """The purpose in a log's first event."""
    try:
        first = await log.read(session_id, limit=1)
    except EventsMissing:
        return ""
    return first[0].event.purpose if first and isinstance(first[0].event, SessionOpened) else ""


async def _show_events(session: str, follow: bool, chosen: LogFilter, as_json: bool) -> int:
    loaded = settings.load()
    configure_logs(loaded)
    async with open_sessions(loaded) as log:
        names: Names = {user.id: user.name for user in await Users(log).list()}
        print_entry = _show_json if as_json else partial(_show_line, names)
        matches = partial(_has_text, names, chosen.text)
        session_id = await find_session(log, session)
        query = await chosen.query(log)
        head, after = await log.head(session_id), chosen.after
        if after > head.seq:
            raise BadRequest(
                f"Session {session_id} has only {head.seq} events; there is none after {after} yet."
            )
        defects = await log.defects(session_id)
        if follow:
            defects = defects or await _missing_end(log, head)
        warn_of_defects(session_id, defects)
        if follow:
            await _follow(log, session_id, chosen, query, matches, print_entry, is_damaged=bool(defects))
        elif chosen.is_search:
            await _search(log, session_id, chosen, query, matches, print_entry)
        else:
            await _show_all(log, session_id, after, print_entry)
    return exit_codes.NO if defects else exit_codes.OK


async def _follow(
    log: SqlLog,
    session_id: SessionId,
    chosen: LogFilter,
    query: EventQuery,
    matches: Callable[[Entry], bool],
    print_entry: Callable[[Entry], None],
    *,
    is_damaged: bool,
) -> None:
    """Show events and wait for new ones, until the session ends or `limit` events were shown."""
    shown, after = 0, chosen.after

    def show(entry: Entry) -> bool:
        """False after the last event to show."""
        nonlocal shown
        if not chosen.is_search or (query.matches(filter_entry(entry, WHOLE)) and matches(entry)):
            print_entry(entry)
            sys.stdout.flush()
            shown += 1
        return shown != chosen.limit

    if is_damaged:  # missing events will not arrive; reading up to one raises an error naming it
        while page := await log.read(session_id, after=after):
            if not all(show(entry) for entry in page):
                return
            after = page[-1].seq
        return
    async with stop_when_unread(), aclosing(log.follow(session_id, after=after)) as entries:
        async for entry in entries:
            if not show(entry):
                return


async def _search(
    log: SqlLog,
    session_id: SessionId,
    chosen: LogFilter,
    query: EventQuery,
    matches: Callable[[Entry], bool],
    print_entry: Callable[[Entry], None],
) -> None:
    """Show the events that match."""
    shown, at = 0, None if chosen.newest_first else chosen.after
    while at is None or shown != chosen.limit:
        found = await log.search(
            session_id, query, WHOLE, after=at, limit=SEARCH_PAGE, newest_first=chosen.newest_first
        )
        for entry in found.entries:
            if entry.seq <= chosen.after or shown == chosen.limit:
                break
            if matches(entry):
                print_entry(entry)
                shown += 1
        at = found.next
        if at is None or at <= chosen.after:
            break
    if not shown:
        typer.echo("No event matches.", err=True)


async def _missing_end(log: SqlLog, head: Head) -> list[str]:
    """The defect NO_END when the session's row says that it ended and its log does not, else nothing.

    Sessions that older versions ran without a server have a log but no row.
    """
    try:
        session = await Sessions(log).get(head.session_id)
    except NotFound:
        return []
    return [NO_END] if session.state == "ended" and not head.ended else []


async def _show_all(
    log: EventLog, session_id: SessionId, after: int, print_entry: Callable[[Entry], None]
) -> None:
    """Show every stored event, skipping missing ones."""
    while True:
        try:
            page = await log.read(session_id, after=after)
        except EventsMissing as missing:
            after = missing.last
            continue
        if not page:
            return
        for entry in page:
            print_entry(entry)
        after = page[-1].seq


def _show_json(entry: Entry) -> None:
    line = entry_json(filter_entry(entry, WHOLE)).decode()
    typer.echo(f'{{"session":"{entry.session_id}",{line[1:]}')


def _line(names: Names, entry: Entry) -> str:
    line = event_line(entry.event, names)
    return f"{entry.seq:>6}  {utc_time(entry.at_ms)}  {entry.event.type:<17} {line}".rstrip()


def _show_line(names: Names, entry: Entry) -> None:
    typer.echo(_line(names, entry))


def _has_text(names: Names, text: str, entry: Entry) -> bool:
    """True when a text is in the line of an event as it is shown, or in one of its fields."""
    return text.casefold() in _line(names, entry).casefold() or EventQuery(text=text).matches(
        filter_entry(entry, WHOLE)
    )
