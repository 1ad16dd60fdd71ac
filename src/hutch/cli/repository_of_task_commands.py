"""Options of `hutch tasks`, and the repository that they mean."""

from pathlib import Path
from typing import Annotated

import typer

from hutch.cli.current_repository import find_current_repository

Json = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]
Repository = Annotated[
    str, typer.Option("--repo", metavar="ADDRESS", help="Another repository than the current one.")
]
Local = Annotated[bool, typer.Option("--local", help="Use this machine, also after a login to a server.")]
TaskKey = Annotated[str, typer.Argument(metavar="KEY", help="The key of a task, such as T-12, or its id.")]


def repository_of(named: str, *, on_server: bool = False) -> str:
    """The repository that an option names, or the current one: its remote, or else its directory.

    Another machine's server does not know the directory.
    """
    if named:
        directory = Path(named)
        return str(directory.resolve()) if named.startswith(".") and directory.is_dir() else named
    found = find_current_repository(Path.cwd())
    if found is None:
        return ""
    return found.origin or ("" if on_server else str(found.root))


def repository_root() -> Path:
    """The directory of the current repository, or the working directory."""
    found = find_current_repository(Path.cwd())
    return found.root if found else Path.cwd()
