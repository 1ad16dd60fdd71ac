"""`hutch export`, `receipt`, `erase` and `prune`: what is kept of a session, and for whom."""

import asyncio
import json
import re
import sys
from pathlib import Path
from typing import Annotated

import typer

from hutch import app, settings
from hutch.cli.sessions import find_session
from hutch.domain.errors import BadRequest

Session = Annotated[str, typer.Argument(metavar="SESSION", help="A session id, or 'last'.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]

_SEQS = re.compile(r"(\d{1,15})(?:-(\d{1,15}))?")


def export_command(
    session: Session,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="Where to write; SESSION.zip by default."),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace the file if it is there.")] = False,
    as_json: Json = False,
) -> None:
    """Write the record of a session to a file that anybody can verify offline."""

    async def run() -> None:
        loaded = _start()
        async with app.event_log(loaded.paths) as log:
            session_id = await find_session(log, session)
            path = output or Path(f"{session_id}.zip")
            head = await app.export(log, session_id, path, overwrite=force)
        if as_json:
            result = {"file": str(path), "session": session_id, "events": head.seq, "hash": head.hash}
            typer.echo(json.dumps(result))
        else:
            typer.echo(
                f"{head.seq} events written to {path}. Anybody can check it: hutch verify {path}", err=True
            )

    asyncio.run(run())


def receipt_command(
    session: Session,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Where to write; stdout by default.")
    ] = None,
) -> None:
    """Sign what the log of a session says now, to be kept elsewhere.

    A record that was cut or rewritten later does not agree with it: hutch verify --receipt.
    """

    async def run() -> None:
        loaded = _start()
        async with app.event_log(loaded.paths) as log:
            receipt = await log.receipt(await find_session(log, session))
        text = json.dumps(receipt.to_json()) + "\n"
        if output is None:
            sys.stdout.write(text)
        else:
            output.write_text(text)
            typer.echo(f"Receipt for event {receipt.seq} written to {output}.", err=True)

    asyncio.run(run())


def erase_command(
    session: Session,
    seq: Annotated[
        list[str] | None,
        typer.Option(metavar="N[-M]", help="Which events: a number or a range. May be repeated."),
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="All events of the session.")] = False,
    reason: Annotated[
        str, typer.Option(help="Why; it is signed and shown in place of what was erased.")
    ] = "",
    yes: Yes = False,
) -> None:
    """Erase what events said. That they happened, and in which order, stays provable."""
    if bool(seq) == everything:
        raise BadRequest("Say which events to erase: --seq 7, --seq 3-9, or --all.")
    wanted = None if everything else _numbers(seq or [])
    what = "every event" if wanted is None else f"{len(wanted)} event{'' if len(wanted) == 1 else 's'}"
    if not yes:
        _confirm(f"Erase what {what} of {session} said? This cannot be undone.")

    async def run() -> None:
        loaded = _start()
        async with app.event_log(loaded.paths) as log:
            session_id = await find_session(log, session)
            erased = await log.erase(session_id, wanted, reason=reason)
        typer.echo(f"{erased} payload{'' if erased == 1 else 's'} erased.", err=True)
        backups = sorted((loaded.paths.data / "backups").glob("*.db"))
        if erased and backups:
            typer.echo(f"Backups may still hold them: {', '.join(map(str, backups))}", err=True)

    asyncio.run(run())


def prune_command(
    days: Annotated[
        int | None, typer.Option(min=0, help="Older than this many days; retention.days by default.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would be erased.")] = False,
    yes: Yes = False,
    as_json: Json = False,
) -> None:
    """Erase what sessions that ended long ago said. Their proof stays."""
    loaded = _start()
    limit = loaded.settings.retention.days if days is None else days
    if limit is None:
        raise BadRequest("Nothing says how long to keep sessions. Set retention.days, or say --days N.")
    if not (yes or dry_run):
        _confirm(f"Erase what all sessions that ended over {limit} days ago said? This cannot be undone.")

    async def run() -> list[app.Pruned]:
        async with app.event_log(loaded.paths) as log:
            return await app.prune(log, days=limit, dry_run=dry_run)

    pruned = asyncio.run(run())
    for one in pruned:
        if as_json:
            typer.echo(json.dumps({"session": one.session_id, "payloads": one.payloads, "dry_run": dry_run}))
        else:
            typer.echo(f"{one.session_id}  {one.payloads} payloads")
    verb = "would be erased" if dry_run else "erased"
    typer.echo(f"{len(pruned)} session{'' if len(pruned) == 1 else 's'} {verb}.", err=True)


def _start() -> settings.Loaded:
    loaded = settings.load()
    app.configure_logs(loaded)
    return loaded


def _confirm(question: str) -> None:
    if not sys.stdin.isatty():
        raise BadRequest("There is nobody to ask: add --yes to erase without a question.")
    typer.confirm(question, abort=True, err=True)


def _numbers(texts: list[str]) -> set[int]:
    numbers: set[int] = set()
    for text in texts:
        found = _SEQS.fullmatch(text)
        if not found or int(found[2] or found[1]) - int(found[1]) not in range(1_000_000):
            raise BadRequest(f"--seq {text!r} is not an event number such as 7 or a range such as 3-9.")
        numbers.update(range(int(found[1]), int(found[2] or found[1]) + 1))
    return numbers
