"""`hutch diff`: what has changed in a session, or between two of its snapshots."""

import json
import os
import sys
from typing import Annotated, Any

import typer

from hutch.cli.client import Client
from hutch.cli.render.layout import coloured, patch_lines
from hutch.cli.server_requests import Json, SessionName, ask, find_session
from hutch.system.terminal_text import visible


def diff_command(
    session: SessionName = "last",
    old: Annotated[
        int | None, typer.Option("--from", min=1, metavar="N", help="This snapshot; its first without.")
    ] = None,
    new: Annotated[
        int | None,
        typer.Option("--to", min=1, metavar="N", help="This snapshot; the files as they are without."),
    ] = None,
    path: Annotated[str, typer.Option(metavar="PATH", help="Only below this.")] = "",
    stat: Annotated[bool, typer.Option("--stat", help="Only which files, and how many lines.")] = False,
    as_json: Json = False,
) -> int:
    """Show what has changed in a session since it began, as a patch. Exits with 0 either way."""

    async def work(client: Client) -> None:
        found = await find_session(client, session)
        asked = {name: value for name, value in (("old", old), ("new", new), ("path", path)) if value}
        address = f"/sessions/{found['id']}/diff"
        if as_json or stat or os.isatty(1):
            difference = await client.get(address, **asked)
            if as_json:
                typer.echo(json.dumps(difference))
            elif stat:
                page = difference
                _list(page["files"])
                while page["next"]:
                    page = await client.get(address, **asked, cursor=page["next"])
                    _list(page["files"])
            else:
                _show(difference["patch"])
            if difference["cut"]:
                typer.echo("The patch is too long to be shown whole. Use --path, or --stat.", err=True)
            return
        answer = await client.request("GET", address, params=asked, headers={"Accept": "text/x-diff"})
        sys.stdout.buffer.write(answer.content)
        sys.stdout.buffer.flush()
        if answer.headers.get("x-diff-cut") == "true":
            typer.echo("The patch is too long and not whole. Use --path.", err=True)

    return ask(work, as_json=as_json)


def _list(files: list[dict[str, Any]]) -> None:
    for each in files:
        counts = "binary" if each["added"] is None else f"+{each['added']} -{each['deleted']}"
        typer.echo(f"{each['kind']:<9} {counts:<12} {visible(each['path'])}")


def _show(patch: str) -> None:
    for line in patch_lines(patch):
        typer.echo(coloured(line))
    if not patch:
        typer.echo("Nothing differs.", err=True)
