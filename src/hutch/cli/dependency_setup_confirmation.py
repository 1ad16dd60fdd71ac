"""The user's consent to a set-up: the commands are shown before they first run, and accepted with one key."""

import asyncio
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import typer

from hutch import settings
from hutch.app.repository_dependencies import environment_settings, environments_of
from hutch.cli.current_repository import find_current_repository
from hutch.environment.plan_description import Row, describe_plan
from hutch.environment.plan_selection import make_plan
from hutch.system.terminal_safe_text import printable

SHOWN = ("environment", "run", "host", "note")


def shown_plan(rows: Sequence[Row]) -> Iterator[str]:
    """The lines of a plan."""
    width = max((len(row.about) for row in rows), default=0)
    for row in rows:
        reason = f"  ({printable(row.reason)})" if row.reason else ""
        yield f"{row.about:<{width}}  {printable(row.text)}{reason}"


def can_ask() -> bool:
    """True if there is a terminal to ask on."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def accept_by_key(rows: Sequence[Row]) -> bool:
    """Show a set-up and ask on the terminal."""
    typer.echo("To install its dependencies, this repository runs, in a jail of its own:", err=True)
    for line in shown_plan([row for row in rows if row.about in SHOWN]):
        typer.echo(f"  {line}", err=True)
    typer.echo("Install them? [y]es, any other key for no: ", err=True, nl=False)
    key = typer.getchar()
    typer.echo(printable(key), err=True)
    return key.lower() == "y"


def confirm_setup(repository: str) -> None:
    """Before a run on a working directory: show a set-up that nobody has accepted yet, and ask."""
    found = find_current_repository(Path(repository).resolve())
    if found is None:
        return
    loaded = settings.load(repo=found.root)
    wanted = environment_settings(loaded)
    if wanted.auto:
        return
    plan = make_plan(found.root, wanted)
    environments = environments_of(loaded)
    accepted = environments.accepted
    if not plan.steps or plan.is_configured or accepted.is_accepted("", str(found.root), plan):
        return
    hosts = asyncio.run(environments.registries(plan, wanted)).hosts
    if accept_by_key(describe_plan(plan, hosts)):
        accepted.accept("", str(found.root), plan)
