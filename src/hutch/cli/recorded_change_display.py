"""Prints the diff of a recorded change, or the file before or after it."""

import os
import sys

import typer

from hutch import settings
from hutch.app import configure_logs
from hutch.cli import session_client
from hutch.cli.local_session_lookup import find_session, open_sessions
from hutch.cli.render.binary_patch_summary import without_binary_content
from hutch.cli.session_client import Version
from hutch.system.terminal_safe_text import visible

NO_DIFF = "There is no diff: the event changed no files, or only files of git itself (.git)."


async def show_changed(session: str, diff: int, content: int, version: Version) -> None:
    """Print the diff of the event `diff`, or else the file of the event `content`."""
    loaded = settings.load()
    configure_logs(loaded)
    async with open_sessions(loaded) as log:
        session_id = await find_session(log, session)
    async with session_client.open_sessions(here=False) as client:
        if diff:
            found = await client.changed_diff(session_id, diff)
            patch = without_binary_content(found["patch"]) if os.isatty(1) else found["patch"]
            typer.echo(visible(patch, lines=True), nl=False)
            if not found["patch"]:
                typer.echo(NO_DIFF, err=True)
            if found["cut"]:
                typer.echo("The diff is longer than what is shown.", err=True)
        else:
            sys.stdout.buffer.write(await client.changed_content(session_id, content, version))
            sys.stdout.buffer.flush()
