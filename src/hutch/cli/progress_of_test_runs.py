"""Shows test runs as they proceed: a line of progress, and the result of each run."""

import asyncio
import json
import os
import shutil
import signal
import sys
import time
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing, suppress
from typing import Any, Protocol

from hutch.agent.repository_testing.test_results import is_missing
from hutch.cli import exit_codes
from hutch.cli.render.test_results import result_lines
from hutch.cli.session_event_stream import Update
from hutch.cli.signals_and_closed_output import on_signals, stop_when_unread
from hutch.domain.errors import HutchError
from hutch.system.terminal_safe_text import one_line

TICK_S = 1.0
GOOD, BAD, QUIET, OFF = "\x1b[32m", "\x1b[31m", "\x1b[2m", "\x1b[0m"


class RunsTests(Protocol):
    """A session in which tests run, on a server or in this process."""

    async def begin(self) -> str:
        """Start the tests; returns the id of the run."""
        ...

    def follow(self) -> AsyncGenerator[Update]:
        """The events of the session since the tests were started."""
        ...

    async def cancel(self, id: str) -> None: ...

    async def stop_watching(self) -> None: ...


async def show_tests(place: RunsTests, *, as_json: bool, repeats: bool) -> int:
    """Run tests and show them to their end; with `repeats`, until the user interrupts.

    An interrupt ends the run in progress and its results until then are shown; a second one does not wait.
    """
    view, current = _View(as_json=as_json), await place.begin()
    code, interrupted = exit_codes.OK, False
    task = asyncio.current_task()
    assert task is not None

    async def interrupt() -> None:
        nonlocal interrupted
        is_second, interrupted = interrupted, True
        if is_second:
            task.cancel()
            return
        with suppress(HutchError):
            if repeats:
                await place.stop_watching()
            if current:
                await place.cancel(current)
        if not current:
            task.cancel()

    with on_signals({signal.SIGINT: interrupt}):
        try:
            async with stop_when_unread(), aclosing(place.follow()) as updates:
                async for update in updates:
                    if update.delta is not None:
                        view.progress(update.delta)
                        continue
                    event = (update.entry or {}).get("event") or {}
                    kind = event.get("type")
                    if kind == "tests.started":
                        current = str(event.get("test_run"))
                        view.started(event)
                    elif kind == "tests.run" and event.get("test_run") == current:
                        view.ended(update.entry or {})
                        current, code = "", exit_code(event)
                        if not repeats or interrupted:
                            break
                        view.wait()
                    elif kind in ("session.parked", "session.ended") and not current:
                        view.note("the session's jail was closed, and tests are not repeated any more")
                        break
        except asyncio.CancelledError:
            if not interrupted:
                raise
            return exit_codes.INTERRUPTED
        finally:
            view.close()
    return exit_codes.INTERRUPTED if interrupted else code


def exit_code(event: Mapping[str, Any]) -> int:
    """The exit code of a test run."""
    if event.get("cancelled"):
        return exit_codes.INTERRUPTED
    if event.get("ok"):
        return exit_codes.OK
    if event.get("limit"):
        return exit_codes.LIMIT_REACHED
    is_started = event.get("total") or not is_missing(str(event.get("reason") or ""))
    return exit_codes.NO if is_started else exit_codes.UNAVAILABLE


class _View:
    """Writes results to standard output, and progress to standard error if that is a terminal."""

    def __init__(self, *, as_json: bool) -> None:
        self._as_json = as_json
        self._is_live = os.isatty(2) and not as_json
        self._is_colored = os.isatty(1) and not as_json
        self._began = time.monotonic()
        self._line = ""
        self._timer: asyncio.TimerHandle | None = None

    def started(self, event: Mapping[str, Any]) -> None:
        self._began, self._line = time.monotonic(), str(event.get("command") or "")
        if not self._as_json and not self._is_live:
            self.note(f"running: {one_line(self._line, 200)}")
        self._tick()

    def progress(self, delta: Mapping[str, Any]) -> None:
        if delta.get("kind") == "tests":
            self._line = str(delta.get("text") or "")
            self._draw()

    def ended(self, entry: Mapping[str, Any]) -> None:
        self._clear()
        event = entry["event"]
        if self._as_json:
            _write(json.dumps(event, ensure_ascii=False))
            return
        lines = list(result_lines(event))
        color = GOOD if event.get("ok") else BAD
        for line in lines:
            is_strong = line.startswith("FAILED ") or line is lines[-1] or line is lines[-2:][0]
            _write(f"{color}{line}{OFF}" if self._is_colored and is_strong else line)

    def wait(self) -> None:
        if not self._as_json:
            self.note("waiting for changes; Ctrl-C ends it")

    def note(self, text: str) -> None:
        self._clear()
        sys.stderr.write(f"hutch: {text}\n")
        sys.stderr.flush()

    def close(self) -> None:
        self._clear()

    def _tick(self) -> None:
        self._draw()
        if self._is_live:
            self._timer = asyncio.get_running_loop().call_later(TICK_S, self._tick)

    def _draw(self) -> None:
        if self._is_live:
            width = max(20, shutil.get_terminal_size().columns - 1)
            text = one_line(f"{time.monotonic() - self._began:.0f} s  {self._line}", width)
            sys.stderr.write(f"\r\x1b[K{QUIET}{text}{OFF}")
            sys.stderr.flush()

    def _clear(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._is_live:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()


def _write(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()
