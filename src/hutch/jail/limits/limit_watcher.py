"""Decides when to inspect a jail, and acts when it is over a limit.

It inspects often while the jail works or memory grows, and rarely while the jail is
idle. After an inspection that finds a limit exceeded, it clears the jail, or ends the
commands that use too much memory. Meanwhile no command may start: it would be killed,
or blamed, for what another did.
"""

import asyncio
import contextlib
import math
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Literal, TypeVar
from weakref import WeakKeyDictionary

from hutch.domain.errors import HutchError, LimitReached, Unavailable
from hutch.jail.interface import LimitHit
from hutch.jail.limits.exceeded_limit_inspection import Inspector
from hutch.jail.policy import Limits

POLL_INTERVAL_S = 0.2
CLOSE_POLL_INTERVAL_S = 0.05  # at first, and while memory grows or is more than half used
START_POLL_INTERVAL_S = 0.002
IDLE_POLL_INTERVAL_S = 1.0  # the maximum, while almost nothing runs; doubled where a cgroup counts memory
IDLE_SHARE = 0.02  # of a processor
MAX_THREADS = 8
MAX_TURN_S = 0.05
MIN_PAUSE_SHARE = 0.7  # minimum share of a pause: spreads inspections of jails that started together

MISSED_AGAIN_S = 2.0

T = TypeVar("T")
EndedCommands = Literal["ended", "missing", "all"]
"""Whether the chosen commands were ended, some of them were not found, or all must be ended instead."""


class Watch:
    """Inspects one jail repeatedly."""

    def __init__(
        self,
        inspector: Inspector,
        *,
        memory_bytes: int,
        has_cgroup: bool,
        clear: Callable[[], Awaitable[None]],
        end_commands: Callable[[frozenset[int]], Awaitable[EndedCommands]],
    ) -> None:
        self.inspector = inspector
        self._max_bytes = memory_bytes
        self._idle_s = 2 * IDLE_POLL_INTERVAL_S if has_cgroup else IDLE_POLL_INTERVAL_S
        self._clear = clear
        self._end_commands = end_commands  # of these reapers
        self._missed_at = -math.inf  # when a command that had to end was not found
        self._busy = asyncio.Event()
        self._settling = asyncio.Lock()
        self._waking: asyncio.Future[bool] | None = None
        self._thread_work: asyncio.Future[Any] | None = None
        self._working: set[asyncio.Future[Any]] = set()
        self._is_stopped = False
        self._running = 0
        self._is_stale = False  # a command ended during an inspection, which may still blame another for it
        self._has_started = False  # whether the initial size of the workspace was measured
        self._fault: BaseException | None = None
        self._clearing: asyncio.Future[None] | None = None
        self._task = asyncio.create_task(self._watch())
        self._task.add_done_callback(self._ended)

    async def wait_until_startable(self) -> None:
        """Wait until a command may start.

        Not before the workspace was measured, or files of the command would count as part of the initial
        size. Not while the jail is being cleared, nor during an inspection that has seen a command which
        has ended since, or the new command would be stopped for what another did.
        """
        while not self._has_started or self.inspector.is_clearing or self._is_stale:  # noqa: ASYNC110 (set by a thread, and rare)
            await asyncio.sleep(START_POLL_INTERVAL_S)
        if self._fault is not None:
            raise Unavailable(
                f"The watcher of this jail has failed ({self._fault!r}), so nothing may run in it. Close it."
            )
        if self.inspector.exhausted_limit() is not None:
            async with self._settling:
                # Files may have been deleted meanwhile.
                await self._run_in_thread(self.inspector.record_leftovers)
                if (hit := self.inspector.exhausted_limit()) is not None:
                    raise LimitReached(
                        f"The workspace exceeded {hit} repeatedly; no more commands run in it. "
                        f"Delete files there from outside, or raise {hit.limit}.",
                        limit=hit.limit,
                    )

    def set_running(self, running: int) -> None:
        """Set the number of running commands. With none there is nothing to inspect."""
        self.inspect_soon()
        if running < self._running and self._thread_work is not None and not self._thread_work.done():
            self._is_stale = True
        self._running = running
        if running:
            self._busy.set()
        else:
            self._busy.clear()

    def change(self, limits: Limits) -> None:
        """Apply other limits from now on."""
        self._max_bytes = limits.memory_bytes
        self.inspector.change(limits)
        self.inspect_soon()

    def inspect_soon(self) -> None:
        """Inspect soon, because a command is about to run."""
        if self._waking is not None:
            _resolve(self._waking, True)

    async def note_growth(self, reaper: int) -> LimitHit | None:
        """Note a limit of the workspace that the command of a reaper has exceeded, which has just ended.
        Measures only if the file system has become much fuller."""
        if self._is_stopped or not self.inspector.growth.is_filling():
            return None
        return await self._run_in_thread(lambda: self.inspector.note_growth(reaper))

    async def stop(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        self._is_stopped = True  # from here on the last work closes the inspector
        if not self._working:
            self.inspector.close()

    def _end_work(self, future: "asyncio.Future[Any]") -> None:
        self._working.discard(future)
        if (
            self._is_stopped and not self._working
        ):  # a walk may take long, and needs its descriptors until then
            self.inspector.close()

    def _ended(self, task: asyncio.Task[None]) -> None:
        """Kill everything in the jail when the watcher itself failed: nothing may run unwatched."""
        self._fault = None if task.cancelled() else task.exception()
        if self._fault is not None:
            self._clearing = asyncio.ensure_future(self._clear_safely())

    async def _clear_safely(self) -> None:
        with contextlib.suppress(HutchError):  # the jail has ended
            await self._clear()

    async def _watch(self) -> None:
        try:
            await self._run_in_thread(self.inspector.inspect)
        finally:
            self._has_started, self.inspector.is_clearing = True, False
        pause_s, inspected_at, before_bytes = CLOSE_POLL_INTERVAL_S, time.monotonic(), 0
        while True:
            if not self._busy.is_set():
                await self._busy.wait()
                pause_s = max(CLOSE_POLL_INTERVAL_S, POLL_INTERVAL_S - (time.monotonic() - inspected_at))
            await self._pause(pause_s * random.uniform(MIN_PAUSE_SHARE, 1))
            since_s, inspected_at = time.monotonic() - inspected_at, time.monotonic()
            cpu_time_ns = self.inspector.activity.cpu_time_ns()
            is_calm = cpu_time_ns is not None and cpu_time_ns < since_s * IDLE_SHARE * 1e9
            pause_s = min(2 * pause_s, self._idle_s) if is_calm else POLL_INTERVAL_S
            if cpu_time_ns == 0 and not self.inspector.growth.is_outdated:
                continue
            async with _turn() if is_calm else contextlib.nullcontext():
                is_over, memory_bytes = await self._run_in_thread(self.inspector.inspect)
            limit_bytes = self._max_bytes
            if not is_calm and (
                memory_bytes > limit_bytes // 2 or memory_bytes - before_bytes > limit_bytes // 16
            ):
                pause_s = CLOSE_POLL_INTERVAL_S
            before_bytes = memory_bytes
            if is_over:
                pause_s = CLOSE_POLL_INTERVAL_S
                try:
                    await self._end_or_clear(self.inspector.reapers_to_end)
                except HutchError:
                    return  # the jail has ended
                finally:
                    self.inspector.is_clearing = False

    async def _end_or_clear(self, ending: frozenset[int]) -> None:
        """End the commands of these reapers, which an inspection has chosen, or everything in the jail."""
        if ending:
            ended = await self._end_commands(ending)
            before, now = self._missed_at, time.monotonic()
            if ended == "missing":
                self._missed_at = now
            # The inspection has killed their processes, so a missing command may just have ended. If one is
            # missing again soon, there are processes that have left their command.
            if ended == "ended" or (ended == "missing" and now - before > MISSED_AGAIN_S):
                return
            self.inspector.note_cleared()
        await self._clear()
        await self._run_in_thread(self.inspector.record_leftovers)

    async def _run_in_thread(self, work: Callable[[], T]) -> T:
        future = asyncio.get_running_loop().run_in_executor(_threads, work)
        self._thread_work = future
        self._working.add(future)
        future.add_done_callback(self._end_work)
        future.add_done_callback(self._unset_stale)  # after any work: the next inspection may be far off
        return await asyncio.shield(future)

    def _unset_stale(self, _: "asyncio.Future[T]") -> None:
        self._is_stale = False

    async def _pause(self, pause_s: float) -> None:
        """Wait for the next inspection. A long wait is cut short when a command is about to run."""
        if pause_s > POLL_INTERVAL_S:
            loop = asyncio.get_running_loop()
            self._waking = loop.create_future()
            timer = loop.call_later(pause_s, _resolve, self._waking, False)
            try:
                if not await self._waking:
                    return
            finally:
                timer.cancel()
            pause_s = CLOSE_POLL_INTERVAL_S
        await asyncio.sleep(pause_s)


@contextlib.asynccontextmanager
async def _turn() -> AsyncIterator[None]:
    """Run inspections that are not urgent one after the other: together they would only take the
    interpreter from each other and from the event loop. A long one lets the next start."""
    loop = asyncio.get_running_loop()
    turn = _turns.setdefault(loop, asyncio.Lock())
    await turn.acquire()
    timer = loop.call_later(MAX_TURN_S, turn.release)
    try:
        yield
    finally:
        if loop.time() < timer.when():  # else the timer has released the next, or is about to
            timer.cancel()
            turn.release()


# Separate threads: a jail that keeps all other threads busy must still be watched.
_threads = ThreadPoolExecutor(MAX_THREADS, thread_name_prefix="jail-look")
_turns: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock] = WeakKeyDictionary()


def _resolve(future: asyncio.Future[bool], value: bool) -> None:
    if not future.done():
        future.set_result(value)
