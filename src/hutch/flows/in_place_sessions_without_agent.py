"""Opens a session in which a user works in a directory in place, as `hutch shell` does.

Its log, snapshots and live session are those of every session. Only its jail is different: the caller has
opened it on the directory itself. The session lives as long as the process, and no other process can use it.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from pathlib import Path

import structlog

from hutch.agent.jail_event_conversion import as_event
from hutch.agent.repository_testing.workspace_test_suite_runs import DEFAULT_OPTIONS, SuiteOptions
from hutch.agent.session_recorder import Recorder
from hutch.agent.tools.model_written_paths import escape_surrogates
from hutch.domain.byte_size_formatting import readable_size
from hutch.domain.errors import Conflict, HutchError, LimitReached, NotFound
from hutch.domain.events import SessionEnded, SessionOpened
from hutch.domain.ids import new_run_id, new_session_id
from hutch.domain.redaction import Redactor
from hutch.domain.session import Delivery, QueuedRun, Session
from hutch.flows.user_accounts import Accounts
from hutch.flows.user_running_hutch import system_user
from hutch.jail.running_jail import Jailed
from hutch.jail.shell.shared_jails_and_shells import Shells
from hutch.sessions.abandoned_in_place_sessions import end_abandoned
from hutch.sessions.host_dependencies_and_callbacks import Done, HostCallbacks, HostDependencies, Prepared
from hutch.sessions.live_session import LiveSession
from hutch.sessions.sandbox import Sandbox
from hutch.sessions.session_update_fan_out import Channels
from hutch.store.event_log import SqlLog
from hutch.store.run_queue import Runs
from hutch.store.runs_reserved_for_process import reservation_name
from hutch.store.session_creation import OpenedSession, open_session
from hutch.store.test_runs import StoredTests
from hutch.system.clock_without_jumps import wall_ms
from hutch.system.lazy_dataclass import dataclass
from hutch.system.uncancellable_work import run_to_end
from hutch.workspace.lifecycle.in_place_workspace import place_number
from hutch.workspace.workspace import Workspace
from hutch.workspace.workspaces import Workspaces

ENDS = "the session ends"
IN_PLACE = "in-place"  # the workspace of such a session
logger = structlog.get_logger()
FILES_ARE_THERE = "It worked in place: its files are in"
COPY_IS_REMOVED = "It worked in a copy, which is removed, of"


@dataclass(frozen=True, slots=True, kw_only=True)
class InPlaceSessions:
    """Opens such sessions."""

    workspaces: Workspaces
    open_log: Callable[[], AbstractAsyncContextManager[SqlLog]]
    redactor: Redactor
    suite_options: SuiteOptions = DEFAULT_OPTIONS

    @asynccontextmanager
    async def open(
        self, directory: Path, jail: Jailed, *, purpose: str, copy: Workspace | None = None
    ) -> AsyncIterator[LiveSession]:
        """A live session on a directory, in a jail that is open on it; the session's owner is the user of
        this machine. With `copy`, the jail is open on that copy of the directory."""
        async with self.open_log() as log, AsyncExitStack() as stack:
            owner = await Accounts(log).ensure_owner(await asyncio.to_thread(system_user))
            await end_abandoned(log, log)
            await StoredTests(log).mark_lost(excluding=await Runs(log).reserved_sessions())
            opened = self._opened(directory, owner.id, purpose)
            session = opened.session
            await open_session(log, opened, [SessionOpened(purpose=session.purpose, owner=session.owner)])
            live = LiveSession(session.id, self._dependencies(log, directory, jail, stack, copy))
            outcome, reason = "done", ""
            try:
                await live.open()
                yield live
            except HutchError as error:
                outcome, reason = "failed", self.redactor.redact(escape_surrogates(str(error)))
                raise
            except asyncio.CancelledError:
                outcome = "cancelled"
                raise
            finally:
                await run_to_end(_end(live, outcome, reason, in_copy=copy is not None))

    def _opened(self, directory: Path, owner: str, purpose: str) -> OpenedSession:
        def clean(text: str) -> str:
            return self.redactor.redact(escape_surrogates(text))

        now = wall_ms()
        session = Session(
            id=new_session_id(),
            owner=owner,
            purpose=clean(purpose),
            repository=clean(str(directory)),
            delivery=Delivery(in_place=True),
            state="starting",
            created_ms=now,
            updated_ms=now,
        )
        # The run of this process: servers leave the session alone while it lives.
        run = QueuedRun(
            id=new_run_id(),
            session_id=session.id,
            owner=owner,
            kind="prepare",
            state="running",
            worker=reservation_name(),
            queued_ms=now,
            started_ms=now,
        )
        return OpenedSession(session, run)

    def _dependencies(
        self, log: SqlLog, directory: Path, jail: Jailed, stack: AsyncExitStack, copy: Workspace | None
    ) -> HostDependencies:
        opened: list[Workspace] = []  # until `stack` is closed

        async def prepare(session: Session, recorder: Recorder) -> Prepared:
            opened.append(copy or await self._open_workspace(stack, directory))
            if copy:
                return Prepared(copy.record.id, str(directory))
            return Prepared(workspace_name(place_number(opened[0].record)), str(directory))

        @asynccontextmanager
        async def open_sandbox(session: Session, recorder: Recorder) -> AsyncIterator[Sandbox]:
            async with AsyncExitStack() as closing:
                workspace = opened[0]
                await _check_size(workspace)
                await workspace.snapshot("at the start")
                shells = Shells(jail, on_event=lambda event: recorder.report(as_event(event)))
                shells.admit = recorder.append
                closing.push_async_callback(shells.close)
                yield Sandbox(workspace, jail, shells, suite_options=self.suite_options)

        async def perform(live: LiveSession, run: QueuedRun) -> Done:
            raise Conflict("No agent works in this session.")

        callbacks = HostCallbacks(prepare, open_sandbox, perform)
        return HostDependencies(log, log, self.redactor, Channels(log), callbacks, reservation_name())

    async def _open_workspace(self, stack: AsyncExitStack, directory: Path) -> Workspace:
        """Open the directory alone if possible, else beside the process that uses it."""
        for beside_others in (False, True):
            opening = self.workspaces.open_directory(
                directory, clean=self.redactor.redact, beside_others=beside_others
            )
            try:
                return await stack.enter_async_context(opening)
            except Conflict:
                if beside_others:
                    raise
        raise AssertionError("the second attempt returns or raises")


def workspace_name(number: int) -> str:
    """The workspace of a session that was the `number`th at the same time in its directory."""
    return IN_PLACE if number == 1 else f"{IN_PLACE}-{number}"


def workspace_number(name: str) -> int:
    """The number in such a name."""
    if name and not name.startswith(IN_PLACE):
        raise NotFound(f"The session worked in the copy '{name}', which is removed.")
    number = name.removeprefix(IN_PLACE).removeprefix("-")
    return int(number) if number.isdigit() else 1


async def _check_size(workspace: Workspace) -> None:
    """Refuse a directory whose snapshots would take more space than a workspace may."""
    used, record = await workspace.work(workspace.quota.measure_usage), workspace.record
    if used.bytes > record.quota_bytes:
        raise LimitReached(
            f"'{record.source}' is {readable_size(used.bytes)}, more than the "
            f"{readable_size(record.quota_bytes)} of workspace.quota_bytes whose changes are recorded.",
            limit="workspace.quota_bytes",
        )
    if used.files > record.quota_files:
        raise LimitReached(
            f"'{record.source}' has {used.files:,} files, more than the {record.quota_files:,} of "
            "workspace.quota_files whose changes are recorded.",
            limit="workspace.quota_files",
        )


async def _end(live: LiveSession, outcome: str, reason: str, *, in_copy: bool) -> None:
    """End the session in its log and its row. If one fails, the other is not undone."""
    try:
        await live.park(reason=ENDS)
        await live.append([SessionEnded.model_validate({"outcome": outcome, "reason": reason})])
        await live.runs.end_all(live.id, outcome, reason)
        where = (await live.sessions.get(live.id)).repository
        reason = reason or f"{COPY_IS_REMOVED if in_copy else FILES_ARE_THERE} {where}."
        await live.sessions.set(live.id, state="ended", workspace_id="", reason=reason)
    except HutchError as error:
        logger.error("session.end_not_recorded", session_id=live.id, error=str(error))
