"""`hutch changes`: read, merge or close the changes that runs have proposed."""

import asyncio
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Annotated

import typer

from hutch import settings
from hutch.app import configure_logs, event_log
from hutch.app.change_and_delivery_contexts import change_context
from hutch.cli.change_lookup import MAX_COUNT, find_change, of_this_repository
from hutch.cli.failed_delivery_retry import named_run, redeliver
from hutch.cli.git_author import signature
from hutch.cli.render import proposed_change as change_lines
from hutch.cli.server_requests import Json, report_errors
from hutch.domain.commit_text import DEFAULT_AUTHOR
from hutch.domain.errors import BadRequest
from hutch.domain.proposed_change import Change
from hutch.domain.review import Comment, Remark, Review, Severity, Verdict
from hutch.flows import change_diff_merge_and_close, change_review_state
from hutch.flows.change_review_state import ChangeReport
from hutch.flows.reviews import user_reviews
from hutch.forge.interface import Strategy
from hutch.forge.repo_url import parse_repo_url
from hutch.store.comments_and_reviews import Comments, Reviews
from hutch.store.proposed_changes import Changes
from hutch.system.terminal_safe_text import visible

app = typer.Typer(
    help="Review and merge the changes that runs have proposed.", no_args_is_help=True, add_completion=False
)

Name = Annotated[
    str,
    typer.Argument(metavar="CHANGE", help="An id, a unique prefix or suffix of one, a branch, or 'last'."),
]


@app.command("list")
@report_errors
def list_(
    everything: Annotated[
        bool,
        typer.Option("--all", help="Include merged and closed changes, and other repositories."),
    ] = False,
    as_json: Json = False,
) -> None:
    """List changes, newest first. In a repository that has changes, only its own."""
    loaded = _load()

    async def work() -> tuple[list[Change], list[Change], list[Change], dict[str, ChangeReport]]:
        async with event_log.event_log(loaded) as log:
            found = await Changes(log).list(limit=MAX_COUNT)
            near = found if everything or as_json else of_this_repository(found) or found
            shown = [each for each in near if everything or each.state == "open"]
            return found, near, shown, await change_review_state.report(log, shown)

    found, near, shown, reports = asyncio.run(work())
    if not found and not as_json:
        typer.echo("There are no changes. Create one: hutch run PROMPT --repo DIR", err=True)
    where = {each.id: _where(each) for each in shown}
    width = max(map(len, where.values()), default=0)
    for change in shown:
        report = reports[change.id]
        if as_json:
            said = {"verdict": report.verdict, "comments": len(report.comments), "undone": report.is_undone}
            typer.echo(json.dumps({**asdict(change), **said}))
        else:
            when = datetime.fromtimestamp(change.created_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M")
            row = (change.id, when, f"{change.state:<6}", f"{where[change.id]:<{width}}", change.branch)
            typer.echo(visible("  ".join((*row, change.title + change_lines.marks(report)))))
    if not everything and not as_json and (hidden := _hidden(found, near)):
        typer.echo(hidden, err=True)


@app.command()
@report_errors
def show(name: Name = "last", as_json: Json = False) -> None:
    """Show a change. Purpose, description, test results, verdicts and open comments."""
    loaded = _load()

    async def work() -> tuple[Change, ChangeReport]:
        async with event_log.event_log(loaded) as log:
            change = await change_diff_merge_and_close.refresh(
                change_context(loaded, log, log), await find_change(log, name)
            )
            return change, (await change_review_state.report(log, [change]))[change.id]

    change, report = asyncio.run(work())
    if as_json:
        reviews, comments = map(asdict, report.reviews), map(asdict, report.comments)
        said = {"undone": report.is_undone, "reviews": [*reviews], "comments": [*comments]}
        typer.echo(json.dumps({**asdict(change), **said}))
        return
    change_lines.show(change, report)


@app.command()
@report_errors
def propose(
    run: Annotated[str, typer.Argument(metavar="RUN", help="A run's or session's id, or 'last'.")] = "last",
    as_json: Json = False,
) -> None:
    """Deliver a run that failed its tests or was stopped. The change says so.

    `hutch changes deliver` is for runs whose tests pass.
    """
    loaded = _load()
    run_id, where = named_run(loaded, run)
    raise typer.Exit(redeliver(run_id, where, failing=True, as_json=as_json))


@app.command()
@report_errors
def deliver(
    name: Annotated[
        str, typer.Argument(metavar="RUN", help="A run's, session's or change's id, or 'last'.")
    ] = "last",
    as_json: Json = False,
) -> None:
    """Deliver a run with --no-pr, or a failed delivery again.

    `hutch changes propose` is for runs whose tests fail.
    """
    loaded = _load()
    run_id, where = named_run(loaded, name)
    raise typer.Exit(redeliver(run_id, where, failing=False, as_json=as_json))


@app.command()
def diff(name: Name = "last") -> None:
    """Print a change as a patch."""
    loaded = _load()

    async def work() -> bytes:
        async with event_log.event_log(loaded) as rows:
            return await change_diff_merge_and_close.diff(
                change_context(loaded, rows, rows), await find_change(rows, name)
            )

    change_lines.write_patch(asyncio.run(work()))


@app.command("comments")
@report_errors
def comments_(
    name: Name = "last",
    everything: Annotated[bool, typer.Option("--all", help="Include resolved comments.")] = False,
    as_json: Json = False,
) -> None:
    """List reviews of a change: verdicts and line comments."""
    loaded = _load()

    async def work() -> tuple[list[Review], list[Comment]]:
        async with event_log.event_log(loaded) as rows:
            change = await find_change(rows, name)
            about = await Comments(rows).of_change(change.id, resolved=None if everything else False)
            return await Reviews(rows).of_change(change.id), about

    reviews, found = asyncio.run(work())
    if as_json:
        for review in reviews:
            typer.echo(json.dumps({"type": "review", **asdict(review)}))
        for each in found:
            typer.echo(json.dumps({"type": "comment", **asdict(each)}))
    else:
        change_lines.show_reviews(reviews, found)
    if not as_json and not reviews and not found:
        typer.echo("There are no comments.", err=True)


@app.command()
@report_errors
def comment(
    name: Name,
    position: Annotated[str, typer.Argument(metavar="PATH:LINE", help="The file and line to comment on.")],
    body: Annotated[str, typer.Argument(metavar="TEXT", help="The comment; - reads it from standard input.")],
    severity: Annotated[
        Severity | None, typer.Option("--severity", help="How serious it is.", show_default=False)
    ] = None,
    old: Annotated[bool, typer.Option("--old", help="Comment on a line that the change removes.")] = False,
    as_json: Json = False,
) -> None:
    """Comment on a line of a change."""
    loaded = _load()
    path, _, line = position.rpartition(":")
    if not path or not line.isascii() or not line.isdigit() or not 0 < int(line) < 10**9:
        raise BadRequest(f"'{visible(position)}' is not a file and a line. Write PATH:LINE.")
    remark = Remark(
        path=path,
        line=int(line),
        body=sys.stdin.read() if body == "-" else body,
        severity=severity,
        side="old" if old else "new",
    )

    async def work() -> tuple[Comment, str]:
        async with event_log.event_log(loaded) as rows:
            change = await find_change(rows, name)
            return await user_reviews.comment(
                change_context(loaded, rows, rows), change, remark, author=_me(loaded)
            )

    made, url = asyncio.run(work())
    typer.echo(json.dumps(asdict(made) | ({"url": url} if url else {})) if as_json else made.id)
    if url and not as_json:
        typer.echo(visible(url), err=True)


@app.command()
def resolve(
    name: Name, comment: Annotated[str, typer.Argument(metavar="COMMENT", help="A comment's id.")]
) -> None:
    """Mark a comment as resolved. On GitHub, resolve the conversation there as well."""
    loaded = _load()

    async def work() -> None:
        async with event_log.event_log(loaded) as rows:
            change = await find_change(rows, name)
            await Comments(rows).resolve(change.id, comment, _me(loaded))
        if change.number:
            typer.echo(
                f"Resolved here only. Resolve the conversation on GitHub too: {visible(change.url)}", err=True
            )

    asyncio.run(work())


@app.command()
@report_errors
def approve(
    name: Name = "last",
    body: Annotated[str, typer.Option("--body", metavar="TEXT", help="A comment on the verdict.")] = "",
    as_json: Json = False,
) -> None:
    """Approve a change at its current commit."""
    _judge(name, "approved", body, as_json)


@app.command("request-changes")
@report_errors
def request_changes(
    name: Name,
    body: Annotated[str, typer.Option("--body", metavar="TEXT", help="What must change.")],
    as_json: Json = False,
) -> None:
    """Request changes before a change is merged."""
    _judge(name, "changes_requested", body, as_json)


def _judge(name: str, verdict: Verdict, body: str, as_json: bool) -> None:
    loaded = _load()

    async def work() -> Review:
        async with event_log.event_log(loaded) as rows:
            change = await find_change(rows, name)
            return await user_reviews.judge(
                change_context(loaded, rows, rows), change, verdict, author=_me(loaded), body=body
            )

    review = asyncio.run(work())
    if as_json:
        typer.echo(json.dumps(asdict(review)))
        return
    typer.echo(f"{review.change_id}: {review.verdict.replace('_', ' ')} at {review.commit[:12]}.")
    if review.url:
        typer.echo(visible(review.url))


@app.command()
@report_errors
def merge(
    name: Name = "last",
    strategy: Annotated[
        Strategy | None,
        typer.Option(
            "--strategy",
            help="How to merge. By default a fast-forward if possible, else a merge commit; for a pull "
            "request, a method that its repository allows. rebase is only for pull requests.",
        ),
    ] = None,
    squash: Annotated[bool, typer.Option("--squash", help="The same as --strategy squash.")] = False,
    force: Annotated[
        bool,
        typer.Option(
            "--force", help="Merge although tests fail, changes are requested, or the run was undone."
        ),
    ] = False,
    as_json: Json = False,
) -> None:
    """Merge a change into its base branch.

    Refused without --force when its tests fail, when a reviewer requested changes and has not approved it
    since, or when its run was undone in the session.
    """
    loaded = _load()
    if squash and strategy not in (None, "squash"):
        raise BadRequest(f"--squash contradicts --strategy {strategy}. Use one of them.")
    how: Strategy | None = "squash" if squash else strategy

    async def work() -> change_diff_merge_and_close.MergedChange:
        by = signature(loaded.settings.delivery.author) or DEFAULT_AUTHOR
        async with event_log.event_log(loaded) as rows:
            found = await find_change(rows, name)
            return await change_diff_merge_and_close.merge(
                change_context(loaded, rows, rows), found, strategy=how, force=force, author=by
            )

    done = asyncio.run(work())
    change, stays = done.change, done.branch_stays
    if as_json:
        merged = {"change": change.id, "base": change.base, "commit": done.commit}
        typer.echo(json.dumps({**merged, "branch_deleted": not stays, "overridden": done.overridden}))
        return
    for objection in done.overridden:
        typer.echo(visible(f"hutch: merged although {objection}"), err=True)
    typer.echo(f"{change.base} is now at {done.commit[:12]}." if done.commit else f"{change.id} is merged.")
    if change.number:
        typer.echo(visible(change.url))
    if stays:
        typer.echo(visible(stays), err=True)


@app.command()
def close(name: Name = "last") -> None:
    """Close a change and delete its branch."""
    loaded = _load()

    async def work() -> tuple[str, str]:
        async with event_log.event_log(loaded) as rows:
            found = await find_change(rows, name)
            return found.id, await change_diff_merge_and_close.close(
                change_context(loaded, rows, rows), found
            )

    closed, stays = asyncio.run(work())
    typer.echo(f"{closed} is closed{'.' if stays else ', and its branch is deleted.'}")
    if stays:
        typer.echo(visible(stays), err=True)


def _where(change: Change) -> str:
    """The short name of a change's repository, with the number of its pull request."""
    url = parse_repo_url(change.repository)
    name = "/".join(url.slug) if url.slug else url.name
    return f"{name}#{change.number}" if change.number else name


def _me(loaded: settings.LoadedSettings) -> str:
    """The author of comments and verdicts: the name that the user's commits carry."""
    return signature(loaded.settings.delivery.author) or "local"


def _hidden(found: Sequence[Change], near: Sequence[Change]) -> str:
    """A note on how many changes a list omits and how to see them; empty when it omits none.

    `near` are those of the current repository, or all.
    """
    states = [each.state for each in near]
    counts = [f"{states.count(state)} {state}" for state in ("merged", "closed") if state in states]
    others = len(found) - len(near)
    counts += [f"{others} of other repositories"] if others else []
    return f"Not shown: {', '.join(counts)}. See all: hutch changes list --all" if counts else ""


def _load() -> settings.LoadedSettings:
    loaded = settings.load()
    configure_logs(loaded)
    return loaded
