"""`hutch receipt`: sign the current state of a session's log."""

import asyncio
import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from hutch import settings
from hutch.app import configure_logs
from hutch.cli.local_session_lookup import find_session, open_sessions
from hutch.domain.errors import Conflict


def receipt_command(
    session: Annotated[str, typer.Argument(metavar="SESSION", help="A session id, or 'last'.")],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Where to write; stdout by default.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace the file if it exists.")] = False,
) -> None:
    """Sign the current state of a session's log. Store the receipt elsewhere.

    With it, `hutch verify RECORD --receipt FILE` finds out whether the log was cut or rewritten later.
    """

    async def run() -> None:
        loaded = settings.load()
        configure_logs(loaded)
        async with open_sessions(loaded) as log:
            receipt = await log.receipt(await find_session(log, session))
        text = json.dumps(receipt.to_json()) + "\n"
        if output is None:
            sys.stdout.write(text)
        else:
            _write_new(output, text, force=force)
            typer.echo(f"Receipt for event {receipt.seq} written to {output}.", err=True)

    asyncio.run(run())


def _write_new(path: Path, text: str, *, force: bool) -> None:
    """Write a new file; replace one only if forced: a receipt is often the only proof."""
    try:
        with path.open("w" if force else "x") as file:
            file.write(text)
    except FileExistsError:
        raise Conflict(f"{path} exists. Choose another name, or use --force to replace it.") from None
