"""The host's ends of a command's pipes, read and written without a thread.

A reader pulls: while nobody reads, the pipe fills and the command waits, so
memory stays bounded by the pipe.
"""

import asyncio
import contextlib
import errno
import fcntl
import os

USUAL_BYTES = 64 * 1024  # that a pipe holds
WIDE_BYTES = 256 * 1024


class PipeReader:
    """What a command prints."""

    def __init__(self, fd: int) -> None:
        os.set_blocking(fd, False)
        self.fd = fd
        self._loop = asyncio.get_running_loop()
        self._waiter: asyncio.Future[None] | None = None
        self._watched = self._wide = self._hung_up = False

    async def read(self, most: int = 65536) -> bytes:
        """The next bytes; b"" when there will be no more."""
        while self.fd >= 0:
            try:
                data = os.read(self.fd, most)
                if len(data) >= USUAL_BYTES and not self._wide:
                    self._wide = True
                    widen(self.fd)
                return data
            except BlockingIOError:
                await self._readable()
            except OSError as error:
                if error.errno != errno.EIO:  # how a terminal says that its last program is gone
                    raise
                # The kernel looks for bytes first and for writers second; what the last writer wrote between
                # the two is found when it is asked again.
                if self._hung_up:
                    return b""
                self._hung_up = True
        return b""

    def close(self) -> None:
        if self.fd >= 0:
            self._loop.remove_reader(self.fd)
            os.close(self.fd)
            self.fd = -1
            _wake(self._waiter)

    async def _readable(self) -> None:
        self._waiter = waiter = self._loop.create_future()
        if not self._watched:
            self._watched = True
            self._loop.add_reader(self.fd, self._has_some)
        try:
            await waiter
        finally:
            self._waiter = None

    def _has_some(self) -> None:
        """Watched on from read to read, which is most of a wait's cost, until nobody waits."""
        if self._waiter is None:
            self._watched = False
            self._loop.remove_reader(self.fd)
        _wake(self._waiter)


class PipeWriter:
    """What a command reads."""

    def __init__(self, fd: int) -> None:
        os.set_blocking(fd, False)
        self.fd = fd
        self._loop = asyncio.get_running_loop()
        self._waiter: asyncio.Future[None] | None = None

    async def write(self, data: bytes) -> None:
        """All of it; BrokenPipeError when nobody reads any more."""
        view = memoryview(data)
        while view:
            if self.fd < 0:
                raise BrokenPipeError(errno.EPIPE, "The pipe is closed.")
            written = self.write_some(view)
            view = view[written:]
            if not written:
                await self._writable()

    def write_some(self, data: bytes | memoryview) -> int:
        """As much as fits now."""
        try:
            return os.write(self.fd, data)
        except BlockingIOError:
            return 0
        except ConnectionResetError as error:  # a socket's word for a reader who left something unread
            raise BrokenPipeError(errno.EPIPE, "Nobody reads any more.") from error

    def close(self) -> None:
        if self.fd >= 0:
            self._loop.remove_writer(self.fd)
            os.close(self.fd)
            self.fd = -1
            _wake(self._waiter)

    async def _writable(self) -> None:
        self._waiter = waiter = self._loop.create_future()
        self._loop.add_writer(self.fd, _wake, waiter)
        try:
            await waiter
        finally:
            if self.fd >= 0:
                self._loop.remove_writer(self.fd)


def widen(pipe: int) -> None:
    """Let more fit in, for one who prints much."""
    with contextlib.suppress(OSError):  # more than this user may have, or a terminal: then it stays as it is
        fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, WIDE_BYTES)


def _wake(waiter: asyncio.Future[None] | None) -> None:
    if waiter is not None and not waiter.done():
        waiter.set_result(None)
