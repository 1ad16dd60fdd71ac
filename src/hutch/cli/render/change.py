"""A change on the screen: its words, its rows and its patch.

Titles, branches and addresses come from models and forges, and a patch from anybody: nothing
in them drives the terminal.
"""

import os
import sys

import typer

from hutch.domain.change import Change
from hutch.system.terminal_text import visible


def show(change: Change) -> None:
    body = change.body.strip()
    typer.echo(visible(change.title))
    typer.echo(f"\n{visible(body, lines=True)}\n" if body else "")
    rows = {
        "change": change.id,
        "state": change.state,
        "branch": f"{change.branch} for {change.base}",
        "repository": change.repository,
        "commit": change.commit,
        "tests": change.tests or "none were run",
        "session": change.session_id,
    }
    rows |= {"pull": change.web_url} if change.web_url else {}
    for key, value in rows.items():
        typer.echo(f"{key:<11}{visible(value)}")


def write_patch(patch: bytes) -> None:
    """For people to read, or for `git apply` byte for byte."""
    if os.isatty(1):
        typer.echo(visible(patch.decode(errors="backslashreplace"), lines=True), nl=False)
        return
    sys.stdout.buffer.write(patch)
    sys.stdout.buffer.flush()
