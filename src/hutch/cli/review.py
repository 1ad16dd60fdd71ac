"""`hutch review`: an agent reads a change or a pull request, and says what is wrong with it."""

import asyncio
import json
import sys
from contextlib import suppress
from dataclasses import asdict, replace
from typing import Annotated

import typer

from hutch import app, settings
from hutch.app import personas, records, reviews, runs
from hutch.app.dispositions import ENDS, is_answered
from hutch.app.reviews import ai_review
from hutch.cli import exits
from hutch.cli.run import MaxCost, MaxTokens, MaxTurns, Timeout
from hutch.cli.run_screen import JsonLines, Screen, Show
from hutch.cli.stand_in import NO_MODEL, is_stand_in
from hutch.cli.visible import visible
from hutch.domain.errors import Unavailable


def review_command(
    target: Annotated[
        str,
        typer.Argument(
            metavar="CHANGE", help="A change's id or branch, 'last', or a pull request's address."
        ),
    ] = "last",
    instructions: Annotated[
        str, typer.Option("--look-for", metavar="TEXT", help="What to look for above all.")
    ] = "",
    model: Annotated[str | None, typer.Option(metavar="PROVIDER:NAME", help="The model that thinks.")] = None,
    again: Annotated[
        bool, typer.Option("--again", help="Though this commit of a pull request was reviewed before.")
    ] = False,
    max_cost: MaxCost = None,
    max_turns: MaxTurns = None,
    max_tokens: MaxTokens = None,
    timeout: Timeout = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object per line.")] = False,
) -> int:
    """Have an agent read a change in a jail: it runs the tests, and leaves comments and a verdict.

    Nothing is edited. What is found is kept with the change (`hutch changes comments`), or posted as
    a review of the pull request. Exits with 3 when there is something that must not be merged.
    """
    limits = runs.RunLimits(max_turns, max_tokens, max_cost, timeout)
    show: Show = JsonLines() if as_json else Screen()
    return asyncio.run(_review(target, instructions, model, limits, show, again=again, as_json=as_json))


async def _review(
    target: str,
    instructions: str,
    model: str | None,
    limits: runs.RunLimits,
    show: Show,
    *,
    again: bool,
    as_json: bool,
) -> int:
    loaded = settings.load()
    app.configure_logs(loaded)
    task = asyncio.current_task()
    assert task is not None
    for number in filter(is_answered, ENDS):
        asyncio.get_running_loop().add_signal_handler(number, task.cancel)
    try:
        async with records.event_log(loaded.paths) as rows:
            ours = await reviews.change_at(rows, target) if "://" in target else None
            repository, subject = await reviews.subject_of(loaded, rows, ours.id if ours else target)
            look = bool(subject.pull_url) and not again
            before = await reviews.given_before(loaded, rows, subject) if look else None
        if before:
            return _told(before, [], as_json, _already(before))
        prompt = ai_review.prompt(subject)
        prompt += f"\n\n{instructions}" if instructions else ""
        job = runs.Job(
            prompt=f"Review {target}",
            repository=repository,
            revision=subject.commit,
            persona=ai_review.PERSONA,
            model=model,
            terms=runs.Terms(limits=limits, deliver=False),
        )
        async with runs.open_run(
            loaded, job, on_delta=show.delta, on_event=show.event, on_progress=show.progress
        ) as opened:
            bench = opened.bench
            if is_stand_in(opened.choice.name):  # what it says of a change is nothing, and counts for nothing
                await bench.append([runs.events.SessionEnded(outcome="failed", reason=NO_MODEL)])
                raise Unavailable(NO_MODEL)
            await ai_review.equip(bench, personas.find_persona(loaded, ai_review.PERSONA), subject, limits)
            show.begin(opened)
            worked = await opened.work(prompt)
            if worked.ended.outcome not in ai_review.FINISHED:
                return exits.OUTCOMES[worked.ended.outcome]
            entries = await reviews.read_log(bench.log, bench.session_id)
            found, remarks = ai_review.concluded(subject, entries, bench.session_id, opened.run_id)

            async def keep() -> reviews.Review:
                kept = await reviews.keep(loaded, opened.log, subject, found, remarks, once=not again)
                if kept.run_id == opened.run_id:
                    await bench.append([reviews.given(kept, remarks)])
                return kept

            kept = await reviews.seen_through(keep())
            await opened.finish(replace(worked, last=worked.first))
            note = "" if kept.run_id == opened.run_id else f"Somebody was faster: {_already(kept)}"
            return _told(kept, [] if note else remarks, as_json, note)
    except asyncio.CancelledError:
        with suppress(BrokenPipeError):
            sys.stderr.write("hutch: stopped; nothing was said about the change.\n")
        return exits.INTERRUPTED


def _already(before: reviews.Review) -> str:
    return f"Already reviewed at {before.commit[:12]}; --again reads it once more."


def _told(review: reviews.Review, remarks: list[reviews.Remark], as_json: bool, note: str = "") -> int:
    if as_json:
        told = {"type": "review", **asdict(review), "comments": [asdict(each) for each in remarks]}
        typer.echo(json.dumps(told | ({"note": note} if note else {})))
    else:
        typer.echo("")
        for remark in remarks:
            typer.echo(visible(f"{remark.path}:{remark.line}  {remark.severity}"))
            typer.echo("\n".join(f"    {visible(line)}" for line in remark.body.splitlines()))
        typer.echo(f"{review.verdict.replace('_', ' ')}: {visible(review.title)}")
        if note:
            typer.echo(note)
        if review.url:
            typer.echo(visible(review.url))
    return exits.NO if review.verdict == "changes_requested" else exits.OK
