"""`hutch undo` and `hutch redo`: take back the changes of a run or of one step, and restore them."""

import asyncio
import json
from typing import Annotated, Any

import typer

from hutch.cli import exit_codes
from hutch.cli.server_requests import Json, SessionName, report_errors
from hutch.cli.session_client import ServedSessions, open_chosen_sessions
from hutch.cli.undo_and_redo_requests import check_can_undo, describe_undo, request_undo
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
    typer.Option("--discard-others", help="Take the old version even if this removes changes by others."),
]


@report_errors
def undo_command(
    session: SessionName = "last",
    step: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="N",
            help="Undo only this step: the number of a file.changed, tool.called, command.started, "
            "run.started or an earlier undo in `hutch log`. The conversation stays.",
        ),
    ] = None,
    merge: Merge = False,
    keep: Keep = False,
    discard_others: Discard = False,
    as_json: Json = False,
) -> int:
    """Take back the changes of a session's last run, and its part of the conversation.

    Changes by others stay, also in the same files. If others changed the same lines since, nothing is
    undone, and the files are listed with the reason. Repeat it to undo earlier runs. The undone run stays
    in the log; `hutch redo` restores it. Without a server, sessions of `hutch run` are undone by this command
    itself.
    """
    fields = _resolution(merge=merge, keep=keep, discard=discard_others)
    return asyncio.run(_undo(session, "undo", as_json, **({"step": step} if step else {}), **fields))


@report_errors
def redo_command(
    session: SessionName = "last",
    merge: Merge = False,
    keep: Keep = False,
    discard_others: Discard = False,
    as_json: Json = False,
) -> int:
    """Take back the last undo of a session, unless a run began since. Repeat it to redo earlier ones."""
    fields = _resolution(merge=merge, keep=keep, discard=discard_others)
    return asyncio.run(_undo(session, "redo", as_json, **fields))


async def _undo(session: str, kind: str, as_json: bool, **fields: Any) -> int:
    async with open_chosen_sessions() as client:
        found = await client.find_session(session)
        await check_can_undo(client, found)
        accepted, effect = await request_undo(client, found, kind, fields)
        now = await client.get(found["id"])
    if not isinstance(client, ServedSessions):
        now["state"] = "parked"  # its jail has closed with this process
    if as_json:
        shown = {"seq": accepted["seq"], "session": found["id"], "state": now["state"], "effect": effect}
        typer.echo(json.dumps({**shown, "input": {"type": kind, **fields}}))
    else:
        typer.echo(describe_undo(now, effect, keeps="keep" in fields))
    return exit_codes.OK


def _resolution(**chosen: bool) -> dict[str, Any]:
    if sum(chosen.values()) > 1:
        raise BadRequest("Use only one of --merge, --keep and --discard-others.")
    return {name: True for name, is_chosen in chosen.items() if is_chosen}
