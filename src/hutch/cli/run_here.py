"""A run on this machine: the jail, the model and the log are ours, and so is whoever watches."""

import asyncio
import sys
from collections.abc import Coroutine
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from hutch import app, settings
from hutch.app import records, runs
from hutch.app.dispositions import ENDS, is_answered
from hutch.cli import exits
from hutch.cli.author import signature
from hutch.cli.run_screen import JsonLines, Screen, Show
from hutch.cli.stand_in import NO_MODEL, is_stand_in
from hutch.cli.wanted import WantedSession
from hutch.domain.errors import HutchError, Unavailable


def run_here(wanted: WantedSession, *, uncommitted: bool, record: Path | None, as_json: bool) -> int:
    """Work on it here, and show it; the exit code says how it ended."""
    terms = runs.Terms(
        network=wanted.network,
        limits=_limits(wanted),
        record=str(record.absolute()) if record else "",
        deliver=wanted.deliver,
    )
    job = runs.Job(
        prompt=wanted.prompt,
        repository=wanted.repository,
        revision=wanted.revision or None,
        uncommitted=uncommitted,
        plain=wanted.plain_directory,
        persona=wanted.persona or None,
        model=wanted.model or None,
        terms=terms,
        watched=True,
    )
    return _told(_run(job, JsonLines() if as_json else Screen()), as_json)


def resume_here(name: str, wanted: WantedSession, *, deliver: bool | None, as_json: bool) -> int:
    """Go on with a run; of what is wanted, its limits and its model count."""
    show = JsonLines() if as_json else Screen()
    return _told(_resume(name, wanted.model or None, _limits(wanted), deliver, show), as_json)


def _told(work: Coroutine[Any, Any, int], as_json: bool) -> int:
    """With `as_json` what goes wrong is told as that, too, on standard error."""
    try:
        return asyncio.run(work)
    except HutchError as error:
        if not as_json:
            raise
        sys.stderr.write(f"{exits.error_json(error)}\n")
        return exits.code_of(error)


def _limits(wanted: WantedSession) -> runs.RunLimits:
    given = wanted.limits
    return runs.RunLimits(given.turns, given.tokens, given.cost_usd, given.timeout_s)


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
    for number in filter(is_answered, ENDS):
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
            opened.bench.context.on_output = show.output
            show.begin(opened)
            worked = await opened.work(job.prompt)
            change, lost = None, None
            if worked.changed:
                patch, cut = await opened.workspace.patch(worked.first.id, worked.last.id)
                clean = opened.bench.redactor.clean
                show.patch(clean(patch.decode(errors="replace")).encode(), cut)
                if job.terms.deliver and opened.can_deliver and worked.ended.outcome in runs.FINAL:
                    try:
                        change = await opened.deliver(worked)
                    except HutchError as error:  # the work is kept, and can be delivered later
                        lost, opened.lost = error, clean(str(error))
            await opened.finish(worked, delivered=change is not None)
            show.end(worked, change, opened)
            if job.model is None and is_stand_in(opened.choice.name):
                raise Unavailable(NO_MODEL)
            if lost is not None:
                return exits.code_of(lost)
            return exits.OK if change else exits.OUTCOMES[worked.ended.outcome]
    except asyncio.CancelledError:
        with suppress(BrokenPipeError):
            show.interrupted(run_id)
        return exits.INTERRUPTED
