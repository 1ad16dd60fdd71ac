"""`hutch run`: a prompt and a repository become a tested change, watched as it happens."""

import asyncio
import signal
import sys
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from hutch import app, settings
from hutch.app import records, runs
from hutch.cli import exits
from hutch.cli.author import signature
from hutch.cli.run_screen import JsonLines, Screen, Show
from hutch.domain.errors import BadRequest, HutchError

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object per line.")]
MaxCost = Annotated[float | None, typer.Option(metavar="USD", min=0, help="Stop at this price.")]
MaxTurns = Annotated[int | None, typer.Option(metavar="N", min=1, help="Stop after so many replies.")]
MaxTokens = Annotated[int | None, typer.Option(metavar="N", min=1, help="Stop after so many tokens.")]
Timeout = Annotated[float | None, typer.Option(metavar="S", min=0, help="Stop after so many seconds.")]
OUTCOMES = {
    "done": exits.OK,
    "tests_failing": exits.NO,
    "limit_reached": exits.LIMIT_REACHED,
    "failed": exits.UNAVAILABLE,
    "cancelled": exits.INTERRUPTED,
}


def run_command(
    prompt: Annotated[
        str, typer.Argument(metavar="PROMPT", help="What to do; - reads it from standard input.")
    ],
    repo: Annotated[str, typer.Option("--repo", metavar="REPO", help="A directory or an address.")] = ".",
    revision: Annotated[
        str | None, typer.Option("--revision", metavar="REV", help="A branch, a tag or a commit to begin at.")
    ] = None,
    uncommitted: Annotated[
        bool, typer.Option("--uncommitted", help="Bring what is changed and not committed.")
    ] = False,
    persona: Annotated[str | None, typer.Option(metavar="NAME", help="Who works on it.")] = None,
    model: Annotated[str | None, typer.Option(metavar="PROVIDER:NAME", help="The model that thinks.")] = None,
    max_cost: MaxCost = None,
    max_turns: MaxTurns = None,
    max_tokens: MaxTokens = None,
    timeout: Timeout = None,
    net: Annotated[
        list[str] | None, typer.Option("--net", metavar="HOST", help="A host that may be reached.")
    ] = None,
    record: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Keep the model's replies as a cassette.")
    ] = None,
    pr: Annotated[bool, typer.Option("--pr/--no-pr", help="Deliver the change as a branch.")] = True,
    server: Annotated[
        bool, typer.Option("--server", help="Let the server work on it; it goes on when you leave.")
    ] = False,
    as_json: Json = False,
) -> int:
    """Work on a prompt in a copy of a repository, inside a jail, and deliver a tested change.

    Nothing of yours is touched: the change comes as a branch of the repository. Ctrl-C stops the
    run, which can go on later with `hutch resume`.
    """
    text = sys.stdin.read() if prompt == "-" else prompt
    if not text.strip():
        raise BadRequest("The prompt is empty. Say what is to be done.")
    if server:
        from hutch.cli.run_served import run_served

        if uncommitted or record:
            raise BadRequest("--uncommitted and --record are for runs of this machine. Leave --server out.")
        limits = {"turns": max_turns, "tokens": max_tokens, "cost_usd": max_cost, "timeout_s": timeout}
        body = {
            "prompt": text,
            "repository": repo,
            "revision": revision or "",
            "persona": persona or "",
            "model": model or "",
            "network": list(net or ()),
            "deliver": pr,
            "limits": {name: value for name, value in limits.items() if value is not None},
        }
        return run_served(body, as_json=as_json)
    terms = runs.Terms(
        network=tuple(net or ()),
        limits=runs.RunLimits(max_turns, max_tokens, max_cost, timeout),
        record=str(record.absolute()) if record else "",
        deliver=pr,
    )
    job = runs.Job(
        prompt=text,
        repository=repo,
        revision=revision,
        uncommitted=uncommitted,
        persona=persona,
        model=model,
        terms=terms,
    )
    return asyncio.run(_run(job, JsonLines() if as_json else Screen()))


def resume_command(
    run: Annotated[
        str, typer.Argument(metavar="SESSION", help="A session's or run's id, or 'last'.")
    ] = "last",
    pr: Annotated[bool | None, typer.Option("--pr/--no-pr", help="Deliver the change as a branch.")] = None,
    model: Annotated[str | None, typer.Option(metavar="PROVIDER:NAME", help="Another model.")] = None,
    max_cost: MaxCost = None,
    max_turns: MaxTurns = None,
    max_tokens: MaxTokens = None,
    timeout: Timeout = None,
    as_json: Json = False,
) -> int:
    """Go on with a run that was stopped, from its log.

    What it was started with still holds, unless something else is said here. What it has taken so
    far counts: to go on after a limit, give a higher one.
    """
    limits = runs.RunLimits(max_turns, max_tokens, max_cost, timeout)
    return asyncio.run(_resume(run, model, limits, pr, JsonLines() if as_json else Screen()))


async def _resume(
    name: str, model: str | None, limits: runs.RunLimits, deliver: bool | None, show: Show
) -> int:
    loaded = settings.load()
    async with records.event_log(loaded.paths) as log:
        session_id, entries = await runs.find_run(log, name)
    started = runs.started(entries)
    runs.must_go_on(entries)
    before = runs.Terms.of(started)
    terms = replace(
        before,
        limits=limits.or_else(before.limits),
        deliver=before.deliver if deliver is None else deliver,
    )
    job = runs.Job(
        prompt=started.prompt,
        repository="",
        persona=started.persona,
        model=model or started.model,
        terms=terms,
    )
    return await _run(job, show, resume=(session_id, entries))


async def _run(job: runs.Job, show: Show, *, resume: runs.Resume | None = None) -> int:
    loaded = settings.load()
    if not job.terms.author:
        by = await asyncio.to_thread(signature, loaded.settings.delivery.author)
        job = replace(job, terms=replace(job.terms, author=by or runs.AUTHOR))
    app.configure_logs(loaded)
    task = asyncio.current_task()
    assert task is not None
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, task.cancel)
    run_id = ""
    try:
        async with runs.open_run(
            loaded,
            job,
            resume=resume,
            on_delta=show.delta,
            on_event=show.event,
            on_progress=show.progress,
            approve=show.approve if show.interactive else None,
            ask=show.ask if show.interactive else None,
        ) as opened:
            run_id = opened.run_id
            show.begin(opened)
            worked = await opened.work(job.prompt)
            change = None
            if worked.changed:
                patch, cut = await opened.workspace.patch(worked.first.id, worked.last.id)
                clean = opened.bench.redactor.clean
                show.patch(clean(patch.decode(errors="replace")).encode(), cut)
                if job.terms.deliver and opened.can_deliver and worked.ended.outcome == "done":
                    change = await _deliver(opened, worked)
            await opened.finish(worked)
            show.end(worked, change, opened)
            return OUTCOMES[worked.ended.outcome]
    except asyncio.CancelledError:
        with suppress(BrokenPipeError):
            show.interrupted(run_id)
        return exits.INTERRUPTED


async def _deliver(opened: runs.Opened, worked: runs.Worked) -> runs.Change | None:
    """Hand over what was done. Where that fails, the work is not lost."""
    try:
        return await opened.deliver(worked)
    except HutchError:
        sys.stderr.write(
            f"hutch: It is done, but not delivered. Try again with: hutch resume {opened.run_id}\n"
        )
        raise
