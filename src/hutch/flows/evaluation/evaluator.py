"""Runs cases in parallel, each in its own workspace and jail, and grades each in a fresh jail."""

import asyncio
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager, aclosing, suppress
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

import structlog

from hutch.agent.repository_testing.test_runner import Runner
from hutch.domain.errors import BadRequest, HutchError, NotFound, Unavailable
from hutch.domain.events import Event, RunEnded, RunStarted, SessionEnded, SessionPrepared
from hutch.domain.ids import SessionId
from hutch.domain.inputs import End, Prompt
from hutch.domain.log_entry_audience import WHOLE
from hutch.domain.no_model_messages import is_offline_script, no_model_message
from hutch.domain.session import Delivery, NewSession
from hutch.domain.user import Caller
from hutch.flows import sessions
from hutch.flows.evaluation.case_definition import EvalCase
from hutch.flows.evaluation.grading import CaseTests, Grade, choose_runner, grade
from hutch.flows.flow_services import Services
from hutch.flows.run_and_log_lookup import read_log
from hutch.flows.run_history_reader import read_run_history
from hutch.jail.interface import Jail
from hutch.sessions.host_of_live_sessions import LocalHost
from hutch.sessions.interface import Delta
from hutch.sessions.requests import Diff
from hutch.system.lazy_dataclass import dataclass
from hutch.system.uncancellable_work import run_to_end
from hutch.workspace.lifecycle.workspace_record_and_directories import Record
from hutch.workspace.workspace import Workspace
from hutch.workspace.workspaces import session_workspace_id

logger = structlog.get_logger()

E = TypeVar("E", bound=Event)
FAR_ENOUGH = ("done", "tests_failing", "limit_reached")  # outcomes after which the work is graded


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
    """The options for all cases of a set."""

    source: Path  # the file of the set, which no case may reveal
    model: str | None = None
    persona: str | None = None
    jobs: int = 2
    plain: bool = False  # whether their repositories may be directories without git
    on_begin: Callable[[str], None] = lambda name: None
    on_event: Callable[[str, Event], None] = lambda name, event: None
    on_result: Callable[["Result"], None] = lambda result: None


@dataclass(frozen=True, slots=True)
class Result:
    """How one case ended."""

    name: str
    passed: bool
    outcome: str  # of the run; `error` when there was none
    reason: str
    turns: int = 0
    input_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float | None = None  # None: unknown
    duration_s: float = 0.0
    model: str = ""
    session_id: str = ""
    tests: tuple[dict[str, Any], ...] = ()
    patch: str = ""
    code: str = ""  # of the error that ended the run, such as `denied` for a rejected key

    @property
    def tokens(self) -> int:
        return self.input_tokens + self.output_tokens


async def evaluate(context: EvalContext, cases: Sequence[EvalCase], options: EvalOptions) -> None:
    """Run all cases, some at a time. Each result is reported at once, so a cancelled caller has them."""
    turn = asyncio.Semaphore(options.jobs)

    async def one(case: EvalCase) -> None:
        async with turn:
            options.on_begin(case.name)
            options.on_result(await _attempt(context, case, options))

    try:
        async with asyncio.TaskGroup() as group:
            for case in cases:
                group.create_task(one(case))
    except ExceptionGroup as troubles:  # no model, or of a callback: a closed pipe, a full disk
        raise troubles.exceptions[0] from None


def report(
    source: str, began: datetime, cases: Sequence[EvalCase], results: Sequence[Result]
) -> dict[str, Any]:
    """All results, for programs; in the order of the cases."""
    by_name = {result.name: result for result in results}
    known = [result.cost_usd for result in results if result.cost_usd is not None]
    return {
        "version": 1,
        "source": source,
        "began": began.isoformat(),
        "written": datetime.now(UTC).isoformat(),
        "passed": sum(result.passed for result in results),
        "failed": sum(not result.passed for result in results),
        "not_run": [case.name for case in cases if case.name not in by_name],
        "turns": sum(result.turns for result in results),
        "tokens": sum(result.tokens for result in results),
        "cost_usd": sum(known) if len(known) == len(results) else None,
        "tasks": [asdict(by_name[case.name]) for case in cases if case.name in by_name],
    }


async def _attempt(context: EvalContext, case: EvalCase, options: EvalOptions) -> Result:
    """Run one case. An error is the result of this case and does not affect the others."""
    began = time.monotonic()
    try:
        with tempfile.TemporaryDirectory(prefix="hutch-eval-") as folder:
            return await _work(context, case, options, Path(folder))
    except NoModel:
        raise
    except HutchError as error:
        reason = str(error)
    except Exception as error:  # a bug, or a failing machine: the other cases continue
        logger.exception("a task of an evaluation broke", task=case.name)
        reason = f"{type(error).__name__}: {error}"
    return Result(case.name, False, "error", reason, duration_s=time.monotonic() - began)


async def _work(context: EvalContext, case: EvalCase, options: EvalOptions, folder: Path) -> Result:
    """Run a case in its own session: prepare, check and prompt it, and grade it after its jail is closed."""
    began = time.monotonic()
    new = NewSession(
        purpose=f"Evaluate {case.name}",
        repository=case.repo or str(_starter(case, folder)),
        revision=case.revision or "",
        persona=options.persona or case.persona or "",
        model=options.model or _model(case, folder) or "",
        limits=case.limits.for_run(),
        delivery=Delivery(unattended=True, titled=True),
        plain_directory=options.plain or not case.repo,  # starter files come from the case itself
    )
    session = await sessions.create(context.services, context.caller, new)
    try:
        await _until(context, session.id, SessionPrepared)
        async with context.host.sandbox(session.id) as sandbox:
            _check_hidden(case, options.source, sandbox.workspace)
            tests = context.tests_of(sandbox.workspace.record)
            runner = await choose_runner(sandbox.workspace, case, tests.command)
        await sessions.give(context.services, context.caller, session.id, Prompt(text=case.prompt))

        def take_event(event: Event) -> None:
            if not new.model and isinstance(event, RunStarted) and is_offline_script(event.model):
                raise NoModel(no_model_message())
            options.on_event(case.name, event)

        ended = await _until(context, session.id, RunEnded, on_event=take_event)
        await context.host.worker.wait_for(ended.run_id)
        before = read_run_history(await read_log(context.services.log, session.id), ended.run_id)
        patch = (await context.host.call(session.id, Diff(before.first, before.last))).patch
        clean = context.services.redactor.redact
        shown_patch = await asyncio.to_thread(clean, patch.decode(errors="replace"))
        await context.host.close(session.id, reason="it is graded")
        graded = Grade(False, ended.reason)
        if ended.outcome in FAR_ENOUGH:
            graded = await _graded(context, case, runner, tests, before.started.workspace, before.first)
    finally:
        await run_to_end(_finish(context, session.id))
    return Result(
        name=case.name,
        passed=graded.passed,
        outcome=ended.outcome,
        reason=graded.reason,
        turns=ended.turns,
        input_tokens=ended.input_tokens,
        cached_tokens=ended.cached_tokens,
        output_tokens=ended.output_tokens,
        cost_usd=ended.cost_usd,
        duration_s=round(time.monotonic() - began, 3),
        model=before.started.model,
        session_id=session.id,
        tests=graded.tests,
        patch=shown_patch,
        code=ended.code,
    )


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
    """End the session and remove its files: only its log remains."""
    await sessions.give(context.services, context.caller, session_id, End())
    with suppress(NotFound):  # it was not created
        await context.host.remove_workspace(session_workspace_id(session_id))


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


def _check_hidden(case: EvalCase, source: Path, workspace: Workspace) -> None:
    """Refuse a set of tasks inside the repository of a task: the agent would see its tests."""
    here, repository = source.resolve(), (case.repo or "").removeprefix("file://")
    if not repository.startswith("/") or not here.is_relative_to(Path(repository).resolve()):
        return
    path = str(here.relative_to(Path(repository).resolve()))
    with suppress(NotFound):
        workspace.files.stat(path)
        raise BadRequest(
            f"The agent would see the hidden tests: {path} is in the repository. Keep the tasks elsewhere."
        )
