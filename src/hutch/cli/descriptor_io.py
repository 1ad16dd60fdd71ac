"""Bytes between this process's own descriptors and the event loop.

Whoever stands behind them may be slow, or have left. They may be files, which
no loop can wait for, and they are shared with the shell that started us, so
they are never switched to non-blocking. So a thread of its own waits for each;
it is not waited for in the end.
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


class Waiting:
    """A thread that does one blocking thing after the other."""

    def __init__(self, name: str) -> None:
        self._loop = asyncio.get_running_loop()
        self._asked: queue.SimpleQueue[tuple[Work, asyncio.Future[Any]]] = queue.SimpleQueue()
        threading.Thread(target=self._serve, name=name, daemon=True).start()

    async def do(self, work: Work) -> Any:
        answer: asyncio.Future[Any] = self._loop.create_future()
        self._asked.put((work, answer))
        return await answer

    def _serve(self) -> None:
        while True:
            work, answer = self._asked.get()
            try:
                result, error = work(), None
            except OSError as failed:
                result, error = None, failed
            with suppress(RuntimeError):  # the loop is closed: nobody wants to know
                self._loop.call_soon_threadsafe(_set_result, answer, result, error)


class Inlet:
    """What comes in on a descriptor."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._thread = Waiting(f"inlet-{fd}")
        self._coming: asyncio.Future[bytes] | None = None  # outlives a reader who leaves: the next gets it

    async def read(self) -> bytes:
        """The next bytes; b"" at the end, however it came."""
        coming = self._coming = self._coming or asyncio.ensure_future(self._thread.do(self._read))
        try:
            data = await asyncio.shield(coming)
        except OSError:  # closed, or the terminal is gone
            data = b""
        self._coming = None
        return data

    def _read(self) -> bytes:
        while True:
            try:
                return os.read(self._fd, CHUNK_BYTES)
            except BlockingIOError:  # somebody else switched it
                select.select([self._fd], [], [])


class Outlet:
    """What goes out on a descriptor, in order."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._error: OSError | None = None  # told again to the next who writes: the first may have left
        self._thread = Waiting(f"outlet-{fd}")

    async def write(self, data: bytes) -> None:
        """All of it; OSError when nobody takes it any more."""
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
