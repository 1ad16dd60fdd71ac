"""`hutch hooks`: commands that run in the jail when the agent does something."""

import asyncio
import json
import sys
from dataclasses import asdict
from typing import Annotated, Any

import typer

from hutch.agent.hooks.hook_file import HookFile, find_repository_hooks
from hutch.app.extensions import hooks_of
from hutch.app.workspaces import open_workspace
from hutch.cli.server_requests import Json, report_errors
from hutch.cli.temporary_repository_workspace import RepositoryPlace, on_repository, say
from hutch.domain.errors import BadRequest, NotFound
from hutch.flows.hooks.hooks_of_run import ANYONE
from hutch.system.terminal_safe_text import printable

app = typer.Typer(
    help="List your hooks and those of a repository, and trust those of the repository.",
    no_args_is_help=True,
    add_completion=False,
)
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Trust them without asking.")]


@app.command("list")
@report_errors
@on_repository
async def list_(place: RepositoryPlace, *, as_json: Json = False) -> None:
    """List your own hooks and those of a repository."""
    sources = hooks_of(place.loaded)
    rows = [_row(file, state="own") for file in await asyncio.to_thread(sources.own_hooks)]
    if (found := await _find(place)) is not None:
        is_trusted = await asyncio.to_thread(sources.is_trusted, place.owner, place.record.source, found)
        rows.append(_row(found, state="trusted" if is_trusted else "not trusted"))
    if as_json:
        typer.echo(json.dumps(rows))
        return
    for row in rows:
        typer.echo(printable(f"{row['path']}: {row['state']}"))
        for each in row["hooks"]:
            typer.echo(printable(f"  {each['event']} {each['matcher'] or '*'}: {each['command']}"))
    if not rows:
        say("There are no hooks. See docs/hooks.md for examples.")


@app.command()
@report_errors
@on_repository
async def trust(place: RepositoryPlace, *, yes: Yes = False, as_json: Json = False) -> None:
    """Trust the hooks of a repository, as they are now."""
    found = await _find(place)
    if found is None:
        raise NotFound("The repository has no hooks.")
    if not yes:
        for each in found.hooks:
            say(printable(f"{each.event} {each.matcher or '*'}: {each.command}"))
        if as_json or not sys.stdin.isatty():
            raise BadRequest("There is no terminal to ask on. Read the hooks, then use --yes.")
        if not await asyncio.to_thread(typer.confirm, "Run these in the jails of this repository?"):
            raise BadRequest("They are not trusted.")
    trusted = hooks_of(place.loaded).trusted
    await asyncio.to_thread(trusted.trust, ANYONE, place.record.source, found)
    text = f"{len(found.hooks)} hooks of {found.path} are trusted until they change."
    typer.echo(json.dumps({"trusted": found.path}) if as_json else printable(text))


@app.command()
@report_errors
@on_repository
async def withdraw(place: RepositoryPlace, *, as_json: Json = False) -> None:
    """Withdraw the trust in the hooks of a repository."""
    found = await _find(place)
    trusted = hooks_of(place.loaded).trusted
    if found is None or not await asyncio.to_thread(trusted.withdraw, ANYONE, place.record.source, found):
        raise NotFound("No hooks of this repository are trusted.")
    typer.echo(json.dumps({"withdrawn": found.path}) if as_json else f"{found.path} is no longer trusted.")


async def _find(place: RepositoryPlace) -> HookFile | None:
    async with open_workspace(place.loaded, place.record.id) as workspace:
        return await find_repository_hooks(workspace.read_small)


def _row(file: HookFile, *, state: str) -> dict[str, Any]:
    return {"path": file.path, "state": state, "hooks": [asdict(each) for each in file.hooks]}
