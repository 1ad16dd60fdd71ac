"""`hutch changes`: what runs have proposed, to be read, merged or closed."""

import asyncio
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Annotated

import typer

from hutch import app as wiring
from hutch import settings
from hutch.app import records
from hutch.app.change_context import change_context
from hutch.cli.git_author import signature
from hutch.cli.redelivery import hand_over, named_run
from hutch.cli.render import change as change_lines
from hutch.cli.server_requests import Json, report_errors
from hutch.domain.change import Change
from hutch.domain.commit_text import DEFAULT_AUTHOR
from hutch.domain.errors import BadRequest
from hutch.domain.review import Comment, Remark, Review, Severity, Verdict
from hutch.flows import change_merge
from hutch.flows.reviews import people
from hutch.forge.interface import Strategy
from hutch.forge.repo_url import parse_repo_url
from hutch.store.changes import Changes
from hutch.store.comments import Comments, Reviews
from hutch.system.terminal_text import visible

app = typer.Typer(
    help="Review and merge what runs have proposed.", no_args_is_help=True, add_completion=False
)

MAX_COUNT = 10_000  # that are listed
Name = Annotated[
    str,
    typer.Argument(metavar="CHANGE", help="An id, the beginning or end of one, a branch, or 'last'."),
]


@app.command("list")
@report_errors
def list_(
    everything: Annotated[bool, typer.Option("--all", help="Also those that are merged or closed.")] = False,
    as_json: Json = False,
) -> None:
    """List the changes, the newest first."""
    loaded = _load()

    async def work() -> list[Change]:
        async with records.event_log(loaded.paths) as rows:
            return await Changes(rows).list(limit=MAX_COUNT)

    found = asyncio.run(work())
    shown = [each for each in found if everything or each.state == "open"]
    if not found and not as_json:
        typer.echo("There are no changes. Make one: hutch run PROMPT --repo DIR", err=True)
    where = {each.id: _where(each) for each in shown}
    width = max(map(len, where.values()), default=0)
    for change in shown:
        if as_json:
            typer.echo(json.dumps(asdict(change)))
        else:
            when = datetime.fromtimestamp(change.created_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M")
            row = (change.id, when, f"{change.state:<6}", f"{where[change.id]:<{width}}", change.branch)
            typer.echo(visible("  ".join((*row, change.title))))
    if not everything and not as_json and (hidden := _hidden([each.state for each in found])):
        typer.echo(hidden, err=True)


@app.command()
@report_errors
def show(name: Name = "last", as_json: Json = False) -> None:
    """Show a change: what it is for, what was done, what the tests said."""
    loaded = _load()

    async def work() -> Change:
        async with records.event_log(loaded.paths) as rows:
            return await change_merge.refresh(change_context(loaded, rows), await Changes(rows).find(name))

    change = asyncio.run(work())
    if as_json:
        typer.echo(json.dumps(asdict(change)))
        return
    change_lines.show(change)


@app.command()
@report_errors
def propose(
    run: Annotated[str, typer.Argument(metavar="RUN", help="A run's or session's id, or 'last'.")] = "last",
    as_json: Json = False,
) -> None:
    """Deliver what a run did, though its tests fail or it was stopped; the change says so."""
    loaded = _load()
    run_id, where = named_run(loaded, run)
    raise typer.Exit(hand_over(run_id, where, failing=True, as_json=as_json))


@app.command()
@report_errors
def deliver(
    name: Annotated[
        str, typer.Argument(metavar="RUN", help="A run's, session's or change's id, or 'last'.")
    ] = "last",
    as_json: Json = False,
) -> None:
    """Deliver what a run did, after a delivery that failed or a run with --no-pr."""
    loaded = _load()
    run_id, where = named_run(loaded, name)
    raise typer.Exit(hand_over(run_id, where, failing=False, as_json=as_json))


@app.command()
def diff(name: Name = "last") -> None:
    """Print a change as a patch."""
    loaded = _load()

    async def work() -> bytes:
        async with records.event_log(loaded.paths) as rows:
            return await change_merge.diff(change_context(loaded, rows), await Changes(rows).find(name))

    change_lines.write_patch(asyncio.run(work()))


@app.command("comments")
@report_errors
def comments_(
    name: Name = "last",
    everything: Annotated[bool, typer.Option("--all", help="Also those that are dealt with.")] = False,
    as_json: Json = False,
) -> None:
    """List what is said about a change: verdicts, and comments on its lines."""
    loaded = _load()

    async def work() -> tuple[list[Review], list[Comment]]:
        async with records.event_log(loaded.paths) as rows:
            change = await Changes(rows).find(name)
            about = await Comments(rows).of_change(change.id, resolved=None if everything else False)
            return await Reviews(rows).of_change(change.id), about

    reviews, found = asyncio.run(work())
    for given in reviews:
        if as_json:
            typer.echo(json.dumps({"type": "review", **asdict(given)}))
            continue
        typer.echo(visible(f"{given.verdict.replace('_', ' ')} by {given.author} at {given.commit[:12]}"))
        typer.echo(_indented(f"{given.title}\n{given.body}".strip()))
    for each in found:
        if as_json:
            typer.echo(json.dumps({"type": "comment", **asdict(each)}))
            continue
        side = " (old)" if each.side == "old" else ""
        done = "  (dealt with)" if each.resolved_ms else ""
        how_bad = f"  {each.severity}" if each.severity else ""
        typer.echo(visible(f"{each.path}:{each.line}{side}{how_bad}  {each.id}{done}"))
        typer.echo(_indented(each.body))
    if not as_json and not reviews and not found:
        typer.echo("Nothing is said about it.", err=True)


@app.command()
@report_errors
def comment(
    name: Name,
    place: Annotated[str, typer.Argument(metavar="PATH:LINE", help="What it is about.")],
    body: Annotated[str, typer.Argument(metavar="TEXT", help="What is to be said; - reads it from input.")],
    severity: Annotated[
        Severity | None, typer.Option("--severity", help="How much it matters.", show_default=False)
    ] = None,
    old: Annotated[bool, typer.Option("--old", help="About a line that the change takes away.")] = False,
    as_json: Json = False,
) -> None:
    """Say something about a line of a change."""
    loaded = _load()
    path, _, line = place.rpartition(":")
    if not path or not line.isascii() or not line.isdigit() or not 0 < int(line) < 10**9:
        raise BadRequest(f"'{visible(place)}' is no place. Write it as PATH:LINE.")
    remark = Remark(
        path=path,
        line=int(line),
        body=sys.stdin.read() if body == "-" else body,
        severity=severity,
        side="old" if old else "new",
    )

    async def work() -> tuple[Comment, str]:
        async with records.event_log(loaded.paths) as rows:
            change = await Changes(rows).find(name)
            return await people.comment(change_context(loaded, rows), change, remark, author=_me(loaded))

    made, url = asyncio.run(work())
    typer.echo(json.dumps(asdict(made) | ({"url": url} if url else {})) if as_json else made.id)
    if url and not as_json:
        typer.echo(visible(url), err=True)


@app.command()
def resolve(
    name: Name, comment: Annotated[str, typer.Argument(metavar="COMMENT", help="The id of one.")]
) -> None:
    """Say that a comment is dealt with; on GitHub the conversation stays open until it is resolved there."""
    loaded = _load()

    async def work() -> None:
        async with records.event_log(loaded.paths) as rows:
            change = await Changes(rows).find(name)
            await Comments(rows).resolve(change.id, comment, _me(loaded))
        if change.number:
            typer.echo(f"Noted here. Resolve the conversation there, too: {visible(change.url)}", err=True)

    asyncio.run(work())


@app.command()
@report_errors
def approve(
    name: Name = "last",
    body: Annotated[str, typer.Option("--body", metavar="TEXT", help="What is to be said.")] = "",
    as_json: Json = False,
) -> None:
    """Say that a change is good, as it is now."""
    _judge(name, "approved", body, as_json)


@app.command("request-changes")
@report_errors
def request_changes(
    name: Name,
    body: Annotated[str, typer.Option("--body", metavar="TEXT", help="What is to be changed.")],
    as_json: Json = False,
) -> None:
    """Say what must be changed in a change first."""
    _judge(name, "changes_requested", body, as_json)


def _judge(name: str, verdict: Verdict, body: str, as_json: bool) -> None:
    loaded = _load()

    async def work() -> Review:
        async with records.event_log(loaded.paths) as rows:
            change = await Changes(rows).find(name)
            return await people.judge(
                change_context(loaded, rows), change, verdict, author=_me(loaded), body=body
            )

    given = asyncio.run(work())
    if as_json:
        typer.echo(json.dumps(asdict(given)))
        return
    typer.echo(f"{given.change_id}: {given.verdict.replace('_', ' ')} at {given.commit[:12]}.")
    if given.url:
        typer.echo(visible(given.url))


@app.command()
@report_errors
def merge(
    name: Name = "last",
    strategy: Annotated[
        Strategy | None,
        typer.Option(
            "--strategy",
            help="How; else forward if that can be, and a merge if not. A pull request as its repository "
            "allows; rebase is for these.",
        ),
    ] = None,
    squash: Annotated[bool, typer.Option("--squash", help="As --strategy squash.")] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Also when its tests fail or somebody asked for changes.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Bring a change into its base branch.

    One whose tests fail, or of which somebody asked changes and has not approved it since, is refused
    without --force.
    """
    loaded = _load()
    if squash and strategy not in (None, "squash"):
        raise BadRequest("--squash and --strategy say different things. Give one of them.")
    how: Strategy | None = "squash" if squash else strategy

    async def work() -> change_merge.MergedChange:
        by = signature(loaded.settings.delivery.author) or DEFAULT_AUTHOR
        async with records.event_log(loaded.paths) as rows:
            found = await Changes(rows).find(name)
            return await change_merge.merge(
                change_context(loaded, rows), found, strategy=how, force=force, author=by
            )

    done = asyncio.run(work())
    change, stays = done.change, done.branch_stays
    if as_json:
        told = {"change": change.id, "base": change.base, "commit": done.commit}
        typer.echo(json.dumps({**told, "branch_deleted": not stays, "overridden": done.overridden}))
        return
    for objection in done.overridden:
        typer.echo(visible(f"hutch: merged although {objection}"), err=True)
    typer.echo(f"{change.base} is at {done.commit[:12]} now." if done.commit else f"{change.id} is merged.")
    if change.number:
        typer.echo(visible(change.url))
    if stays:
        typer.echo(visible(stays), err=True)


@app.command()
def close(name: Name = "last") -> None:
    """Close a change and delete its branch."""
    loaded = _load()

    async def work() -> tuple[str, str]:
        async with records.event_log(loaded.paths) as rows:
            found = await Changes(rows).find(name)
            return found.id, await change_merge.close(change_context(loaded, rows), found)

    closed, stays = asyncio.run(work())
    typer.echo(f"{closed} is closed{'.' if stays else ', and its branch is gone.'}")
    if stays:
        typer.echo(visible(stays), err=True)


def _where(change: Change) -> str:
    """The repository of a change in a word, and which pull request of it that is."""
    url = parse_repo_url(change.repository)
    name = "/".join(url.slug) if url.slug else url.name
    return f"{name}#{change.number}" if change.number else name


def _me(loaded: settings.LoadedSettings) -> str:
    """Who speaks: as a commit of theirs would name them."""
    return signature(loaded.settings.delivery.author) or "local"


def _indented(text: str) -> str:
    return "\n".join(f"    {visible(line)}" for line in text.splitlines())


def _hidden(states: Sequence[str]) -> str:
    """How many a list leaves out, and how to see them; empty when it leaves out none."""
    counts = [f"{states.count(state)} {state}" for state in ("merged", "closed") if state in states]
    return f"Not shown: {' and '.join(counts)}. See all: hutch changes list --all" if counts else ""


def _load() -> settings.LoadedSettings:
    loaded = settings.load()
    wiring.configure_logs(loaded)
    return loaded
