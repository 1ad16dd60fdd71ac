"""The question whether a directory without git may be copied, with a summary of its contents."""

import asyncio

import typer

from hutch import settings
from hutch.app.allowed_local_repositories import repositories_of
from hutch.workspace.admission.local_repository_access import describe_plain_directory


def confirm_copy(repository: str) -> bool:
    """Ask whether to copy a directory. False when no question is needed; a no aborts the command."""
    contents = asyncio.run(describe_plain_directory(repositories_of(settings.load()), repository))
    if not contents:
        return False
    typer.echo(f"{repository} is not a git repository. All of it would be copied: {contents}.", err=True)
    typer.confirm("Copy it and show it to the model?", abort=True, err=True)
    return True
