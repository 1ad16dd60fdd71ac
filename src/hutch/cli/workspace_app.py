"""What the commands of `hutch workspace` share."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated, Any

import typer

from hutch import app as wiring
from hutch import settings
from hutch.app import workspaces
from hutch.app.workspaces import Workspace

app = typer.Typer(
    help="Prepare workspaces, look into them, change them, and go back.",
    no_args_is_help=True,
    add_completion=False,
)

Json = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]
Id = Annotated[
    str, typer.Argument(metavar="WORKSPACE", help="A workspace's id; `hutch workspace ls` lists them.")
]
Name = Annotated[str | None, typer.Option("--id", metavar="ID", help="The new workspace's id.")]


def load() -> settings.Loaded:
    loaded = settings.load()
    wiring.configure_logs(loaded)
    return loaded


@asynccontextmanager
async def opened(id: str) -> AsyncIterator[Workspace]:
    async with workspaces.open_workspace(load(), id) as workspace:
        yield workspace


def visible(text: str) -> str:
    """A name from anywhere that cannot drive the terminal."""
    return "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in text)


def print_json(value: Any) -> None:
    typer.echo(json.dumps(value, default=str))
