"""`hutch sessions prune`: remove the files of long unused sessions, as the server does."""

import asyncio
import json
from typing import TYPE_CHECKING, Annotated

import typer

from hutch import app, settings
from hutch.system.terminal_text import visible

if TYPE_CHECKING:
    from hutch.flows.file_retention import Gone


def prune_command(
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would be removed.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object per line.")] = False,
) -> None:
    """Remove the files of sessions that were not used for sessions.file_retention_days.

    For sessions of `POST /api/code`, sessions.code_retention_hours applies. A server does the same when it
    starts, and every hour. The logs stay; `hutch prune` erases their content.
    """
    from hutch.app.event_log import event_log
    from hutch.app.file_retention import retention_of

    loaded = settings.load()
    app.configure_logs(loaded)

    async def sweep() -> "list[Gone]":
        async with event_log(loaded.paths) as log:
            return await retention_of(loaded, log).sweep(dry_run=dry_run)

    gone = asyncio.run(sweep())
    for each in gone:
        if as_json:
            row = {"session": each.session_id, "workspace": each.workspace_id, "dry_run": dry_run}
            typer.echo(json.dumps(row))
        else:
            typer.echo(visible(f"{each.session_id}  {each.workspace_id}"))
    count = f"{len(gone)} workspace{'' if len(gone) == 1 else 's'}"
    typer.echo(f"{count} {'would be removed' if dry_run else 'removed'}.", err=True)
