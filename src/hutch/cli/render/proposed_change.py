"""Prints a change: its text, its details and its patch.

Titles, branches, addresses and patches are untrusted: nothing in them may control the terminal.
"""

import os
import sys
from collections.abc import Sequence

import typer

from hutch.cli.render.binary_patch_summary import without_binary_content
from hutch.domain.proposed_change import Change
from hutch.domain.review import Comment, Review
from hutch.flows.change_review_state import ChangeReport
from hutch.system.terminal_safe_text import visible


def marks(report: ChangeReport) -> str:
    """The verdict, open comments and undoing of a change, for its row in a list."""
    count = len(report.comments)
    found = [report.verdict.replace("_", " ")] if report.verdict else []
    found += [f"{count} comment{'' if count == 1 else 's'}"] if count else []
    found += ["undone"] if report.is_undone else []
    return f"  ({', '.join(found)})" if found else ""


def show(change: Change, report: ChangeReport) -> None:
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
    if report.is_undone:
        rows["undone"] = "its run was undone in the session"
    for key, value in rows.items():
        typer.echo(f"{key:<11}{visible(value)}")
    if report.reviews or report.comments:
        typer.echo("")
        show_reviews(report.reviews, report.comments)


def show_reviews(reviews: Sequence[Review], comments: Sequence[Comment]) -> None:
    """Print verdicts, and comments on lines."""
    for review in reviews:
        typer.echo(visible(f"{review.verdict.replace('_', ' ')} by {review.author} at {review.commit[:12]}"))
        if text := f"{review.title}\n{review.body}".strip():
            typer.echo(_indented(text))
    for each in comments:
        side = " (old)" if each.side == "old" else ""
        done = "  (resolved)" if each.resolved_ms else ""
        severity = f"  {each.severity}" if each.severity else ""
        typer.echo(visible(f"{each.path}:{each.line}{side}{severity}  {each.id}{done}"))
        typer.echo(_indented(each.body))


def _indented(text: str) -> str:
    return "\n".join(f"    {visible(line)}" for line in text.splitlines())


def write_patch(patch: bytes) -> None:
    """Print a patch: readable on a terminal, otherwise byte for byte for `git apply`."""
    if os.isatty(1):
        text = without_binary_content(patch.decode(errors="backslashreplace"))
        typer.echo(visible(text, lines=True), nl=False)
        return
    sys.stdout.buffer.write(patch)
    sys.stdout.buffer.flush()
