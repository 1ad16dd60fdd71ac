"""A session that lives in this process.

It opens a jail only when one is needed, and can be dropped at any moment: everything important is logged.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import structlog

from hutch.agent.repository_testing.session_test_runs import SessionTests
from hutch.agent.repository_testing.workspace_test_suite_runs import SuiteOptions
from hutch.agent.run_setup import UserMessage
from hutch.agent.session_recorder import Recorder
from hutch.agent.tools.builtin import built_in_tools
from hutch.agent.tools.model_written_paths import escape_surrogates
from hutch.domain.errors import Conflict, Unavailable
from hutch.domain.events import (
    ApprovalAnswered,
    DeliveryEnded,
    Entry,
    Event,
    InputProcessed,
    MessageSent,
    RunEnded,
    RunResumed,
    RunStarted,
    SessionParked,
    SessionPrepared,
    SessionWoken,
    StepReached,
)
from hutch.domain.ids import SessionId
from hutch.domain.inputs import Redo, Undo
from hutch.domain.log_entry_audience import PUBLIC, filter_entry
from hutch.domain.session import DeliveryResult, QueuedRun, Session, SessionInput, SessionState
from hutch.sessions.author_work_periods import Activity
from hutch.sessions.debugging.session_breakpoints import Breakpoints
from hutch.sessions.file_and_command_request_handler import RequestHandler
from hutch.sessions.file_and_command_requests import CheckUndo, Request
from hutch.sessions.file_change_recorder import newest_snapshot
from hutch.sessions.host_dependencies_and_callbacks import HostDependencies
from hutch.sessions.pending_questions import Waits
from hutch.sessions.sandbox import Sandbox
from hutch.sessions.sandbox_with_recorders import OpenedSandbox, open_sandbox
from hutch.sessions.undo_preparation import PreparedUndo, prepare_undo
from hutch.store.run_queue import Runs
from hutch.store.session_inputs import Inputs
from hutch.store.sessions import Sessions
from hutch.system.clock_without_jumps import wall_ms
from hutch.system.uncancellable_work import run_to_end
from hutch.workspace.files.file_reads_and_changes import CheckPath
from hutch.workspace.workspace import Workspace

logger = structlog.get_logger()


class LiveSession:
    """One session."""

    def __init__(self, session_id: SessionId, dependencies: HostDependencies) -> None:
        self.id = session_id
        self.dependencies = dependencies
        self.log = dependencies.log
        self.recorder = Recorder(dependencies.log, session_id, dependencies.redactor)
        self.recorder.listeners.append(self._note)
        self.activity = Activity()
        self.tests = SessionTests(self.recorder, dependencies.rows)
        self.breakpoints = Breakpoints(self.recorder)
        self.sessions = Sessions(dependencies.rows)
        self.runs = Runs(dependencies.rows)
        self.inputs = Inputs(dependencies.rows)
        self.tools = built_in_tools()  # of this session alone
        self.inbox: list[UserMessage] = []
        self.extended: list[str] = []  # calls that were allowed once, and then for the session
        self.recovered = False  # the inputs that an earlier process left were checked
        # Inputs whose effect is in the log, even if the input is not yet marked as taken.
        self.done: set[int] = set()
        self.dropped: set[int] = set()  # messages to a run that was cancelled before it got them
        self.undelivered: dict[int, SessionInput] = {}  # inputs that the run has not received yet
        self.waits = Waits(self.append, self._publish_waiting, self.taken)
        self.on_waiting: Callable[[], None] = lambda: None  # called when a run starts or stops waiting
        self.run: QueuedRun | None = None
        self.run_ended: RunEnded | None = None  # of the last run here; in the log it may be erased already
        self.working: asyncio.Task[None] | None = None
        self.leaves_open = False  # a run that is cancelled now is resumed later
        self.used_at, self._users = time.monotonic(), 0
        self.input_lock = asyncio.Lock()
        self._noting: set[asyncio.Future[None]] = set()
        self._opening = asyncio.Lock()
        self._open: OpenedSandbox | None = None
        self.is_closed = False  # its host stops, and would not close a jail that opens now

    async def append(self, events: Sequence[Event]) -> int:
        return await self.recorder.append(events)

    async def delivered(self, ended: DeliveryEnded, at_ms: int) -> None:
        """Store the logged result of a delivery in the row of its run."""
        names = ("outcome", "reason", "failing", "change_id", "url")
        result = DeliveryResult(at_ms=at_ms, **{name: getattr(ended, name) for name in names})
        await self.runs.record_delivery(ended.run_id, result)

    async def taken(self, submitted: SessionInput, kind: str = "", *, refused: str = "") -> None:
        """Mark an input as taken: its effect is in the log. A `refused` input has none."""
        kind = kind or _kind(submitted)
        self.undelivered.pop(submitted.seq, None)
        self.done.add(submitted.seq)
        await self.append([InputProcessed(input=submitted.seq, kind=kind, by=submitted.by, refused=refused)])
        await self.inputs.mark_processed(self.id, submitted.seq)

    async def _note(self, events: Sequence[Event]) -> None:
        """Update rows and inputs after events were written."""
        for event in events:
            match event:
                case RunStarted() | RunResumed():
                    self.run_ended = None
                case RunEnded() if self.run_ended is None or self.run_ended.run_id != event.run_id:
                    self.run_ended = event
                case DeliveryEnded():
                    await self.delivered(event, wall_ms())
                case MessageSent(input=number) if number in self.undelivered:
                    self.done.add(number)
                    self._later(self.taken(self.undelivered[number]))
                case ApprovalAnswered(call_id=call_id):
                    self._later(self.waits.settled(call_id))

    async def settle(self) -> None:
        """Wait until rows and inputs are up to date with the log."""
        if self._noting:
            await asyncio.wait(self._noting)

    async def entries(self) -> list[Entry]:
        """The whole log as the agent may see it, without entries that are for certain users only."""
        found: list[Entry] = []
        has_more = True
        while has_more:
            page, has_more = await self.log.page(self.id, after=found[-1].seq if found else 0)
            found += [filter_entry(entry, PUBLIC) for entry in page]
        return found

    async def set_state(self, state: SessionState, reason: str = "") -> None:
        await self.sessions.set(self.id, state=state, reason=reason)

    async def publish_state(self) -> None:
        """Store the current state, unless the session is paused: only `resume` ends that."""
        await self.sessions.set_unless_paused(self.id, self.state)

    async def _publish_waiting(self) -> None:
        await self.publish_state()
        self.on_waiting()  # a waiting run leaves its place to another

    @property
    def is_running(self) -> bool:
        return self.run is not None and self.run.kind == "prompt"

    @property
    def state(self) -> SessionState:
        if self.is_running:
            return "waiting" if self.waits else "running"
        if self.run is not None:
            return "starting"
        return "idle" if self.is_awake else "parked"

    async def stop(self, *, leaves_open: bool = False) -> bool:
        """Stop the current run and wait until its end is recorded; False when there was none."""
        if self.working is None:
            return False
        self.leaves_open = self.leaves_open or leaves_open
        self.working.cancel()
        await asyncio.wait([self.working])
        return True

    @property
    def is_open(self) -> bool:
        return self._open is not None

    @property
    def is_awake(self) -> bool:
        return self._open is not None and not self._open.quiet  # a jail for more than reads

    @property
    def sandbox(self) -> Sandbox:
        if self._open is None:
            raise Conflict(f"The session {self.id} has no jail at the moment. Try again.")
        return self._open.sandbox

    @property
    def request_handler(self) -> RequestHandler:
        assert self._open is not None
        return self._open.request_handler

    async def open(self, *, changes: bool = True) -> Sandbox:
        """Open the workspace and its jail. A caller that `changes` nothing does not wake the session."""
        async with self._opening:
            if self.is_closed:
                raise Unavailable("Hutch is stopping. Try again when it runs again.")
            if self._open is not None and self._open.lost:
                await self._shut(reason="its jail was lost")
            if self._open is None:
                session = await self.sessions.get(self.id)
                is_new = not session.workspace_id
                if is_new and not changes:  # its preparation was cancelled, or it was paused before that
                    raise Conflict(f"The session {self.id} has no files yet. Its next prompt prepares them.")
                if is_new:
                    session = await self._prepare(session)
                self._open = await open_sandbox(self, session)
                logger.info("session.jail_opened", session_id=self.id)
                if is_new:
                    await run_to_end(self._wake(self._open, [], is_new=True))
            if changes and self._open.quiet:
                await run_to_end(self._wake(self._open, [SessionWoken()]))
            return self._open.sandbox

    async def _wake(self, opened: OpenedSandbox, events: Sequence[Event], *, is_new: bool = False) -> None:
        """Record in the log and in the state that the session has a jail, and what changed without one."""
        if events and not (await self.log.head(self.id)).ended:
            await self.append(events)
        await opened.start(0 if is_new else await newest_snapshot(self.log, self.id), is_new=is_new)
        opened.quiet = False
        if self.run is None and (await self.sessions.get(self.id)).state in ("parked", "queued", "starting"):
            await self.set_state("idle")

    async def adjust(self) -> Sequence[str]:
        """Apply the session's network and limits to its open jail. Returns the limits that need a new one."""
        async with self._opening:
            if self._open is None:
                return ()
            return await self.dependencies.callbacks.adjust(await self.sessions.get(self.id), self.sandbox)

    async def park(self, *, reason: str) -> None:
        """Take a snapshot of the workspace and close the jail."""
        async with self._opening:
            await self._shut(reason=reason)

    async def shut_down(self, *, reason: str) -> None:
        """Park for good: its host stops."""
        self.is_closed = True
        await self.park(reason=reason)

    async def stop_programs(self) -> None:
        """Stop the programs in the jail, if it is open. One that opens later has none."""
        if self._open is not None and self._open.programs is not None:
            await self._open.programs.stop()

    async def resume_programs(self) -> None:
        if self._open is not None and self._open.programs is not None:
            await self._open.programs.resume()

    @asynccontextmanager
    async def used(self, *, changes: bool = True) -> AsyncIterator[Sandbox]:
        """Hold the sandbox open while the caller uses it."""
        self._users += 1
        try:
            yield await self.open(changes=changes)
        finally:
            self._users -= 1
            self.used_at = time.monotonic()

    @property
    def busy(self) -> bool:
        if self._users or self.run is not None or self.working is not None or self.tests.current:
            return True
        opened = self._open
        return opened is not None and (
            opened.terminals.used
            or opened.debugger.is_used
            or any(command.running for command in opened.sandbox.shells.background.list())
        )

    async def call(self, request: Request[Any], *, by: str, check: CheckPath | None = None) -> Any:
        """Answer a request. `check` raises for paths that the user may not change."""
        if request.changes:
            await self.recorder.admit()
        async with self.used(changes=request.changes):
            assert self._open is not None
            if isinstance(request, CheckUndo):
                prepared = await self.prepare_undo(self._open.sandbox.workspace, request.input, check)
                await prepared.check_paths()
                return None if request.resolves else await prepared.check()
            return await self._open.request_handler.answer(request, by=by, check=check)

    @asynccontextmanager
    async def guarded(self, request: Request[Any], by: str) -> AsyncIterator[CheckPath | None]:
        """Refuse a request that the user may not make. Yields the check of the paths that it changes."""
        guard = self.dependencies.callbacks.guard
        if guard is None or not by:
            yield None
            return
        async with guard(self, request, by) as check:
            yield check

    async def suite_options(self, session: Session) -> SuiteOptions:
        """How the tests of the session are run. A policy may refuse its own command."""
        refuse = self.dependencies.callbacks.refuse_tests
        refusal = await refuse(session) if refuse is not None else ""
        return replace(self.sandbox.suites_of(session), refusal=refusal)

    async def prepare_undo(
        self, workspace: Workspace, asked: Undo | Redo, check: CheckPath | None
    ) -> PreparedUndo:
        async def read_entries() -> list[Entry]:
            await self.append([])  # changes that the last snapshot has shown
            await self.recorder.confirm()
            return await self.entries()

        rows, clean = self.dependencies.rows, self.recorder.clean_path
        return await prepare_undo(workspace, asked, read_entries, rows=rows, clean=clean, check=check)

    @asynccontextmanager
    async def terminal(self, id: str, resume: int | None, *, masked: bool, by: str) -> AsyncIterator[Any]:
        async with self.used(changes=False):  # a session that is not awake has no terminals
            assert self._open is not None
            async with self._open.terminals.watch(id, resume, masked=masked, by=by) as viewer:
                yield viewer

    async def _prepare(self, session: Session) -> Session:
        began, redact = time.monotonic(), self.dependencies.redactor.redact
        await self.set_state("starting")
        if session.repository and not session.forked_from and not session.delivery.in_place:
            message = f"Cloning repository {redact(session.repository)}..."
            await self.append([StepReached(step="cloning", message=message)])
        made = await self.dependencies.callbacks.prepare(session, self.recorder)
        await self.sessions.set(self.id, workspace_id=made.workspace_id)
        event = SessionPrepared(
            workspace=made.workspace_id,
            source=redact(escape_surrogates(made.source)),
            commit=made.commit,
            starter_files=made.starter_files,
            duration_s=round(time.monotonic() - began, 3),
        )
        warnings = [f"warning: {redact(escape_surrogates(sentence))}" for sentence in made.warnings]
        await self.append([event, *(StepReached(step="inspecting", message=each) for each in warnings)])
        return await self.sessions.get(self.id)

    async def _shut(self, *, reason: str) -> None:
        opened, self._open = self._open, None
        if opened is not None:
            # If interrupted halfway, the jail would never be closed.
            await run_to_end(self._close(opened, reason))

    async def _close(self, opened: OpenedSandbox, reason: str) -> None:
        snapshot = await opened.close(keep=not opened.lost and not opened.quiet)
        parked = [] if opened.quiet else [SessionParked(snapshot=snapshot, reason=reason)]
        if (await self.log.head(self.id)).ended:
            self.recorder.drop_pending()
        else:
            await self.append(parked)
        session = await self.sessions.get(self.id)
        if session.state in ("idle", "running", "waiting", "starting") and self.run is None:
            await self.set_state("parked", reason)

    def _later(self, noting: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(noting)
        self._noting.add(task)
        task.add_done_callback(self._noted)

    def _noted(self, task: asyncio.Future[None]) -> None:
        self._noting.discard(task)
        if not task.cancelled() and (error := task.exception()):
            # The input stays unprocessed. Its effect is found in the log, so it is not repeated.
            logger.warning("session.input_not_noted", session_id=self.id, error=str(error))


def _kind(submitted: SessionInput) -> str:
    return submitted.body.partition('"type":"')[2].partition('"')[0]
