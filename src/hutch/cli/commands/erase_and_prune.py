"""`hutch erase` and `hutch prune`: erase the content of sessions, and keep the proof that it existed."""

import asyncio
import json
import re
import sys
from typing import Annotated

import typer

from hutch import settings
from hutch.app import configure_logs
from hutch.cli.local_session_lookup import find_session, open_sessions
from hutch.domain.errors import BadRequest
from hutch.flows.unerased_data import OtherPlaces, Traces, traces_of, unerased
from hutch.store.payload_retention import Pruned, prune
from hutch.system.terminal_safe_text import visible
from hutch.workspace.lifecycle.workspace_record_and_directories import Home

Session = Annotated[str, typer.Argument(metavar="SESSION", help="A session id, or 'last'.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")]

FINAL = "This cannot be undone."
_SEQS = re.compile(r"(\d{1,15})(?:-(\d{1,15}))?")


def erase_command(
    session: Session,
    seq: Annotated[
        list[str] | None,
        typer.Option(metavar="N[-M]", help="The events to erase: a number or a range. May be repeated."),
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="Erase all events of the session.")] = False,
    reason: Annotated[
        str, typer.Option(help="The reason; it is signed and shown in place of the erased content.")
    ] = "",
    yes: Yes = False,
) -> None:
    """Erase the content of events. That they happened, and in which order, stays provable."""
    if seq and everything:
        raise BadRequest("--seq and --all exclude each other. Use one of them.")
    if not seq and not everything:
        raise BadRequest("Choose the events to erase: --seq 7, --seq 3-9, or --all.")
    numbers = None if everything else _numbers(seq or [])

    async def run() -> None:
        loaded = _start()
        async with open_sessions(loaded) as log:
            session_id = await find_session(log, session)
            count = (await log.head(session_id)).seq if numbers is None else len(numbers)
            if not yes:
                _confirm(f"Erase the content of {_count(count, 'event')} of {session_id}? {FINAL}")
            traces = await traces_of(log, session_id)
            erased = await log.erase(session_id, numbers, reason=reason)
            remaining = await unerased(log, other_places(loaded.paths), session_id, traces) if erased else []
        before = f"; {count - erased} had been erased before" if erased < count else ""
        typer.echo(f"{_count(erased, 'payload')} erased{before}.", err=True)
        _print_unerased(remaining)

    asyncio.run(run())


def prune_command(
    days: Annotated[
        int | None,
        typer.Option(min=0, help="Erase sessions older than this many days; retention.days by default."),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would be erased.")] = False,
    yes: Yes = False,
    as_json: Json = False,
) -> None:
    """Erase the content of sessions that ended long ago. Their proof stays."""
    loaded = _start()
    limit = loaded.settings.retention.days if days is None else days
    if limit is None:
        raise BadRequest("There is no retention period. Set retention.days, or use --days N.")

    remaining: list[str] = []

    async def run() -> list[Pruned]:
        async with open_sessions(loaded) as log:
            found = await prune(log, days=limit, dry_run=True)
            if dry_run:
                return found
            if found and not yes:
                what = f"{_count(len(found), 'session')} that ended over {_count(limit, 'day')} ago"
                _confirm(f"Erase the content of {what}? {FINAL}")
            traces = {one.session_id: await traces_of(log, one.session_id) for one in found}
            pruned = await prune(log, days=limit)
            for one in pruned:
                known = traces.get(one.session_id, Traces())
                remaining.extend(await unerased(log, other_places(loaded.paths), one.session_id, known))
            return pruned

    pruned = asyncio.run(run())
    for one in pruned:
        if as_json:
            typer.echo(json.dumps({"session": one.session_id, "payloads": one.payloads, "dry_run": dry_run}))
        else:
            typer.echo(f"{one.session_id}  {one.payloads} payloads")
    _print_unerased(list(dict.fromkeys(remaining)))
    verb = "would be erased" if dry_run else "erased"
    typer.echo(f"{_count(len(pruned), 'session')} {verb}.", err=True)


def other_places(paths: settings.Paths) -> OtherPlaces:
    return OtherPlaces(Home(paths.data), paths.server_files, paths.server_log)


def _start() -> settings.LoadedSettings:
    loaded = settings.load()
    configure_logs(loaded)
    return loaded


def _print_unerased(remaining: list[str]) -> None:
    if remaining:
        typer.echo("Not erased, and may still contain it:", err=True)
    for line in remaining:
        typer.echo(f"  {visible(line)}", err=True)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _confirm(question: str) -> None:
    if not sys.stdin.isatty():
        raise BadRequest("There is no terminal to ask for confirmation. Use --yes to erase without it.")
    typer.confirm(question, abort=True, err=True)


def _numbers(texts: list[str]) -> set[int]:
    numbers: set[int] = set()
    for text in texts:
        found = _SEQS.fullmatch(text)
        if not found:
            raise BadRequest(f"--seq {text!r} is not an event number such as 7 or a range such as 3-9.")
        if int(found[2] or found[1]) - int(found[1]) not in range(1_000_000):
            raise BadRequest(f"--seq {text} is reversed or too long. Write a range like 3-9, or use --all.")
        numbers.update(range(int(found[1]), int(found[2] or found[1]) + 1))
    return numbers
