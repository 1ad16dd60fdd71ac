"""Decides when snapshots are taken so that the log shows all changes soon.

A snapshot follows each command of a user, each pause in changes, and every 30 seconds while anything is at
work. While one author's command runs and nobody else is at work, its pauses do not count: its end is soon
enough. Where several are at work, an earlier version may be replaced at any time, and its author with it.
So what is typed in a terminal does not wait for a pause: others may write without end.

A snapshot never delays an answer: requests that come meanwhile share the next one. The watcher only says
that something has changed.
"""

import asyncio
import time
from collections.abc import Callable, Coroutine
from typing import Any

import structlog

from hutch.agent.session_recorder import Recorder
from hutch.domain.current_actor_and_author import AGENT
from hutch.domain.errors import HutchError
from hutch.domain.events import CommandEnded, Event
from hutch.sessions.author_work_periods import Activity
from hutch.system.uncancellable_work import wait_until_done
from hutch.workspace.files.change_watcher import ChangeWatcher
from hutch.workspace.workspace import Workspace

PAUSE_S = 0.15  # without a change, after which a snapshot is taken
MAX_INTERVAL_S = 30.0  # between two snapshots while anything is at work
POLL_INTERVAL_S = 2.0  # if not all directories can be watched
TYPED_INTERVAL_S = 0.5  # between two snapshots after input of terminals, while others write without a pause
TYPED_S = 5.0  # after such input a program may still write what it asked for,
AFTER_TYPED_INTERVAL_S = 2.0  # so it is looked for this often
IDLE_FACTOR = 4  # snapshots of a large workspace may take one part in five of the time
AFTER_PAUSE, AFTER_INPUT, WHILE_WORKING = "after a pause", "after input", "while work goes on"
logger = structlog.get_logger()


class SnapshotSchedule:
    """Takes the snapshots of one open session, apart from those of its agent and requests."""

    def __init__(
        self,
        workspace: Workspace,
        recorder: Recorder,
        activity: Activity,
        is_running: Callable[[], bool],
        *,
        max_interval_s: float = MAX_INTERVAL_S,
    ) -> None:
        self._workspace = workspace
        self._is_running = is_running  # an agent works in the session
        self._recorder = recorder
        self._activity = activity
        self._max_interval_s = max_interval_s
        self._loop = asyncio.get_running_loop()
        self._watcher: ChangeWatcher | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[None] | None = None
        self._reasons: dict[str, str] = {}  # of the next snapshot, at once, and their authors
        self._changed_at = 0.0  # when the watcher last signalled a change that no snapshot has yet; 0: none
        self._began_at = self._taken_at = time.monotonic()  # the last snapshot
        self._duration_s = 0.0  # of the last snapshot
        self._recorded = 0  # the last snapshot in the log
        self._is_closed = False

    def start(self) -> None:
        """Watch from now on. The directories are opened in the background."""
        self._watcher = self._workspace.watcher()
        self._activity.on_change = self._on_activity
        self._run(self._arm())

    async def close(self) -> None:
        self._is_closed = True
        self._activity.on_change = None
        self._ignore_signals()
        if self._timer is not None:
            self._timer.cancel()
        if self._task is not None:
            await wait_until_done(self._task)
        if self._watcher is not None:
            await asyncio.to_thread(self._watcher.close)

    def note(self, event: Event) -> None:
        """Take a snapshot after each command of a user."""
        if isinstance(event, CommandEnded) and event.by != AGENT:
            where = f"terminal {event.terminal}" if event.terminal else event.shell
            self.take_soon(f"after a command in {where}", by=event.by)

    def take_soon(self, reason: str, *, by: str = "") -> None:
        """Take a snapshot as soon as possible, after this turn of the event loop."""
        self._reasons[reason] = by or self._reasons.get(reason, "")
        self._schedule(max(0.0, self._taken_at + IDLE_FACTOR * self._duration_s - time.monotonic()))

    # --- signals ---

    def _on_activity(self) -> None:
        self._schedule(PAUSE_S if self._changed_at and self._reacts else self._interval_s)

    @property
    def _reacts(self) -> bool:
        """False while the next snapshot is that after the only command."""
        return not self._activity.runs_commands or self._activity.has_several

    @property
    def _is_typed(self) -> bool:
        """True if a change may follow from what was typed, and was not looked for lately."""
        typed_at, now = self._activity.typed_at, time.monotonic()
        idle_s = IDLE_FACTOR * self._duration_s
        if typed_at > self._began_at:
            return now - self._taken_at >= max(TYPED_INTERVAL_S, idle_s)
        return now - typed_at < TYPED_S and now - self._taken_at >= max(AFTER_TYPED_INTERVAL_S, idle_s)

    @property
    def _interval_s(self) -> float:
        is_complete = self._watcher is None or self._watcher.is_complete
        return (
            self._max_interval_s if is_complete else max(POLL_INTERVAL_S, 2 * IDLE_FACTOR * self._duration_s)
        )

    def _on_signal(self) -> None:
        self._ignore_signals()  # until the directories are armed again
        self._changed_at = time.monotonic()
        self._schedule(PAUSE_S)

    def _ignore_signals(self) -> None:
        if self._watcher is not None and self._watcher.fd >= 0:
            self._loop.remove_reader(self._watcher.fd)

    async def _arm(self) -> None:
        assert self._watcher is not None
        await asyncio.to_thread(self._watcher.arm)
        if self._watcher.fd >= 0 and not self._is_closed:
            self._loop.add_reader(self._watcher.fd, self._on_signal)

    # --- snapshots ---

    def _schedule(self, delay_s: float) -> None:
        """Decide at that time what to do, or earlier if that is planned already."""
        if self._is_closed:
            return
        at = self._loop.time() + delay_s
        if self._timer is not None and not self._timer.cancelled():
            if self._timer.when() <= at:
                return
            self._timer.cancel()
        self._timer = self._loop.call_at(at, self._decide)

    def _decide(self) -> None:
        self._timer = None
        if self._task is None or self._task.done():
            self._run(self._act())  # else the running task decides at its end

    def _run(self, work: Coroutine[Any, Any, None]) -> None:
        self._task = asyncio.ensure_future(work)
        self._task.add_done_callback(self._plan)

    async def _act(self) -> None:
        elapsed_s = time.monotonic() - self._taken_at
        if self._reasons:
            await self._take(next(iter(self._reasons)))
        elif (self._activity.is_active or self._changed_at) and elapsed_s >= self._interval_s:
            await self._take(WHILE_WORKING)
        elif self._changed_at and self._reacts:
            changed_at = self._changed_at
            await self._arm()  # a change from now on signals again
            await asyncio.sleep(PAUSE_S)
            if self._is_closed or self._reasons or not self._reacts:
                return
            if self._changed_at == changed_at:
                await self._take(AFTER_PAUSE)
            elif self._is_typed:
                await self._take(AFTER_INPUT)

    async def _take(self, reason: str) -> None:
        is_requested, by = bool(self._reasons), self._reasons.get(reason, "")
        self._reasons.clear()
        self._changed_at = 0.0
        self._began_at = began = time.monotonic()
        try:
            if self._watcher is not None and (is_requested or reason != AFTER_PAUSE):
                await self._arm()
            taken = await self._workspace.snapshot(reason)
            is_new = taken.id != self._recorded and taken.reason == reason
            if is_new or (is_requested and self._is_running()):  # an undo of the run needs to know both
                self._recorded = taken.id
                await self._recorder.append([self._recorder.snapshot_taken(taken, reason, by=by)])
        except HutchError as error:  # the next one has these changes too
            logger.warning(
                "session.snapshot_not_taken", session_id=self._recorder.session_id, error=str(error)
            )
        finally:
            self._taken_at = time.monotonic()
            self._duration_s = self._taken_at - began

    def _plan(self, task: asyncio.Task[None]) -> None:
        """Plan the next decision."""
        if not task.cancelled() and (error := task.exception()):
            logger.error("session.watch_failed", session_id=self._recorder.session_id, error=repr(error))
        if self._reasons:
            self._schedule(IDLE_FACTOR * self._duration_s)
        elif self._changed_at and self._reacts:
            self._schedule(PAUSE_S)
        elif self._activity.is_active or self._changed_at:
            self._schedule(self._interval_s)
