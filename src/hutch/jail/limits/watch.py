"""When to look into a jail, and what to do when it is over a limit.

Often while it is at work or memory grows, rarely while nothing moves in it. The
jail is cleared when a look says so, or the commands are ended that hold too much
memory. Meanwhile no command may start: it would be killed, or blamed, for another's
deeds.
"""

import asyncio
import contextlib
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

from hutch.domain.errors import HutchError, LimitReached, Unavailable
from hutch.jail.limits.inspection import Look

POLL_INTERVAL_S = 0.2
CLOSE_POLL_INTERVAL_S = 0.05  # at first, and while memory grows or is more than half used
CALM_S = 0.002
IDLE_POLL_INTERVAL_S = 1.0  # the maximum, while almost nothing runs; doubled where a cgroup counts memory
IDLE_SHARE = 0.02  # of a processor
LOOKERS = 8
LONG_S = 0.05
SPREAD = 0.7  # of a pause at the least: jails that began together are not all looked at in one moment

T = TypeVar("T")


class Watch:
    """Looks at one jail again and again."""

    def __init__(
        self,
        look: Look,
        *,
        memory_bytes: int,
        counted: bool,
        clear: Callable[[], Awaitable[None]],
        end_commands: Callable[[frozenset[int]], Awaitable[bool]],
    ) -> None:
        self.look = look
        self._most_bytes = memory_bytes
        self._idle_s = 2 * IDLE_POLL_INTERVAL_S if counted else IDLE_POLL_INTERVAL_S
        self._clear = clear
        self._end_commands = end_commands  # of these reapers; False if everything must be cleared instead
        self._busy = asyncio.Event()
        self._settling = asyncio.Lock()
        self._waking: asyncio.Future[bool] | None = None
        self._in_thread: asyncio.Future[Any] | None = None
        self._running = 0
        self._is_stale = False  # a command has ended during a look, which may still blame somebody for it
        self._has_begun = False  # whether it is known how large the workspace was at the start
        self._fault: BaseException | None = None
        self._clearing: asyncio.Future[None] | None = None
        self._task = asyncio.create_task(self._watch())
        self._task.add_done_callback(self._ended)

    async def calm(self) -> None:
        """Until a command may start: not before the workspace was measured, or what it makes would count as
        having been there; and not while the jail is being cleared, nor during a look that has seen a command
        which has ended since, or it would be hit for another's deeds."""
        while not self._has_begun or self.look.is_clearing or self._is_stale:  # noqa: ASYNC110 (set by a thread, and rare)
            await asyncio.sleep(CALM_S)
        if self._fault is not None:
            raise Unavailable(
                f"Nobody watches this jail any more ({self._fault!r}), so nothing is run in it. Close it."
            )
        if self.look.is_beyond() is not None:
            async with self._settling:
                await self._aside(self.look.settle)  # somebody may have deleted something by now
                if (hit := self.look.is_beyond()) is not None:
                    raise LimitReached(
                        f"The workspace was filled beyond {hit} again and again; nothing more is run in it. "
                        f"Delete files there from outside, or raise {hit.limit}.",
                        limit=hit.limit,
                    )

    def busy(self, running: int) -> None:
        """Tell how many commands run; with none there is nothing to watch."""
        self.stir()
        if running < self._running and self._in_thread is not None and not self._in_thread.done():
            self._is_stale = True
        self._running = running
        if running:
            self._busy.set()
        else:
            self._busy.clear()

    def stir(self) -> None:
        """Something is about to run."""
        if self._waking is not None:
            _resolve(self._waking, True)

    async def stop(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        if self._in_thread is None or self._in_thread.done():
            self.look.close()
        else:  # a walk may take a while, and needs its descriptors until then
            self._in_thread.add_done_callback(lambda _: self.look.close())

    def _ended(self, task: asyncio.Task[None]) -> None:
        """A watcher that broke is no reason to go on unwatched: everything inside is ended."""
        self._fault = None if task.cancelled() else task.exception()
        if self._fault is not None:
            self._clearing = asyncio.ensure_future(self._cleared())

    async def _cleared(self) -> None:
        with contextlib.suppress(HutchError):  # the jail is gone
            await self._clear()

    async def _watch(self) -> None:
        try:
            await self._aside(self.look.look)
        finally:
            self._has_begun, self.look.is_clearing = True, False
        pause_s, looked, before_bytes = CLOSE_POLL_INTERVAL_S, time.monotonic(), 0
        while True:
            if not self._busy.is_set():
                await self._busy.wait()
                pause_s = max(CLOSE_POLL_INTERVAL_S, POLL_INTERVAL_S - (time.monotonic() - looked))
            await self._pause(pause_s * random.uniform(SPREAD, 1))
            since_s, looked = time.monotonic() - looked, time.monotonic()
            moved_ns = self.look.pulse.moved_ns()
            is_calm = moved_ns is not None and moved_ns < since_s * IDLE_SHARE * 1e9
            pause_s = min(2 * pause_s, self._idle_s) if is_calm else POLL_INTERVAL_S
            if moved_ns == 0 and not self.look.growth.owed:
                continue
            async with _turn() if is_calm else contextlib.nullcontext():
                is_over, memory_bytes = await self._aside(self.look.look)
            most = self._most_bytes
            if not is_calm and (memory_bytes > most // 2 or memory_bytes - before_bytes > most // 16):
                pause_s = CLOSE_POLL_INTERVAL_S
            before_bytes = memory_bytes
            if is_over:
                pause_s = CLOSE_POLL_INTERVAL_S
                try:
                    ending = self.look.reapers_to_end
                    if not ending or not await self._end_commands(ending):
                        if ending:
                            self.look.note_memory()
                        await self._clear()
                        await self._aside(self.look.settle)
                except HutchError:
                    return  # the jail is gone
                finally:
                    self.look.is_clearing = False

    async def _aside(self, work: Callable[[], T]) -> T:
        future = asyncio.get_running_loop().run_in_executor(_threads, work)
        self._in_thread = future
        future.add_done_callback(self._looked)  # of every kind: after the last one nobody may look for long
        return await asyncio.shield(future)

    def _looked(self, _: "asyncio.Future[T]") -> None:
        self._is_stale = False

    async def _pause(self, pause_s: float) -> None:
        """Until the next look; a long one is cut short when a command is about to run."""
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
    """Looks that are not urgent are made one after the other: at once they would only take the interpreter
    from each other, and from the event loop. One that takes long lets the next begin."""
    loop = asyncio.get_running_loop()
    turn = _turns.setdefault(loop, asyncio.Lock())
    await turn.acquire()
    timer = loop.call_later(LONG_S, turn.release)
    try:
        yield
    finally:
        if loop.time() < timer.when():  # else the timer has let the next begin, or is about to
            timer.cancel()
            turn.release()


# Of their own: whoever keeps all others busy must not thereby go unwatched.
_threads = ThreadPoolExecutor(LOOKERS, thread_name_prefix="jail-look")
_turns: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock] = WeakKeyDictionary()


def _resolve(future: asyncio.Future[bool], value: bool) -> None:
    if not future.done():
        future.set_result(value)
