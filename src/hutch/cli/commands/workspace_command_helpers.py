"""The typer app, options and helpers that the commands of `hutch workspace` share."""

import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from hutch import settings
from hutch.app import configure_logs, vault_secrets_and_redactor
from hutch.app.workspaces import workspaces_of
from hutch.domain.errors import BadRequest
from hutch.sessions.response_redaction import clean_bytes, redacted
from hutch.workspace.workspace import Workspace

app = typer.Typer(
    help="Prepare, inspect, change and restore workspaces.\n\nStored secrets are redacted from names, "
    "patches and lists; `cat` prints a file unchanged.",
    no_args_is_help=True,
    add_completion=False,
)

Json = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]
Id = Annotated[
    str,
    typer.Argument(
        metavar="WORKSPACE",
        help="A workspace's id, as listed by `hutch workspace ls`, or the path of a directory, such as `.`.",
    ),
]
Name = Annotated[str | None, typer.Option("--id", metavar="ID", help="The new workspace's id.")]


def load() -> settings.LoadedSettings:
    loaded = settings.load()
    configure_logs(loaded, quiet=True)
    return loaded


@asynccontextmanager
async def opened(id: str, loaded: settings.LoadedSettings | None = None) -> AsyncIterator[Workspace]:
    """Open a workspace by its id, or a directory in place: no id contains `/` or `.`."""
    loaded = loaded or load()
    workspaces, clean = workspaces_of(loaded), vault_secrets_and_redactor.redactor(loaded).redact
    if "/" in id or "." in id:
        async with workspaces.open_directory(Path(id), clean=clean) as workspace:
            yield workspace
    else:
        async with workspaces.open(id, clean=clean) as workspace:
            yield workspace


def cleaned(found: Any, loaded: settings.LoadedSettings) -> Any:
    """Redact secrets from names, changes and patches, as the server does."""
    redactor = vault_secrets_and_redactor.redactor(loaded)
    match found:
        case bytes():
            return clean_bytes(found, redactor)
        case str():
            return redactor.redact(found)
        case [str(), *_]:
            return tuple(map(redactor.redact, found))
    return redacted(found, redactor)


def check_output() -> None:
    """Refuse to run when standard output is closed."""
    if sys.__stdout__ is None:
        raise BadRequest("Standard output is closed. Redirect it to a file, or open it.")


def print_json(value: Any) -> None:
    typer.echo(json.dumps(value, default=str))
