"""A directory without git: whoever is at the terminal sees what is in it, and says whether it is copied."""

import asyncio

import typer

from hutch import settings
from hutch.app.repositories import repositories_of
from hutch.workspace.admission.repositories import describe_plain_directory


def confirm_copy(repository: str) -> bool:
    """Ask whether a directory is to be copied. False when it needs no question; ends the command on a no."""
    contents = asyncio.run(describe_plain_directory(repositories_of(settings.load()), repository))
    if not contents:
        return False
    typer.echo(f"{repository} is not a git repository. All of it would be copied: {contents}.", err=True)
    typer.confirm("Copy it, and show it to the model?", abort=True, err=True)
    return True
