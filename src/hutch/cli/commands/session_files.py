"""`hutch files`: list, read and change the files of a session from outside."""

import json
import os
import stat
import sys
from collections.abc import AsyncIterator
from datetime import datetime
from pathlib import Path, PurePosixPath
from typing import Annotated, Any

import typer

from hutch.cli.api_client import Client, path_of
from hutch.cli.server_requests import Json, SessionName, ask, find_session
from hutch.domain.errors import BadRequest, Conflict, NotFound
from hutch.system.terminal_safe_text import visible

app = typer.Typer(help="List, read, write and move the files of a session.", no_args_is_help=True)

RemotePath = Annotated[str, typer.Argument(metavar="PATH", help="A path in the session's workspace.")]
PAGE = 1000
KINDS = {"directory": "d", "link": "l", "file": "-"}


@app.command()
def ls(
    session: SessionName,
    path: Annotated[str, typer.Argument(metavar="PATH", help="A directory; by default the workspace.")] = "",
    long: Annotated[bool, typer.Option("--long", "-l", help="Show mode, size and time.")] = False,
    recursive: Annotated[bool, typer.Option("--recursive", "-R", help="Include subdirectories.")] = False,
    everything: Annotated[bool, typer.Option("--all", "-a", help="Include ignored files.")] = False,
    as_json: Json = False,
) -> int:
    """List a directory of a session."""

    async def work(client: Client) -> None:
        found = await find_session(client, session)
        async for each in _entries(client, found["id"], _clean(path), recursive, everything):
            if as_json:
                typer.echo(json.dumps(each))
            else:
                typer.echo(_line(each, long=long, whole=recursive))

    return ask(work, as_json=as_json)


@app.command()
def cat(session: SessionName, path: RemotePath) -> int:
    """Print a file of a session, byte for byte."""

    async def work(client: Client) -> None:
        found = await find_session(client, session)
        async with client.stream(_address(found["id"], path)) as answer:
            async for chunk in answer.aiter_bytes():
                sys.stdout.buffer.write(chunk)
        sys.stdout.buffer.flush()

    return ask(work)


@app.command()
def get(
    session: SessionName,
    path: RemotePath,
    to: Annotated[
        Path | None,
        typer.Argument(metavar="FILE", help="A file or directory here; by default the current directory."),
    ] = None,
    force: Annotated[bool, typer.Option("--force", "-f", help="Replace an existing file.")] = False,
) -> int:
    """Copy a file from a session to this machine."""

    async def work(client: Client) -> None:
        found = await find_session(client, session)
        name = PurePosixPath(_clean(path)).name
        target = to or Path(name)
        target = target / name if target.is_dir() else target
        if target.exists() and not force:
            raise Conflict(f"'{target}' exists. Choose another name, or use --force.")
        staged = target.with_name(f".{target.name}.{os.getpid()}")
        try:
            async with client.stream(_address(found["id"], path)) as answer:
                with staged.open("xb") as file:
                    async for chunk in answer.aiter_bytes():
                        file.write(chunk)
            staged.replace(target)
        finally:
            staged.unlink(missing_ok=True)
        typer.echo(f"{visible(str(target))}: {target.stat().st_size} bytes", err=True)

    return ask(work)


@app.command()
def put(
    session: SessionName,
    source: Annotated[Path, typer.Argument(metavar="FILE", help="A local file; - reads standard input.")],
    path: Annotated[
        str,
        typer.Argument(
            metavar="PATH", help="The target in the session's workspace; by default the same name."
        ),
    ] = "",
    new: Annotated[bool, typer.Option("--new", help="Do not replace an existing file.")] = False,
    as_json: Json = False,
) -> int:
    """Copy a file from this machine into a session."""
    is_stdin = str(source) == "-"
    if is_stdin and not path:
        raise BadRequest("Standard input needs a target path in the session: hutch files put SESSION - PATH")
    if not is_stdin and not source.is_file():
        raise NotFound(f"There is no local file '{source}'.")

    async def work(client: Client) -> None:
        found = await find_session(client, session)
        target = path or source.name
        if target.endswith("/") and not is_stdin:
            target += source.name
        data = sys.stdin.buffer.read() if is_stdin else source.read_bytes()
        headers = {"Content-Type": "application/octet-stream", **({"If-None-Match": "*"} if new else {})}
        address = _address(found["id"], target)
        changed = (await client.request("PUT", address, content=data, headers=headers)).json()
        _print_changes([changed], as_json)

    return ask(work, as_json=as_json)


@app.command()
def rm(
    session: SessionName,
    paths: Annotated[list[str], typer.Argument(metavar="PATH...", help="Paths in the session's workspace.")],
    as_json: Json = False,
) -> int:
    """Remove files or whole directories of a session."""

    async def work(client: Client) -> None:
        found = await find_session(client, session)
        for path in paths:
            _print_changes(await client.delete(_address(found["id"], path)), as_json)

    return ask(work, as_json=as_json)


@app.command()
def mv(
    session: SessionName,
    path: RemotePath,
    to: Annotated[str, typer.Argument(metavar="TO", help="The new path in the workspace.")],
    force: Annotated[bool, typer.Option("--force", "-f", help="Replace an existing file.")] = False,
    as_json: Json = False,
) -> int:
    """Move or rename a file or directory of a session."""

    async def work(client: Client) -> None:
        found = await find_session(client, session)
        body = {"path": _clean(path), "to": _clean(to), "replace": force}
        _print_changes(await client.post(f"/sessions/{found['id']}/move", body), as_json)

    return ask(work, as_json=as_json)


async def _entries(
    client: Client, session_id: str, path: str, recursive: bool, everything: bool
) -> AsyncIterator[dict[str, Any]]:
    cursor: str | None = ""
    while cursor is not None:
        page = await client.get(
            f"/sessions/{session_id}/files",
            path=path,
            recursive=recursive,
            ignored=everything,
            cursor=cursor,
            limit=PAGE,
        )
        for each in page["items"]:
            yield each
        cursor = page["next"]


def _line(entry: dict[str, Any], *, long: bool, whole: bool) -> str:
    name = visible(entry["path"] if whole else PurePosixPath(entry["path"]).name)
    name += {"directory": "/", "link": f" -> {visible(entry['target'] or '')}"}.get(entry["kind"], "")
    if not long:
        return name
    mode = KINDS.get(entry["kind"], "?") + stat.filemode(stat.S_IFREG | entry["mode"])[1:]
    return f"{mode}  {entry['size']:>12,}  {format_time(entry['modified_ms'])}  {name}"


def format_time(at_ms: int) -> str:
    """Local time. Programs in a jail can set a file time that no calendar can represent."""
    try:
        return datetime.fromtimestamp(at_ms / 1000).strftime("%Y-%m-%d %H:%M")
    except (OverflowError, ValueError):
        return f"@{at_ms // 1000}"


def _print_changes(changes: list[dict[str, Any]], as_json: bool) -> None:
    for each in changes:
        moved = f"{visible(each['moved_from'])} -> " if each.get("moved_from") else ""
        typer.echo(json.dumps(each) if as_json else f"{each['kind']} {moved}{visible(each['path'])}")


def _clean(path: str) -> str:
    """Normalise a path to one relative to the workspace."""
    cleaned = path.removeprefix("/workspace/").removeprefix("./")
    if ".." in cleaned.split("/"):  # in a URL it would lead to another part of the API
        raise BadRequest(f"'{path}' leads out of the workspace: no part of a path may be '..'.")
    return cleaned


def _address(session_id: str, path: str) -> str:
    return f"/sessions/{session_id}/files/{path_of(_clean(path))}"
