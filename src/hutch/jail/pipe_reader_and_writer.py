"""The host's ends of a command's pipes, read and written without a thread.

A reader pulls: while it does not read, the pipe fills and the command waits, so memory
is bounded by the pipe.
"""

import asyncio
import contextlib
import errno
import fcntl
import os

DEFAULT_PIPE_BYTES = 64 * 1024  # capacity of a new pipe
WIDE_PIPE_BYTES = 256 * 1024


class PipeReader:
    """The read end of a command's output."""

    def __init__(self, fd: int) -> None:
        os.set_blocking(fd, False)
        self.fd = fd
        self._loop = asyncio.get_running_loop()
        self._waiter: asyncio.Future[None] | None = None
        self._is_registered = self._wide = self._hung_up = False

    async def read(self, max_bytes: int = 65536) -> bytes:
        """The next bytes; b"" when there will be no more."""
        while self.fd >= 0:
            try:
                data = os.read(self.fd, max_bytes)
                if len(data) >= DEFAULT_PIPE_BYTES and not self._wide:
                    self._wide = True
                    widen(self.fd)
                return data
            except BlockingIOError:
                await self._readable()
            except OSError as error:
                if error.errno != errno.EIO:  # reported when a terminal's last program has ended
                    raise
                # The kernel checks for bytes first and for writers second; a second read finds what the last
                # writer wrote between the two checks.
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
        if not self._is_registered:
            self._is_registered = True
            self._loop.add_reader(self.fd, self._on_readable)
        try:
            await waiter
        finally:
            self._waiter = None

    def _on_readable(self) -> None:
        """Wake the reader. The descriptor stays registered between reads, since registering is most of the
        cost of a wait."""
        if self._waiter is None:
            self._is_registered = False
            self._loop.remove_reader(self.fd)
        _wake(self._waiter)


class PipeWriter:
    """The write end of a command's input."""

    def __init__(self, fd: int) -> None:
        os.set_blocking(fd, False)
        self.fd = fd
        self._loop = asyncio.get_running_loop()
        self._waiter: asyncio.Future[None] | None = None

    async def write(self, data: bytes) -> None:
        """Write all of it; BrokenPipeError when the reader has closed."""
        view = memoryview(data)
        while view:
            if self.fd < 0:
                raise BrokenPipeError(errno.EPIPE, "The pipe is closed.")
            written = self.write_some(view)
            view = view[written:]
            if not written:
                await self._writable()

    def write_some(self, data: bytes | memoryview) -> int:
        """Write as much as fits now."""
        try:
            return os.write(self.fd, data)
        except BlockingIOError:
            return 0
        except ConnectionResetError as error:  # a socket's reader closed with bytes unread
            raise BrokenPipeError(errno.EPIPE, "The reader has closed.") from error

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
    """Enlarge a pipe's buffer, for a command that prints much."""
    with contextlib.suppress(OSError):  # over this user's quota, or a terminal: then the size stays
        fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, WIDE_PIPE_BYTES)


def _wake(waiter: asyncio.Future[None] | None) -> None:
    if waiter is not None and not waiter.done():
        waiter.set_result(None)
