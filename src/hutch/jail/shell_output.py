"""A shell's two output pipes, read as they fill, unless whoever takes it has enough for now."""

import asyncio
import os
import select
from collections.abc import Callable

from hutch.jail.pipes import WIDE_BYTES, widen
from hutch.jail.seam import StreamName

CHUNK_BYTES = 256 * 1024
Sink = Callable[[StreamName, bytes], None]


def nobody(name: StreamName, data: bytes) -> None:
    """A sink for what is no command's output."""


class ShellOutput:
    """Reads both pipes into `sink`."""

    def __init__(self, stdout: int, stderr: int) -> None:
        self.sink: Sink = nobody
        self._loop = asyncio.get_running_loop()
        self._pipes: dict[int, StreamName] = {stdout: "stdout", stderr: "stderr"}
        self._waiting = select.poll()
        self._reading = False
        for fd in self._pipes:
            widen(fd)
            self._waiting.register(fd, select.POLLIN)
        self.resume()

    def pause(self) -> None:
        """Read no more, so that whoever writes has to wait."""
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
        """Take what is in the pipes now; who still holds the other ends is not waited for."""
        for fd, _ in self._waiting.poll(0) if self._pipes else ():
            rest = WIDE_BYTES
            while rest > 0 and fd in self._pipes and (taken := self._readable(fd, self._pipes[fd])):
                rest -= taken

    def close(self) -> None:
        """Nothing is left that could write there."""
        self.drain()
        self.pause()
        self._pipes = {}

    def _readable(self, fd: int, name: StreamName) -> int:
        try:
            data = os.read(fd, CHUNK_BYTES)
        except BlockingIOError:
            return 0
        if data:
            self.sink(name, data)
        else:
            self._loop.remove_reader(fd)
            self._pipes.pop(fd, None)
            self._waiting.unregister(fd)
        return len(data)
