"""`hutch changes`: what runs have proposed, to be read, merged or closed."""

import asyncio
import json
import sys
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Annotated

import typer

from hutch import app as wiring
from hutch import settings
from hutch.app import runs
from hutch.app.runs import review
from hutch.cli.author import signature
from hutch.domain.errors import BadRequest

app = typer.Typer(
    help="Review and merge what runs have proposed.", no_args_is_help=True, add_completion=False
)

Json = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]
Name = Annotated[
    str, typer.Argument(metavar="CHANGE", help="An id or the beginning of one, a branch, or 'last'.")
]


@app.command("list")
def list_(
    everything: Annotated[bool, typer.Option("--all", help="Also those that are merged or closed.")] = False,
    as_json: Json = False,
) -> None:
    """List the changes, the newest first."""
    found = asyncio.run(runs.changes_of(_load()).list(state=None if everything else "open"))
    if not found and not as_json:
        typer.echo("There are no changes. Make one: hutch run PROMPT --repo DIR", err=True)
    for change in found:
        if as_json:
            typer.echo(json.dumps(asdict(change)))
        else:
            when = datetime.fromtimestamp(change.created_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M")
            typer.echo(f"{change.id}  {when}  {change.state:<6}  {change.branch}  {change.title}")


@app.command()
def show(name: Name = "last", as_json: Json = False) -> None:
    """Show a change: what it is for, what was done, what the tests said."""
    change = asyncio.run(runs.changes_of(_load()).find(name))
    if as_json:
        typer.echo(json.dumps(asdict(change)))
        return
    typer.echo(f"{change.title}\n\n{change.body.strip()}\n" if change.body.strip() else f"{change.title}\n")
    rows = {
        "change": change.id,
        "state": change.state,
        "branch": f"{change.branch} for {change.base}",
        "repository": change.repository,
        "commit": change.commit,
        "tests": change.tests or "none were run",
        "session": change.session_id,
    }
    for key, value in rows.items():
        typer.echo(f"{key:<11}{value}")


@app.command()
def propose(
    run: Annotated[str, typer.Argument(metavar="RUN", help="A run's or session's id, or 'last'.")] = "last",
    as_json: Json = False,
) -> None:
    """Deliver what a run did, though its tests fail or it was stopped; the change says so."""
    loaded = _load()
    by = signature(loaded.settings.delivery.author) or runs.AUTHOR
    change = asyncio.run(runs.changes.propose(loaded, run, author=by))
    if as_json:
        typer.echo(json.dumps(asdict(change)))
        return
    typer.echo(f"{change.id}  {change.branch}  {change.title}")
    typer.echo(f"look at it: hutch changes show {change.id}")


@app.command()
def diff(name: Name = "last") -> None:
    """Print a change as a patch."""
    loaded = _load()

    async def work() -> bytes:
        change = await runs.changes_of(loaded).find(name)
        return await review.diff(change, lambda path: runs.repository_jail(loaded, path))

    sys.stdout.buffer.write(asyncio.run(work()))


@app.command()
def merge(
    name: Name = "last",
    squash: Annotated[bool, typer.Option("--squash", help="As one new commit.")] = False,
    as_json: Json = False,
) -> None:
    """Bring a change into its base branch."""
    loaded = _load()

    async def work() -> None:
        changes = runs.changes_of(loaded)
        change = await changes.find(name)
        _must_be_open(change)
        by = signature(loaded.settings.delivery.author) or runs.AUTHOR
        merged = await review.merge(
            change, lambda path: runs.repository_jail(loaded, path), squash=squash, author=by
        )
        await changes.end(change, "merged", merged_commit=merged.commit)
        if as_json:
            done = {"change": change.id, "base": change.base, "commit": merged.commit}
            typer.echo(json.dumps(done | {"branch_deleted": not merged.branch_stays}))
            return
        typer.echo(f"{change.base} is at {merged.commit[:12]} now.")
        if merged.branch_stays:
            typer.echo(merged.branch_stays, err=True)

    asyncio.run(work())


@app.command()
def close(name: Name = "last") -> None:
    """Close a change and delete its branch."""
    loaded = _load()

    async def work() -> None:
        changes = runs.changes_of(loaded)
        change = await changes.find(name)
        _must_be_open(change)
        await review.delete_branch(change, lambda path: runs.repository_jail(loaded, path))
        await changes.end(change, "closed")
        typer.echo(f"{change.id} is closed, and its branch is gone.")

    asyncio.run(work())


def _must_be_open(change: runs.Change) -> None:
    if change.state != "open":
        raise BadRequest(f"The change {change.id} is {change.state} already.")


def _load() -> settings.Loaded:
    loaded = settings.load()
    wiring.configure_logs(loaded)
    return loaded
