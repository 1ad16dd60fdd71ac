"""Bytes between this process's standard descriptors and the event loop.

The other end may be slow or closed. A descriptor may be a file, which no event loop can wait for, and
it is shared with the parent shell, so it must not become non-blocking. Therefore a daemon thread per
descriptor does the blocking calls.
"""

import asyncio
import os
import queue
import select
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

CHUNK_BYTES = 64 * 1024

Work = Callable[[], Any]


class BlockingThread:
    """A thread that executes blocking calls one after the other."""

    def __init__(self, name: str) -> None:
        self._loop = asyncio.get_running_loop()
        self._calls: queue.SimpleQueue[tuple[Work, asyncio.Future[Any]]] = queue.SimpleQueue()
        threading.Thread(target=self._serve, name=name, daemon=True).start()

    async def do(self, work: Work) -> Any:
        answer: asyncio.Future[Any] = self._loop.create_future()
        self._calls.put((work, answer))
        return await answer

    def _serve(self) -> None:
        while True:
            work, answer = self._calls.get()
            try:
                result, error = work(), None
            except OSError as failed:
                result, error = None, failed
            with suppress(RuntimeError):  # the loop is closed; no task waits for the result
                self._loop.call_soon_threadsafe(_set_result, answer, result, error)


class Inlet:
    """Reads from a descriptor."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._thread = BlockingThread(f"inlet-{fd}")
        self._pending: asyncio.Future[bytes] | None = None  # outlives a cancelled reader: the next gets it

    async def read(self) -> bytes:
        """The next bytes; b"" at the end of input or after an error."""
        pending = self._pending = self._pending or asyncio.ensure_future(self._thread.do(self._read))
        try:
            data = await asyncio.shield(pending)
        except OSError:  # closed, or the terminal is gone
            data = b""
        self._pending = None
        return data

    def is_ready(self) -> bool:
        """True if bytes or the end of input can be read without waiting."""
        return bool(select.select([self._fd], [], [], 0)[0])

    def _read(self) -> bytes:
        while True:
            try:
                return os.read(self._fd, CHUNK_BYTES)
            except BlockingIOError:  # another process made it non-blocking
                select.select([self._fd], [], [])


class Outlet:
    """Writes to a descriptor, in order."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._error: OSError | None = None  # raised for every later write: the first writer may be cancelled
        self._thread = BlockingThread(f"outlet-{fd}")

    async def write(self, data: bytes) -> None:
        """Write everything; OSError when the other end is closed."""
        await self._thread.do(lambda: self._write(data))

    def _write(self, data: bytes) -> None:
        if self._error is not None:
            raise self._error
        view = memoryview(data)
        while view:
            try:
                view = view[os.write(self._fd, view) :]
            except BlockingIOError:
                select.select([], [self._fd], [])
            except OSError as error:
                self._error = error
                raise


def _set_result(answer: "asyncio.Future[Any]", result: Any, error: OSError | None) -> None:
    if answer.done():
        return
    if error is None:
        answer.set_result(result)
    else:
        answer.set_exception(error)
