"""Runs attempts at cases in parallel, each in its own workspace and jail, and grades each in a fresh jail."""

import asyncio
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager, aclosing, suppress
from pathlib import Path
from typing import Any, TypeVar

import structlog

from hutch.agent.repository_testing.runner_definition import Runner
from hutch.domain.errors import BadRequest, Conflict, HutchError, NotFound, Unavailable
from hutch.domain.events import Event, RunEnded, RunStarted, SessionEnded, SessionPrepared
from hutch.domain.helper_agent_events import HelperEnded
from hutch.domain.ids import SessionId
from hutch.domain.inputs import End, Prompt
from hutch.domain.log_entry_audience import WHOLE
from hutch.domain.no_model_messages import is_offline_script, no_model_message
from hutch.domain.session import NO_TRIES, Delivery, NewSession, Rerun, Session, Tries
from hutch.domain.user import Caller
from hutch.flows import sessions
from hutch.flows.evaluation.attempts_and_report import Attempt, Result
from hutch.flows.evaluation.case_definition import EvalCase
from hutch.flows.evaluation.grading import CaseTests, Grade, choose_runner, grade
from hutch.flows.flow_services import Services
from hutch.flows.run_and_log_lookup import read_log
from hutch.flows.run_facts_from_log import read_run_history
from hutch.flows.session_rerun import fork_at
from hutch.jail.interface import Jail
from hutch.sessions.file_and_command_requests import Diff
from hutch.sessions.interface import Delta
from hutch.sessions.live_session_host import LocalHost
from hutch.system.lazy_dataclass import dataclass
from hutch.system.uncancellable_work import run_to_end
from hutch.workspace.lifecycle.workspace_record_and_directories import Record
from hutch.workspace.workspace import Workspace
from hutch.workspace.workspaces import session_workspace_id

logger = structlog.get_logger()

E = TypeVar("E", bound=Event)
MAX_HELPERS = 200  # of one attempt: tries, their reviews and checks
GRADED_OUTCOMES = ("done", "tests_failing", "limit_reached")  # outcomes after which the work is graded


class NoModel(Unavailable):
    """No model is connected, so no task that names none can be evaluated."""


@dataclass(frozen=True, slots=True)
class EvalContext:
    """The dependencies of an evaluation; `app/` builds it."""

    services: Services
    host: LocalHost
    caller: Caller
    # A jail without processes of the agent, on the workspace of this id.
    open_fresh: Callable[[str], AbstractAsyncContextManager[tuple[Workspace, Jail]]]
    tests_of: Callable[[Record], CaseTests]  # the settings that count for a workspace


@dataclass(frozen=True, slots=True)
class EvalOptions:
    """The options for all attempts."""

    source: Path  # the file of the set, which no case may reveal
    persona: str | None = None
    jobs: int = 2
    tries: Tries = NO_TRIES  # in each attempt
    plain: bool = False  # whether their repositories may be directories without git
    on_begin: Callable[[Attempt], None] = lambda attempt: None
    on_event: Callable[[Attempt, Event], None] = lambda attempt, event: None
    on_result: Callable[[Result], None] = lambda result: None


async def evaluate(context: EvalContext, attempts: Sequence[Attempt], options: EvalOptions) -> None:
    """Make all attempts, some at a time. Each result is reported at once, so a cancelled caller has them."""
    turn = asyncio.Semaphore(options.jobs)

    async def one(attempt: Attempt) -> None:
        async with turn:
            options.on_begin(attempt)
            options.on_result(await _attempt(context, attempt, options))

    try:
        async with asyncio.TaskGroup() as group:
            for attempt in attempts:
                group.create_task(one(attempt))
    except ExceptionGroup as troubles:  # no model, or of a callback: a closed pipe, a full disk
        raise troubles.exceptions[0] from None


async def _attempt(context: EvalContext, attempt: Attempt, options: EvalOptions) -> Result:
    """Make one attempt. An error is the result of this one and does not affect the others."""
    began = time.monotonic()
    try:
        with tempfile.TemporaryDirectory(prefix="hutch-eval-") as folder:
            return await _work(context, attempt, options, Path(folder))
    except NoModel:
        raise
    except HutchError as error:
        reason = str(error)
    except Exception as error:  # a bug, or a failing machine: the other attempts continue
        logger.exception("a task of an evaluation broke", task=attempt.label)
        reason = f"{type(error).__name__}: {error}"
    return Result(attempt, False, "error", reason, duration_s=time.monotonic() - began)


async def _open(
    context: EvalContext, attempt: Attempt, options: EvalOptions, folder: Path
) -> tuple[Session, str]:
    """Open the session of an attempt, and tell its prompt. Nothing runs in it yet."""
    case = attempt.case
    limits, delivery = case.limits.for_run(), Delivery(unattended=True, titled=True, tries=options.tries)
    persona, model = options.persona or case.persona or "", attempt.model or _model(case, folder) or ""
    if case.rerun is not None:
        asked = Rerun(event=case.rerun.event, model=model, persona=persona, prompt=case.prompt)
        services, caller, recorded = context.services, context.caller, case.rerun.session
        purpose = f"Evaluate {case.name}"
        forked = await fork_at(
            *(services, caller, recorded, asked),
            prompts=False,
            delivery=delivery,
            limits=limits,
            purpose=purpose,
        )
        return forked.session, forked.prompt
    new = NewSession(
        purpose=f"Evaluate {case.name}",
        repository=case.repo or str(_starter(case, folder)),
        revision=case.revision or "",
        persona=persona,
        model=model,
        limits=limits,
        delivery=delivery,
        plain_directory=options.plain or not case.repo,  # starter files come from the case itself
    )
    return await sessions.create(context.services, context.caller, new), case.prompt


async def _work(context: EvalContext, attempt: Attempt, options: EvalOptions, folder: Path) -> Result:
    """One attempt in its own session: prepare, check and prompt it, and grade it after its jail is closed."""
    began, case = time.monotonic(), attempt.case
    session, prompt = await _open(context, attempt, options, folder)
    try:
        await _until(context, session.id, SessionPrepared)
        async with context.host.sandbox(session.id) as sandbox:
            _check_hidden(session.repository, options.source, sandbox.workspace)
            tests = context.tests_of(sandbox.workspace.record)
            runner = await choose_runner(sandbox.workspace, case, tests.command)
        await sessions.give(context.services, context.caller, session.id, Prompt(text=prompt))

        def take_event(event: Event) -> None:
            if not session.model and isinstance(event, RunStarted) and is_offline_script(event.model):
                raise NoModel(no_model_message())
            options.on_event(attempt, event)

        ended = await _until(context, session.id, RunEnded, on_event=take_event)
        await context.host.worker.wait_for(ended.run_id)
        entries = await read_log(context.services.log, session.id)
        before = read_run_history(entries, ended.run_id)
        patch = (await context.host.call(session.id, Diff(before.first, before.last))).patch
        clean = context.services.redactor.redact
        shown_patch = await asyncio.to_thread(clean, patch.decode(errors="replace"))
        await context.host.close(session.id, reason="it is graded")
        graded = Grade(False, ended.reason)
        if ended.outcome in GRADED_OUTCOMES:
            graded = await _graded(context, case, runner, tests, before.started.workspace, before.first)
    finally:
        await run_to_end(_finish(context, session.id))
    return Result(
        attempt=attempt,
        passed=graded.passed,
        outcome=ended.outcome,
        reason=graded.reason,
        **_usage(ended, [each.event for each in entries if isinstance(each.event, HelperEnded)]),
        duration_s=round(time.monotonic() - began, 3),
        model=before.started.model,
        session_id=session.id,
        tests=graded.tests,
        patch=shown_patch,
        code=ended.code,
    )


def _usage(ended: RunEnded, helpers: Sequence[HelperEnded]) -> dict[str, Any]:
    """The usage of a run and its helpers together."""
    names = ("turns", "input_tokens", "cached_tokens", "output_tokens")
    used: list[Any] = [ended, *(each for each in helpers if each.run_id == ended.run_id)]
    costs = [each.cost_usd for each in used if each.cost_usd is not None]
    totals = {name: sum(getattr(each, name) for each in used) for name in names}
    return totals | {"cost_usd": sum(costs) if len(costs) == len(used) else None}


async def _until(
    context: EvalContext,
    session_id: SessionId,
    type_: type[E],
    *,
    on_event: Callable[[Event], None] = lambda event: None,
) -> E:
    """Wait for the first event of a type; raise when the session ends before that."""
    async with aclosing(context.host.follow(session_id, WHOLE)) as updates:
        async for update in updates:
            if not isinstance(update, Delta) and isinstance(update.event, Event):
                on_event(update.event)
                if isinstance(update.event, type_):
                    return update.event
                if isinstance(update.event, SessionEnded):
                    raise Unavailable(update.event.reason)
    raise Unavailable("The session has ended.")


async def _finish(context: EvalContext, session_id: SessionId) -> None:
    """End the session and its helpers, and remove their files: only their logs remain."""
    helpers = await sessions.page(context.services, context.caller, parent=session_id, limit=MAX_HELPERS)
    for id in (*(each.session.id for each in helpers), session_id):
        with suppress(Conflict):  # it has ended already
            await sessions.give(context.services, context.caller, id, End())
        with suppress(NotFound):  # it was not created
            await context.host.remove_workspace(session_workspace_id(id))


async def _graded(
    context: EvalContext, case: EvalCase, runner: Runner, tests: CaseTests, id_: str, first: int
) -> Grade:
    """Grade in a new jail, without the agent's processes and its files in /tmp or at home."""
    async with context.open_fresh(id_) as (workspace, jail):
        clean = context.services.redactor.redact
        return await grade(workspace, jail, case, runner, first, tests=tests, clean=clean)


def _starter(case: EvalCase, folder: Path) -> Path:
    place = folder / "files"
    for path, text in case.files.items():
        (place / path).parent.mkdir(parents=True, exist_ok=True)
        (place / path).write_text(text, encoding="utf-8")
    return place


def _model(case: EvalCase, folder: Path) -> str | None:
    if case.cassette is None or isinstance(case.cassette, str):
        return f"scripted:{case.cassette}" if case.cassette else case.model
    file = folder / "cassette.json"
    file.write_text(case.cassette.model_dump_json(), encoding="utf-8")
    return f"scripted:{file}"


def _check_hidden(repository: str, source: Path, workspace: Workspace) -> None:
    """Refuse a set of tasks inside the repository of a task: the agent would see its tests."""
    here, repository = source.resolve(), repository.removeprefix("file://")
    if not repository.startswith("/") or not here.is_relative_to(Path(repository).resolve()):
        return
    path = str(here.relative_to(Path(repository).resolve()))
    with suppress(NotFound):
        workspace.files.stat(path)
        raise BadRequest(
            f"The agent would see the hidden tests: {path} is in the repository. Keep the tasks elsewhere."
        )
