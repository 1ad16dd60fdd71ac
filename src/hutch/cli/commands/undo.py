"""`hutch undo`: put a session back to before its last run."""

from typing import Annotated

import typer

from hutch.cli.commands.sessions import give
from hutch.cli.server_requests import Json, SessionName


def undo_command(
    session: SessionName = "last",
    discard_others: Annotated[
        bool,
        typer.Option("--discard-others", help="Also when that removes what others have changed since."),
    ] = False,
    as_json: Json = False,
) -> int:
    """Put files and conversation of a session back to where they were before its last run.

    Again, it goes back one run further. What was undone stays in the log. When it would remove
    what others than that run have changed, nothing is undone and the files are named.
    """
    fields = {"discard": True} if discard_others else {}
    return give(session, "undo", as_json, **fields)
