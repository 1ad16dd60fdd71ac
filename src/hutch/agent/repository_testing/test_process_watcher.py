"""Watches the process of a test run: its last line, its silence, and a request to stop it."""

import asyncio
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Self

from hutch.agent.repository_testing.test_results import Stopped
from hutch.domain.errors import HutchError
from hutch.jail.interface import OnOutput, Process, StreamName

GRACE_S = 3.0  # for the report, after an interrupt: pytest writes what it has
MAX_LINE_BYTES = 300
OnLine = Callable[[bytes], None]  # called with the last line of the output, as it grows


class Stop:
    """A request to stop the tests of a run. It stays: suites that follow do not start."""

    def __init__(self) -> None:
        self._event = asyncio.Event()

    def __bool__(self) -> bool:
        return self._event.is_set()

    def set(self) -> None:
        self._event.set()

    async def wait(self) -> None:
        await self._event.wait()


class ProcessWatch:
    """Watches one process within its block. It is interrupted first and killed after a moment."""

    def __init__(
        self,
        stop: Stop,
        silence_s: float | None,
        on_output: OnOutput | None,
        on_line: OnLine | None,
        *,
        builds_silently: bool = False,
    ) -> None:
        self.stopped: Stopped = ""
        self._stop = stop
        self._silence_s = silence_s
        self._on_output = on_output
        self._on_line = on_line
        self._line = b""
        self._is_building = builds_silently  # until its first output, silence is no sign of a test that hangs
        self._printed_at = time.monotonic()
        self._process: Process | None = None
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    def begin(self, process: Process) -> None:
        self._process, self._printed_at = process, time.monotonic()
        self._task = asyncio.ensure_future(self._watch(process))

    def add(self, stream: StreamName, data: bytes) -> None:
        self._printed_at, self._is_building = time.monotonic(), False
        if self._on_output is not None:
            self._on_output(stream, data)
        if self._on_line is not None:
            # Of progress that grows on one line, its end.
            lines = (self._line + data[-4 * MAX_LINE_BYTES :]).rstrip(b"\n").splitlines()
            ended = data.endswith((b"\n", b"\r"))
            shown = lines[-1][-MAX_LINE_BYTES:] if lines else b""
            self._line = b"" if ended else shown
            if shown.strip():
                self._on_line(shown)

    async def _watch(self, process: Process) -> None:
        while not self.stopped:
            now, left_s = time.monotonic(), self._silence_s
            if left_s is not None and not self._is_building:
                left_s += self._printed_at - now
            if left_s is not None and left_s <= 0:
                self.stopped = "silence"
                break
            try:
                async with asyncio.timeout(left_s):
                    await self._stop.wait()
                self.stopped = "cancelled"
            except TimeoutError:
                continue
        with suppress(HutchError):  # it has ended meanwhile
            await process.signal(signal.SIGINT)
            await asyncio.sleep(GRACE_S)
            await process.kill()
