"""Tasks run side by side, each in a workspace and a jail of its own, then graded in a fresh jail."""

import asyncio
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import aclosing, suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

import structlog

from hutch.agent.testing.detect import Runner
from hutch.app import jails, models, workspaces
from hutch.app.local import Local, open_local
from hutch.domain.errors import BadRequest, HutchError, NotFound, Unavailable
from hutch.domain.events import Entry, Event, RunEnded, SessionEnded, SessionPrepared
from hutch.domain.ids import SessionId
from hutch.domain.inputs import End, Prompt
from hutch.domain.session import Bounds, Delivery
from hutch.flows import sessions
from hutch.flows.evaluation import Grade, Task, choose_runner, grade
from hutch.flows.past import past
from hutch.flows.runs import read_log
from hutch.flows.sessions import NewSession
from hutch.sessions.requests import Diff
from hutch.settings import Loaded
from hutch.system.thread import complete
from hutch.workspace.workspace import Workspace

logger = structlog.get_logger()

E = TypeVar("E", bound=Event)
FAR_ENOUGH = ("done", "tests_failing", "limit_reached")  # what was done by then is graded


@dataclass(frozen=True, slots=True)
class Wanted:
    """What holds for all tasks of a set."""

    source: Path  # the set itself, which no task may show
    model: str | None = None
    persona: str | None = None
    jobs: int = 2
    plain: bool = False  # whether their repositories may be directories without git
    on_begin: Callable[[str], None] = lambda name: None
    on_event: Callable[[str, Event], None] = lambda name, event: None
    on_result: Callable[["Result"], None] = lambda result: None


@dataclass(frozen=True, slots=True)
class Result:
    """How one task ended."""

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

    @property
    def tokens(self) -> int:
        return self.input_tokens + self.output_tokens


async def evaluate(loaded: Loaded, tasks: Sequence[Task], wanted: Wanted) -> None:
    """Do all tasks, some at a time. Each result is told as it comes; who cancels keeps those."""
    turn = asyncio.Semaphore(wanted.jobs)

    async def one(local: Local, task: Task) -> None:
        async with turn:
            wanted.on_begin(task.name)
            wanted.on_result(await _attempt(local, task, wanted))

    try:
        async with open_local(loaded, jobs=wanted.jobs) as local, asyncio.TaskGroup() as group:
            for task in tasks:
                group.create_task(one(local, task))
    except ExceptionGroup as troubles:  # of who is told: a closed pipe, a full disk
        raise troubles.exceptions[0] from None


def report(source: str, began: datetime, tasks: Sequence[Task], results: Sequence[Result]) -> dict[str, Any]:
    """All results, for programs; in the order of the tasks."""
    by_name = {result.name: result for result in results}
    known = [result.cost_usd for result in results if result.cost_usd is not None]
    return {
        "version": 1,
        "source": source,
        "began": began.isoformat(),
        "written": datetime.now(UTC).isoformat(),
        "passed": sum(result.passed for result in results),
        "failed": sum(not result.passed for result in results),
        "not_run": [task.name for task in tasks if task.name not in by_name],
        "turns": sum(result.turns for result in results),
        "tokens": sum(result.tokens for result in results),
        "cost_usd": sum(known) if len(known) == len(results) else None,
        "tasks": [asdict(by_name[task.name]) for task in tasks if task.name in by_name],
    }


async def _attempt(local: Local, task: Task, wanted: Wanted) -> Result:
    """One task. Whatever goes wrong with it is its result, and nobody else's trouble."""
    began = time.monotonic()
    try:
        with tempfile.TemporaryDirectory(prefix="hutch-eval-") as folder:
            return await _work(local, task, wanted, Path(folder))
    except HutchError as error:
        reason = str(error)
    except Exception as error:  # a bug, or a machine in trouble: the other tasks go on
        logger.exception("a task of an evaluation broke", task=task.name)
        reason = f"{type(error).__name__}: {error}"
    return Result(task.name, False, "error", reason, duration_s=time.monotonic() - began)


async def _work(local: Local, task: Task, wanted: Wanted, folder: Path) -> Result:
    """A session of its own: made ready, looked at, prompted, and graded when its jail is closed."""
    began = time.monotonic()
    new = NewSession(
        purpose=f"Evaluate {task.name}",
        repository=task.repo or str(_starter(task, folder)),
        revision=task.revision or "",
        persona=wanted.persona or task.persona or "",
        model=wanted.model or _model(task, folder) or "",
        limits=Bounds(**asdict(task.limits.for_run())),
        delivery=Delivery(unattended=True),
        plain_directory=wanted.plain or not task.repo,  # starter files are what the task itself brings
    )
    session = await sessions.create(local.site, local.who, new)
    try:
        await _until(local, session.id, SessionPrepared)
        async with local.host.desk(session.id) as desk:
            _check_hidden(task, wanted.source, desk.workspace)
            runner = await choose_runner(desk.workspace, task, local.loaded.settings.tests.command)
        await sessions.give(local.site, local.who, session.id, Prompt(text=task.prompt))
        ended = await _until(
            local, session.id, RunEnded, tell=lambda event: wanted.on_event(task.name, event)
        )
        await local.host.worker.wait_for(ended.run_id)
        before = past(await read_log(local.log, session.id), ended.run_id)
        patch = (await local.host.call(session.id, Diff(before.first, before.last))).patch
        clean = local.site.redactor.clean
        shown_patch = await asyncio.to_thread(clean, patch.decode(errors="replace"))
        await local.host.close(session.id, reason="it is graded")
        graded = Grade(False, ended.reason)
        if ended.outcome in FAR_ENOUGH:
            graded = await _graded(local.loaded, task, runner, before.started.workspace, before.first)
    finally:
        await complete(_finish(local, session.id))
    return Result(
        name=task.name,
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
    )


async def _until(
    local: Local, session_id: SessionId, type_: type[E], *, tell: Callable[[Event], None] = lambda event: None
) -> E:
    """The first event of a type; refused when the session ends before that."""
    async with aclosing(local.host.follow(session_id)) as updates:
        async for update in updates:
            if isinstance(update, Entry) and isinstance(update.event, Event):
                tell(update.event)
                if isinstance(update.event, type_):
                    return update.event
                if isinstance(update.event, SessionEnded):
                    raise Unavailable(update.event.reason)
    raise Unavailable("The session has ended.")


async def _finish(local: Local, session_id: SessionId) -> None:
    """End the session, and remove its files: only its log stays."""
    await sessions.give(local.site, local.who, session_id, End())
    with suppress(NotFound):  # it did not come to that
        await workspaces.remove(local.loaded, workspaces.session_name(session_id))


async def _graded(loaded: Loaded, task: Task, runner: Runner, id_: str, first: int) -> Grade:
    """In a new jail: what the agent left running, in /tmp or at home, is gone."""
    async with workspaces.open_workspace(loaded, id_) as workspace:
        policy = await workspace.policy(jails.jail_policy(loaded.settings))
        async with jails.open_jail(workspace.place, policy) as jail:
            clean = models.redactor(loaded).clean
            return await grade(workspace, jail, task, runner, first, clean=clean)


def _starter(task: Task, folder: Path) -> Path:
    place = folder / "files"
    for path, text in task.files.items():
        (place / path).parent.mkdir(parents=True, exist_ok=True)
        (place / path).write_text(text, encoding="utf-8")
    return place


def _model(task: Task, folder: Path) -> str | None:
    if task.cassette is None or isinstance(task.cassette, str):
        return f"scripted:{task.cassette}" if task.cassette else task.model
    file = folder / "cassette.json"
    file.write_text(task.cassette.model_dump_json(), encoding="utf-8")
    return f"scripted:{file}"


def _check_hidden(task: Task, source: Path, workspace: Workspace) -> None:
    """A set of tasks that lies in the repository it is about would show the agent its tests."""
    here, repository = source.resolve(), (task.repo or "").removeprefix("file://")
    if not repository.startswith("/") or not here.is_relative_to(Path(repository).resolve()):
        return
    path = str(here.relative_to(Path(repository).resolve()))
    with suppress(NotFound):
        workspace.files.stat(path)
        raise BadRequest(
            f"The agent would see the hidden tests: {path} is in the repository. Keep the tasks elsewhere."
        )
