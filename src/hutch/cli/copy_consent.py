"""A directory without git: whoever is at the terminal sees what is in it, and says whether it is copied."""

import asyncio
import sys
from pathlib import Path

import typer

from hutch import settings


def may_copy(repository: str, given: bool, *, asks: bool = True) -> bool:
    """Whether a directory without git may be copied: by the option, or by an answer on a terminal.

    Without a terminal the answer is no; the refusal, which names the option, comes when it is used.
    """
    if given or not repository or not asks or not (sys.stdin.isatty() and sys.stderr.isatty()):
        return given
    if (Path(repository) / ".git" / "HEAD").is_file():
        return False
    from hutch.app.repositories import repositories_of
    from hutch.workspace.admission.repositories import describe_plain_directory

    contents = asyncio.run(describe_plain_directory(repositories_of(settings.load()), repository))
    if not contents:
        return False
    typer.echo(f"{repository} is not a git repository. All of it would be copied: {contents}.", err=True)
    typer.confirm("Copy it, and show it to the model?", abort=True, err=True)
    return True
