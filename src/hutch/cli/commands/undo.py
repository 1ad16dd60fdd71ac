"""`hutch undo` and `hutch redo`: take back the changes of a run or of one step, and restore them."""

from typing import Annotated, Any

import typer

from hutch.cli.commands.sessions import give
from hutch.cli.server_requests import Json, SessionName
from hutch.domain.errors import BadRequest

Merge = Annotated[
    bool,
    typer.Option("--merge", help="Where others changed the same lines, write both versions with markers."),
]
Keep = Annotated[
    bool, typer.Option("--keep", help="Leave files as they are where others changed the same lines.")
]
Discard = Annotated[
    bool,
    typer.Option("--discard-others", help="Take the old version even if this removes changes of others."),
]


def undo_command(
    session: SessionName = "last",
    step: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="N",
            help="Undo only this step: the number of a file.changed, tool.called, command.started or "
            "run.started in `hutch log`. The conversation stays.",
        ),
    ] = None,
    merge: Merge = False,
    keep: Keep = False,
    discard_others: Discard = False,
    as_json: Json = False,
) -> int:
    """Take back the changes of a session's last run, and its part of the conversation.

    Changes of others stay, also in the same files. If others changed the same lines since, nothing is
    undone, and the files are listed with the reason. Repeat it to undo earlier runs. The undone run stays
    in the log; `hutch redo` restores it.
    """
    fields = _resolution(merge=merge, keep=keep, discard=discard_others)
    return give(session, "undo", as_json, **({"step": step} if step else {}), **fields)


def redo_command(
    session: SessionName = "last",
    merge: Merge = False,
    keep: Keep = False,
    discard_others: Discard = False,
    as_json: Json = False,
) -> int:
    """Take back the last undo of a session, unless a run began since. Repeat it to redo earlier ones."""
    return give(session, "redo", as_json, **_resolution(merge=merge, keep=keep, discard=discard_others))


def _resolution(**chosen: bool) -> dict[str, Any]:
    if sum(chosen.values()) > 1:
        raise BadRequest("Use only one of --merge, --keep and --discard-others.")
    return {name: True for name, is_chosen in chosen.items() if is_chosen}
