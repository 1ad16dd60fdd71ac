"""`hutch undo`: put a session back to before its last run."""

from hutch.cli.asking import Json, SessionName
from hutch.cli.sessions import give


def undo_command(session: SessionName = "last", as_json: Json = False) -> int:
    """Put files and conversation of a session back to where they were before its last run.

    Again, it goes back one run further. What was undone stays in the log.
    """
    return give(session, "undo", as_json)
