"""Test runs that users start in an open session, and those that follow changes of files.

A run that is repeated waits for a pause in the changes, for the agent's run and for another test run. It
starts at most as often as it takes long, so that tests never use all of the machine.
"""

import asyncio
import time
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import structlog

from hutch.agent.repository_testing.session_test_runs import ALL, RequestedTests, RunningTests
from hutch.agent.repository_testing.test_selection import Selection
from hutch.agent.repository_testing.workspace_test_suite_runs import RepositoryTests
from hutch.domain.current_actor_and_author import HUTCH
from hutch.domain.errors import BadRequest, Denied, HutchError, NotFound
from hutch.domain.events import Event, FileChanged, FilesChanged
from hutch.sessions.file_and_command_requests import FoundSuite, StartTests
from hutch.sessions.interface import Delta
from hutch.sessions.sandbox import Sandbox

if TYPE_CHECKING:
    from hutch.sessions.live_session import LiveSession

PAUSE_S = 0.5  # without a change, after which tests run
MIN_INTERVAL_S = 1.0  # between the end of a repeated run and the next
PROGRESS_INTERVAL_S = 0.2
AFTER = "after a test run"
TEST_RUN = "tst_"  # the ids of test runs begin so
logger = structlog.get_logger()


class UserTests:
    """The test runs of one open sandbox, besides those of its agent."""

    def __init__(self, live: "LiveSession", sandbox: Sandbox, take_snapshot: Callable[[str], None]) -> None:
        self._live = live
        self._sandbox = sandbox
        self._take_snapshot = take_snapshot
        self._loop = asyncio.get_running_loop()
        self._tasks: set[asyncio.Task[None]] = set()
        self._watched: RequestedTests | None = None  # repeated after changes
        self._timer: asyncio.TimerHandle | None = None
        self._earliest = 0.0  # the next repeated run
        self._reported_at = 0.0
        live.tests.on_progress = self._publish

    def start(self) -> None:
        """Follow changes from now on, if the settings ask for that."""
        self._live.recorder.listeners.append(self._note)
        if self._sandbox.suite_options.auto and self._watched is None:
            self._watched = RequestedTests(cause="auto", by=HUTCH)

    async def close(self) -> None:
        """Stop everything. The end of a run is recorded."""
        self._watched = None
        if self._timer is not None:
            self._timer.cancel()
        if self._note in self._live.recorder.listeners:
            self._live.recorder.listeners.remove(self._note)
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)

    async def begin(self, request: StartTests, *, by: str) -> str:
        """Start a run; returns its id once its start is in the log."""
        selection = Selection(request.files, request.tests, request.failed)
        requested = RequestedTests(selection=selection, by=by, timeout_s=request.timeout_s)
        running = await self._begin(replace(requested, cause="watch") if request.watch else requested)
        if request.watch:
            self._watched = replace(requested, cause="watch")
        return running.id

    async def suites(self) -> list[FoundSuite]:
        """The tests that are found now; none if there are none, or if their command is refused."""
        try:
            found = await (await self._repository_tests()).suites()
        except (NotFound, Denied):
            return []
        return [FoundSuite(each.name, str(each), each.directory) for each in found]

    async def cancel(self, id: str) -> None:
        self._live.tests.stop(id)

    async def wait(self, id: str, timeout_s: float) -> None:
        """Wait for the end of a run, or for so long."""
        running = self._live.tests.current
        if running is not None and running.id == id:
            with suppress(TimeoutError):
                async with asyncio.timeout(timeout_s):
                    await running.ended.wait()

    def stop_watching(self) -> bool:
        """Repeat nothing any more; the settings still can ask for it."""
        was_watched = self._watched is not None and self._watched.cause == "watch"
        if was_watched:
            self._watched = (
                RequestedTests(cause="auto", by=HUTCH) if self._sandbox.suite_options.auto else None
            )
        return was_watched

    async def _repository_tests(self) -> RepositoryTests:
        session = await self._live.sessions.get(self._live.id)
        return RepositoryTests(
            self._sandbox.workspace,
            self._sandbox.jail,
            await self._live.suite_options(session),
            self._live.recorder.redactor,
            self._live.activity.working,
        )

    async def _begin(self, requested: RequestedTests) -> RunningTests:
        running = await self._live.tests.begin(await self._repository_tests(), requested)
        self._run(self._finish(running))
        return running

    async def _finish(self, running: RunningTests) -> None:
        began = time.monotonic()
        try:
            await self._live.tests.finish(running)
        finally:
            self._live.used_at = time.monotonic()
            took_s = self._live.used_at - began
            self._earliest = self._live.used_at + max(MIN_INTERVAL_S, took_s)
            self._take_snapshot(AFTER)

    # --- runs that follow changes ---

    async def _note(self, events: Sequence[Event]) -> None:
        if self._watched is not None and any(map(_is_change, events)):
            self._schedule(PAUSE_S)

    def _schedule(self, delay_s: float) -> None:
        """Run later; a change meanwhile delays it."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_later(delay_s, self._decide)

    def _decide(self) -> None:
        self._timer = None
        if self._watched is None:
            return
        wait_s = self._earliest - time.monotonic()
        if self._live.is_running or self._live.tests.current is not None or wait_s > 0:
            self._schedule(max(PAUSE_S, wait_s))
        else:
            self._run(self._repeat(self._watched))

    async def _repeat(self, requested: RequestedTests) -> None:
        try:
            await self._live.recorder.admit()
            try:
                await self._begin(requested)
            except BadRequest:
                if not requested.selection.failed:
                    raise
                await self._begin(replace(requested, selection=ALL))  # none fails any more
        except HutchError as error:  # the next change tries again
            logger.warning("session.tests_not_repeated", session_id=self._live.id, error=str(error))

    def _publish(self, id: str, line: str) -> None:
        now = time.monotonic()
        if now - self._reported_at >= PROGRESS_INTERVAL_S:
            self._reported_at = now
            delta = Delta(id, 0, "tests", line)
            self._live.dependencies.channels.publish(self._live.id, delta, after=self._live.recorder.last_seq)

    def _run(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._end)

    def _end(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if task.cancelled():
            return
        match task.exception():
            case None:
                return
            case HutchError() as error:  # it is in the log, with the end of the run
                logger.warning("session.tests_failed", session_id=self._live.id, error=str(error))
            case error:
                logger.error("session.tests_failed", session_id=self._live.id, error=repr(error))


def _is_change(event: Event) -> bool:
    """True if files changed, other than by tests."""
    match event:
        case FilesChanged(ignored=True):
            return False
        case FileChanged(source=source) | FilesChanged(source=source):
            return not source.startswith(TEST_RUN)
    return False
