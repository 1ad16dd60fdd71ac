"""`hutch sessions prune`: remove the files of long unused sessions, as the server does."""

import asyncio
import json
from typing import TYPE_CHECKING, Annotated

import typer

from hutch import settings
from hutch.app import configure_logs
from hutch.cli.render.byte_size import byte_size
from hutch.system.terminal_safe_text import visible

if TYPE_CHECKING:
    from hutch.flows.idle_session_disk_limit import Excess
    from hutch.flows.session_file_retention import Gone


def prune_command(
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would be removed.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object per line.")] = False,
) -> None:
    """Remove the files of unused sessions. The limit is sessions.file_retention_days.

    For sessions of `POST /api/code`, sessions.code_retention_hours applies. Beyond
    sessions.file_retention_bytes, the files of ended sessions go sooner, but never work that was not
    delivered. A server does the same when it starts, and every hour. The logs stay; `hutch prune` erases
    their content.
    """
    from hutch.app.event_log import event_log
    from hutch.app.session_file_retention import retention_of

    loaded = settings.load()
    configure_logs(loaded, quiet=True)

    async def sweep() -> "tuple[list[Gone], Excess]":
        async with event_log(loaded) as log:
            retention = retention_of(loaded, log)
            return await retention.sweep(dry_run=dry_run), await retention.find_excess()

    gone, excess = asyncio.run(sweep())
    for each in gone:
        if as_json:
            row = {"session": each.session_id, "workspace": each.workspace_id, "dry_run": dry_run}
            typer.echo(json.dumps(row))
        else:
            typer.echo(visible(f"{each.session_id}  {each.workspace_id}"))
    typer.echo(f"{_count(len(gone))} {'would be removed' if dry_run else 'removed'}.", err=True)
    if excess.remaining_bytes > loaded.settings.sessions.file_retention_bytes:
        limit = byte_size(loaded.settings.sessions.file_retention_bytes)
        typer.echo(
            f"{_count(excess.remaining)} of idle sessions {'takes' if excess.remaining == 1 else 'take'} "
            f"{byte_size(excess.remaining_bytes)}, more than sessions.file_retention_bytes ({limit}). Work "
            "that was not delivered stays. `hutch workspace ls` lists sizes; `hutch workspace diff "
            "WORKSPACE` shows the work of one, and `hutch workspace rm WORKSPACE` removes it.",
            err=True,
        )


def _count(number: int) -> str:
    return f"{number} workspace{'' if number == 1 else 's'}"
