"""`hutch undo`: restore a session to its state before the last run."""

from typing import Annotated

import typer

from hutch.cli.commands.sessions import give
from hutch.cli.server_requests import Json, SessionName


def undo_command(
    session: SessionName = "last",
    discard_others: Annotated[
        bool,
        typer.Option("--discard-others", help="Undo even if this removes later changes by others."),
    ] = False,
    as_json: Json = False,
) -> int:
    """Restore the files and the conversation of a session to their state before its last run.

    Repeat it to undo earlier runs. The undone run stays in the log. If undoing would remove changes
    that the run did not make, nothing is undone and the files are listed.
    """
    fields = {"discard": True} if discard_others else {}
    return give(session, "undo", as_json, **fields)
