"""`hutch log`: show the events of a session, or list the sessions."""

import asyncio
import json
import sys
from collections.abc import Callable
from contextlib import aclosing
from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from hutch import app, settings
from hutch.cli import exit_codes
from hutch.cli.local_log import NONE_YET, find_session, is_new, open_sessions, warn_of_defects
from hutch.cli.signals import stop_when_unread
from hutch.domain.audience import WHOLE, entry_json, filter_entry
from hutch.domain.errors import BadRequest, EventsMissing, NotFound
from hutch.domain.events import AnyEvent, Entry, ErasedEvent, Event, UnknownEvent, WithheldEvent
from hutch.domain.ids import SessionId
from hutch.store.interface import EventLog, Head
from hutch.store.log import SqlLog
from hutch.store.log_defects import NO_END
from hutch.store.sessions import Sessions
from hutch.system.terminal_text import printable

MAX_FIELD_CHARS = 300  # in text output; --json prints whole fields

Session = Annotated[
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
    session: Session = None, follow: Follow = False, after: After = 0, as_json: Json = False
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
    before, any_ = None, False
    if is_new(loaded):
        typer.echo(NONE_YET, err=True)
        return
    async with open_sessions(loaded) as log:
        while heads := await log.heads(before=before):
            before, any_ = heads[-1].session_id, True
            for head in heads:
                if as_json:
                    typer.echo(
                        json.dumps(
                            {
                                "session": head.session_id,
                                "events": head.seq,
                                "opened_ms": head.opened_ms,
                                "at_ms": head.at_ms,
                                "ended": head.ended,
                                "hash": head.hash,
                            }
                        )
                    )
                else:
                    state = "ended" if head.ended else "open"
                    typer.echo(f"{head.session_id}  {_time(head.opened_ms)}  {state:<5}  {head.seq} events")
    if not any_:
        typer.echo(NONE_YET, err=True)


async def _show_events(session: str, follow: bool, after: int, as_json: bool) -> int:
    loaded = settings.load()
    app.configure_logs(loaded)
    print_entry = _show_json if as_json else _show_line
    async with open_sessions(loaded) as log:
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


def _show_line(entry: Entry) -> None:
    typer.echo(
        f"{entry.seq:>6}  {_time(entry.at_ms)}  {entry.event.type:<16} {printable(_summary(entry.event))}"
    )


def _summary(event: AnyEvent) -> str:
    """An event's fields in one line, without the type."""
    match event:
        case WithheldEvent():
            return "(withheld)"
        case ErasedEvent():
            return f"(erased {_time(event.at_ms)}{f': {event.reason}' if event.reason else ''})"
        case UnknownEvent():
            return f"(from a newer Hutch) {event.payload.decode(errors='replace')}"
        case Event():
            fields: dict[str, Any] = event.model_dump(exclude={"type", "v"}, exclude_defaults=True)
            return "  ".join(f"{name}={_short(value)}" for name, value in fields.items())


def _short(value: Any) -> str:
    text = str(value)
    return text if len(text) <= MAX_FIELD_CHARS else f"{text[:MAX_FIELD_CHARS]}… ({len(text)} characters)"


def _time(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")
