"""An open sandbox of a live session, with everything that records what happens in it."""

import asyncio
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

import structlog

from hutch.domain.errors import HutchError
from hutch.domain.events import Event
from hutch.domain.session import Session
from hutch.sessions.command_and_terminal_recorder import OutputRecorder
from hutch.sessions.debugging.shared_debugger import SharedDebugger
from hutch.sessions.file_and_command_request_handler import RequestHandler
from hutch.sessions.file_change_recorder import ChangeRecorder
from hutch.sessions.program_freeze_during_pause import StoppedPrograms
from hutch.sessions.sandbox import Sandbox
from hutch.sessions.snapshot_schedule import SnapshotSchedule
from hutch.sessions.terminals import Terminals
from hutch.sessions.user_and_automatic_test_runs import UserTests
from hutch.sessions.work_process_clocks import WorkClocks
from hutch.store.terminal_recording_export import count_terminals

if TYPE_CHECKING:
    from hutch.sessions.live_session import LiveSession

logger = structlog.get_logger()


class OpenedSandbox:
    """An open sandbox with its output recorder, terminals and request handler."""

    def __init__(self, live: "LiveSession", sandbox: Sandbox, stack: AsyncExitStack) -> None:
        self.sandbox = sandbox
        self.lost = False
        self.quiet = True  # opened only for reads, which neither the log nor the state shows
        self._recorder = recorder = live.recorder
        self._stack = stack
        self.output_recorder = OutputRecorder(
            lambda events: recorder.append(output=events), recorder.redactor
        )
        recorder.take_output = self.output_recorder.take_events
        self._activity = live.activity
        self.change_recorder = ChangeRecorder(sandbox.workspace, recorder, live.activity)
        self.snapshot_schedule = SnapshotSchedule(
            sandbox.workspace, recorder, live.activity, lambda: live.is_running
        )
        recorder.take_changes = self.change_recorder.take_events
        recorder.on_report = self._note
        self.tests = UserTests(live, sandbox, self.snapshot_schedule.take_soon)
        self.terminals = Terminals(
            sandbox.jail,
            recorder,
            self.output_recorder,
            lambda: count_terminals(live.dependencies.rows, live.id),
            live.activity,
            self._take_after_prompt,
        )
        self.debugger = SharedDebugger(live, sandbox, self.output_recorder, self.snapshot_schedule.take_soon)
        sandbox.workspace.snapshots.find_mapped = sandbox.jail.mapped_files
        live.activity.find_clock = WorkClocks(sandbox.shells, self.terminals).find
        self.request_handler = RequestHandler(
            sandbox,
            recorder,
            self.output_recorder,
            self.terminals,
            self.tests,
            self.debugger,
            hashing=live.dependencies.hashing,
        )
        self._loop = asyncio.get_running_loop()
        self._pidfd = sandbox.jail.warden_pidfd
        self.programs = StoppedPrograms(sandbox.jail.warden_pid) if self._pidfd >= 0 else None
        if self._pidfd >= 0:  # without a jail there is none
            self._loop.add_reader(self._pidfd, self._lose)

    async def close(self, *, keep: bool) -> int:
        """Close everything in it. Returns the number of the last snapshot, 0 when there is none."""
        if self._pidfd >= 0:
            self._loop.remove_reader(self._pidfd)
        await self.debugger.close()
        await self.tests.close()
        services = self.sandbox.suite_options.services
        if services is not None and not self.lost:
            await services.keep_logs()
        await self.snapshot_schedule.close()
        await self._recorder.settle()
        snapshot = 0
        try:
            await self.terminals.close_all()
            await self.output_recorder.close()
            if keep:
                snapshot = (await self.sandbox.workspace.snapshot("before it is parked")).id
        except HutchError as error:
            logger.warning(
                "session.parked_without_snapshot", session_id=self._recorder.session_id, error=str(error)
            )
        finally:
            await self._stack.aclose()
            self.change_recorder.close()
            if self.programs is not None:  # they have ended; this releases their descriptors
                await self.programs.resume()
        return snapshot

    async def start(self, recorded: int, *, is_new: bool) -> None:
        """Record changes of files from now on; `recorded` is the newest snapshot in the log."""
        await self.change_recorder.start(recorded, is_new=is_new)
        self.snapshot_schedule.start()
        self.tests.start()

    def _take_after_prompt(self, terminal: str) -> None:
        self.snapshot_schedule.take_soon(f"after a command in terminal {terminal}")

    def _note(self, event: Event) -> None:
        self._activity.note(event)
        self.snapshot_schedule.note(event)

    def _lose(self) -> None:
        self._loop.remove_reader(self._pidfd)
        self.lost = True
        logger.warning("session.jail_lost", session_id=self._recorder.session_id)


async def open_sandbox(live: "LiveSession", session: Session) -> OpenedSandbox:
    stack = AsyncExitStack()
    try:
        callbacks = live.dependencies.callbacks
        sandbox = await stack.enter_async_context(callbacks.open_sandbox(session, live.recorder))
        await callbacks.adjust(await live.sessions.get(live.id), sandbox)  # changed while it opened
    except BaseException:
        await stack.aclose()
        raise
    return OpenedSandbox(live, sandbox, stack)
