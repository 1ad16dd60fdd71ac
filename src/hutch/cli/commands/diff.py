"""`hutch diff`: the changes in a session, or between two of its snapshots."""

import json
import os
import sys
from typing import Annotated, Any

import typer

from hutch.cli.api_client import Client
from hutch.cli.render.terminal_line_layout import coloured, patch_lines
from hutch.cli.server_requests import Json, SessionName, ask, find_session
from hutch.system.terminal_safe_text import visible


def diff_command(
    session: SessionName = "last",
    old: Annotated[
        int | None,
        typer.Option("--from", min=1, metavar="N", help="Compare from this snapshot; by default the first."),
    ] = None,
    new: Annotated[
        int | None,
        typer.Option(
            "--to", min=1, metavar="N", help="Compare to this snapshot; by default the current files."
        ),
    ] = None,
    path: Annotated[str, typer.Option(metavar="PATH", help="Only changes below this path.")] = "",
    stat: Annotated[bool, typer.Option("--stat", help="List files and line counts only.")] = False,
    as_json: Json = False,
) -> int:
    """Show the changes in a session since it began, as a patch. Exits with 0 whether or not there are any."""

    async def work(client: Client) -> None:
        found = await find_session(client, session)
        query = {name: value for name, value in (("old", old), ("new", new), ("path", path)) if value}
        address = f"/sessions/{found['id']}/diff"
        if as_json or stat or os.isatty(1):
            difference = await client.get(address, **query)
            if as_json:
                typer.echo(json.dumps(difference))
            elif stat:
                page = difference
                _list(page["files"])
                while page["next"]:
                    page = await client.get(address, **query, cursor=page["next"])
                    _list(page["files"])
            else:
                _show(difference["patch"])
            if difference["cut"]:
                typer.echo("The patch is too long to show in full. Use --path or --stat.", err=True)
            return
        answer = await client.request("GET", address, params=query, headers={"Accept": "text/x-diff"})
        sys.stdout.buffer.write(answer.content)
        sys.stdout.buffer.flush()
        if answer.headers.get("x-diff-cut") == "true":
            typer.echo("The patch is too long and was cut. Use --path.", err=True)

    return ask(work, as_json=as_json)


def _list(files: list[dict[str, Any]]) -> None:
    for each in files:
        counts = "binary" if each["added"] is None else f"+{each['added']} -{each['deleted']}"
        typer.echo(f"{each['kind']:<9} {counts:<12} {visible(each['path'])}")


def _show(patch: str) -> None:
    for line in patch_lines(patch):
        typer.echo(coloured(line))
    if not patch:
        typer.echo("There are no changes.", err=True)
