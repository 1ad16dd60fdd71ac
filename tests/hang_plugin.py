"""A pytest plugin that ends a test which hangs, and shows where it waits.

`-p tests.hang_plugin --hang-after S`. The stacks of all asyncio tasks and threads are written to the standard
error of pytest. Then the process ends, since a test that hangs may hang again in its fixtures. With workers,
pytest-xdist reports the test as failed and goes on in a new worker, so that one test cannot keep a whole run
from its end.

That cannot end a worker which is stopped by a signal, waits in the kernel, or waits for tests that never
come. So the process that started the workers watches too: when no test has ended for `--stall-after S`, it
shows the state of its workers and ends them, and the tests that they had are reported as failed.
"""

import asyncio
import faulthandler
import os
import signal
import sys
import threading
import time
from collections.abc import Generator
from contextlib import suppress
from pathlib import Path
from typing import Any, TextIO

import pytest

EXIT_CODE = 70
# Of coroutines, generators and asynchronous generators.
FRAME_AND_AWAITED = (("cr_frame", "cr_await"), ("gi_frame", "gi_yieldfrom"), ("ag_frame", "ag_await"))
STALL_CHECK_INTERVAL_S = 5.0
TRACEBACK_S = 5.0  # for workers to write the stacks of their threads
MIN_START_LIMIT_S = 600.0  # for workers to start and to collect the tests
DEAF_S = 60.0  # after this, a main thread that does not return from C code is ended from another thread


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("progress")
    group.addoption(
        "--hang-after", type=float, default=600.0, help="seconds after which a test counts as hanging"
    )
    group.addoption(
        "--stall-after",
        type=float,
        default=900.0,
        help="seconds without the end of a test before workers are ended",
    )


def pytest_configure(config: pytest.Config) -> None:
    # Output is not captured yet, so this is what pytest was started with.
    output = os.fdopen(os.dup(sys.stderr.fileno()), "w")
    config.pluginmanager.register(HangWatch(config.getoption("--hang-after"), output))
    if config.getoption("numprocesses", None) and not hasattr(config, "workerinput"):
        config.pluginmanager.register(StallWatch(config.getoption("--stall-after"), output))


class HangWatch:
    def __init__(self, limit_s: float, output: TextIO) -> None:
        self._limit_s = limit_s
        self._output = output
        self._test = ""

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        self._test = item.nodeid
        usual = signal.signal(signal.SIGALRM, self._end)
        signal.setitimer(signal.ITIMER_REAL, self._limit_s)
        faulthandler.dump_traceback_later(self._limit_s + DEAF_S, exit=True, file=self._output)
        try:
            return (yield)
        finally:
            faulthandler.cancel_dump_traceback_later()
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, usual)

    def _end(self, *_: object) -> None:
        print(f"\n{self._test} hangs: no end after {self._limit_s:.0f} s", file=self._output)
        faulthandler.dump_traceback(self._output)
        for task in running_tasks():
            print(f"\n{task!r} waits at (innermost last):", file=self._output)
            print(*waiting_lines(task), sep="\n", file=self._output)
        self._output.flush()
        os._exit(EXIT_CODE)


def waiting_lines(task: "asyncio.Task[object]") -> list[str]:
    """The line of each coroutine that waits for the next one. `Task.print_stack` shows the outermost only."""
    lines = []
    current: Any = task.get_coro()
    while names := next((names for names in FRAME_AND_AWAITED if hasattr(current, names[0])), None):
        frame, awaited = (getattr(current, name) for name in names)
        if frame is not None:
            lines.append(f"  {frame.f_code.co_filename}:{frame.f_lineno} in {frame.f_code.co_name}")
        current = awaited
    return lines


def running_tasks() -> set["asyncio.Task[object]"]:
    try:
        return asyncio.all_tasks()
    except RuntimeError:  # no event loop runs
        return set()


class StallWatch:
    """Ends the workers when no test has ended for too long; ends this process if even that does not help."""

    def __init__(self, limit_s: float, output: TextIO) -> None:
        self._limit_s = limit_s
        self._output = output
        self._is_starting = True  # no worker has collected its tests yet
        self._over = threading.Event()
        self._progress_at = time.monotonic()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def pytest_sessionstart(self) -> None:
        self._thread.start()

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self) -> None:
        self._over.set()
        self._thread.join()

    def pytest_runtest_logfinish(self) -> None:
        self._progress_at = time.monotonic()

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self) -> None:
        self._progress_at = time.monotonic()
        self._is_starting = False

    def _watch(self) -> None:
        ended_before = False
        while not self._over.wait(min(STALL_CHECK_INTERVAL_S, self._limit_s)):
            limit_s = max(self._limit_s, MIN_START_LIMIT_S) if self._is_starting else self._limit_s
            if time.monotonic() - self._progress_at < limit_s:
                continue
            print(f"\nNo test has ended for {limit_s:.0f} s. The workers:", file=self._output)
            if ended_before:
                print("Ending them did not help.", file=self._output, flush=True)
                os._exit(EXIT_CODE)
            self._is_starting = True
            end_workers(self._output)
            ended_before = True
            self._progress_at = time.monotonic()


def end_workers(output: TextIO) -> None:
    """Show the state of each child process, then let it write its stacks and end."""
    stalled = children()  # without the workers that replace them
    for child in stalled:
        with suppress(OSError, StopIteration):  # it has ended meanwhile, or the kernel shows no stacks
            status = Path(f"/proc/{child}/status").read_text().splitlines()
            state = next(line for line in status if line.startswith("State:")).split(maxsplit=1)[1]
            print(f"{child}: {state}, in {Path(f'/proc/{child}/wchan').read_text()}", file=output)
            print(Path(f"/proc/{child}/stack").read_text(), file=output)
    output.flush()
    for signal_number in (
        signal.SIGABRT,
        signal.SIGKILL,
    ):  # pytest writes the stacks of all threads at SIGABRT
        for child in stalled:
            with suppress(ProcessLookupError):
                os.kill(child, signal_number)
        time.sleep(TRACEBACK_S)


def children() -> list[int]:
    """The child processes of all threads."""
    lists = Path("/proc/self/task").glob("*/children")
    return [int(child) for each in lists for child in each.read_text().split()]
