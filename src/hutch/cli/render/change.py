"""Prints a change: its text, its details and its patch.

Titles, branches, addresses and patches are untrusted: nothing in them may control the terminal.
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
    """Print a patch: readable on a terminal, otherwise byte for byte for `git apply`."""
    if os.isatty(1):
        typer.echo(visible(patch.decode(errors="backslashreplace"), lines=True), nl=False)
        return
    sys.stdout.buffer.write(patch)
    sys.stdout.buffer.flush()
