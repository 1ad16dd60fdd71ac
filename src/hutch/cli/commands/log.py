"""`hutch log`: show the events of a session, or list the sessions."""

import asyncio
import json
import os
import shutil
import sys
from collections.abc import Callable, Sequence
from contextlib import aclosing
from functools import partial
from typing import Annotated, Any

import typer

from hutch import app, settings
from hutch.cli import exit_codes
from hutch.cli.local_event_log import NONE_YET, find_session, is_new, open_sessions, warn_of_defects
from hutch.cli.render.event_line import Names, event_line, utc_time
from hutch.cli.render.session_rows import log_table
from hutch.cli.render.terminal_lines import UNBOUNDED
from hutch.cli.signals import stop_when_unread
from hutch.domain.audience import WHOLE, entry_json, filter_entry
from hutch.domain.errors import BadRequest, EventsMissing, NotFound
from hutch.domain.events import Entry, SessionOpened
from hutch.domain.ids import SessionId
from hutch.domain.session import Session
from hutch.store.event_log import SqlLog
from hutch.store.interface import EventLog, Head
from hutch.store.log_damage_check import NO_END
from hutch.store.sessions import Sessions
from hutch.store.users import Users

SessionName = Annotated[
    str | None,
    typer.Argument(
        metavar="SESSION",
        help="A session's id, a unique prefix or suffix of it, or 'last'. By default, list all sessions.",
    ),
]
Follow = Annotated[bool, typer.Option("--follow", "-f", help="Follow the log until the session ends.")]
After = Annotated[int, typer.Option(min=0, metavar="SEQ", help="Start after this event.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object per line.")]


def log_command(
    session: SessionName = None, follow: Follow = False, after: After = 0, as_json: Json = False
) -> int:
    """Show the events of a session, or list the sessions. Exits with 3 when events are missing."""
    if session is None and (follow or after):
        raise BadRequest("Name a session: hutch log last --follow, or use its id.")
    if session is None:
        asyncio.run(_list_sessions(as_json))
        return exit_codes.OK
    return asyncio.run(_show_events(session, follow, after, as_json))


async def _list_sessions(as_json: bool) -> None:
    loaded = settings.load()
    app.configure_logs(loaded)
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


async def _show_events(session: str, follow: bool, after: int, as_json: bool) -> int:
    loaded = settings.load()
    app.configure_logs(loaded)
    async with open_sessions(loaded) as log:
        names: Names = {user.id: user.name for user in await Users(log).list()}
        print_entry = _show_json if as_json else partial(_show_line, names)
        session_id = await find_session(log, session)
        head = await log.head(session_id)
        if after > head.seq:
            raise BadRequest(
                f"Session {session_id} has only {head.seq} events; there is none after {after} yet."
            )
        defects = await log.defects(session_id)
        if follow:
            defects = defects or await _missing_end(log, head)
        warn_of_defects(session_id, defects)
        if follow and defects:  # missing events will not arrive; reading up to one raises an error naming it
            while page := await log.read(session_id, after=after):
                for entry in page:
                    print_entry(entry)
                after = page[-1].seq
        elif follow:
            async with stop_when_unread(), aclosing(log.follow(session_id, after=after)) as entries:
                async for entry in entries:
                    print_entry(entry)
                    sys.stdout.flush()
        else:
            await _show_all(log, session_id, after, print_entry)
    return exit_codes.NO if defects else exit_codes.OK


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


def _show_line(names: Names, entry: Entry) -> None:
    line = event_line(entry.event, names)
    typer.echo(f"{entry.seq:>6}  {utc_time(entry.at_ms)}  {entry.event.type:<17} {line}".rstrip())
