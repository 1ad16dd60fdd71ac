"""The host's ends of a shell's socket and pipes.

Text for a shell is written immediately as far as it fits, and the rest as the shell
reads on. The two output pipes are read as they fill, unless their consumer has paused
them. Jobs that a command left running may keep its pipes; then the shell gets others.
"""

import asyncio
import fcntl
import os
import select
import struct
import termios
from collections.abc import Callable

from hutch.jail.interface import StreamName
from hutch.jail.pipe_reader_and_writer import WIDE_PIPE_BYTES, PipeWriter, widen

CHUNK_BYTES = 256 * 1024
READ_POLL_INTERVAL_S = 0.001
Sink = Callable[[StreamName, bytes], None]


class ShellInput:
    """The host's end of the socket that is a shell's standard input."""

    def __init__(self, writer: PipeWriter) -> None:
        self._writer = writer
        self._unsent = b""
        self._sending: asyncio.Task[None] | None = None

    def send(self, text: bytes) -> None:
        if self._writer.fd < 0:
            return
        if self._unsent:
            self._unsent += text
            return
        try:
            self._unsent = text[self._writer.write_some(text) :]
        except BrokenPipeError:
            return  # it has ended, which is reported soon
        if self._unsent:
            self._sending = asyncio.get_running_loop().create_task(self._send_rest())

    def unread(self) -> bool | None:
        """True if the shell has input left to read; None when that is unknown."""
        if self._unsent or self._writer.fd < 0:
            return None
        waiting = fcntl.ioctl(self._writer.fd, termios.TIOCOUTQ, bytes(4))
        return bool(struct.unpack("i", waiting)[0])

    async def wait_read(self, timeout_s: float) -> None:
        """Wait until the shell has done all that it was sent and reads its next line."""
        self.send(b"\n")
        loop = asyncio.get_running_loop()
        until = loop.time() + timeout_s
        while self.unread() is not False and self._writer.fd >= 0 and loop.time() < until:  # noqa: ASYNC110 (a kernel counter)
            await asyncio.sleep(READ_POLL_INTERVAL_S)

    def close(self) -> None:
        self._writer.close()

    async def _send_rest(self) -> None:
        while self._unsent:
            part = self._unsent[:CHUNK_BYTES]
            try:
                await self._writer.write(part)
            except BrokenPipeError:
                part = self._unsent
            self._unsent = self._unsent[len(part) :]


def discard(name: StreamName, data: bytes) -> None:
    """A sink for data that is not a command's output."""


class ShellOutput:
    """Reads both pipes into `sink`, and closes them at their end. `on_end` is called once, when nothing can
    be read any more."""

    def __init__(self, stdout: int, stderr: int) -> None:
        self.sink: Sink = discard
        self.on_end: Callable[[], None] | None = None
        self._loop = asyncio.get_running_loop()
        self._pipes: dict[int, StreamName] = {stdout: "stdout", stderr: "stderr"}
        self._waiting = select.poll()
        self._reading = False
        for fd in self._pipes:
            os.set_blocking(fd, False)
            widen(fd)
            self._waiting.register(fd, select.POLLIN)
        self.resume()

    @property
    def is_open(self) -> bool:
        """True when a process has the other end of a pipe, as far as was read."""
        return bool(self._pipes)

    def is_at(self, stdout: str, stderr: str) -> bool:
        """True when these links of /proc/PID/fd lead to the other ends of the pipes."""
        links = {name: f"pipe:[{os.fstat(fd).st_ino}]" for fd, name in self._pipes.items()}
        return links == {"stdout": stdout, "stderr": stderr}

    def pause(self) -> None:
        """Stop reading, so that writers must wait."""
        if self._reading:
            self._reading = False
            for fd in self._pipes:
                self._loop.remove_reader(fd)

    def resume(self) -> None:
        if not self._reading:
            self._reading = True
            for fd, name in self._pipes.items():
                self._loop.add_reader(fd, self._readable, fd, name)

    def drain(self) -> None:
        """Read what is in the pipes now, without waiting for processes that still have the other ends."""
        for fd, _ in self._waiting.poll(0) if self._pipes else ():
            rest = WIDE_PIPE_BYTES
            while rest > 0 and fd in self._pipes and (count := self._readable(fd, self._pipes[fd])):
                rest -= count

    def close(self) -> None:
        """Stop reading. A process that still writes gets SIGPIPE."""
        self.drain()
        self.pause()
        for fd in tuple(self._pipes):
            self._close(fd)

    def _readable(self, fd: int, name: StreamName) -> int:
        try:
            data = os.read(fd, CHUNK_BYTES)
        except BlockingIOError:
            return 0
        if data:
            self.sink(name, data)
        else:
            self._close(fd)
        return len(data)

    def _close(self, fd: int) -> None:
        self._loop.remove_reader(fd)
        self._waiting.unregister(fd)
        del self._pipes[fd]
        os.close(fd)
        if not self._pipes and self.on_end is not None:
            on_end, self.on_end = self.on_end, None
            on_end()
