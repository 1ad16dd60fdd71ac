"""What is said to a shell: at once as far as it fits, the rest as the shell reads on."""

import asyncio
import fcntl
import struct
import termios

from hutch.jail.pipes import PipeWriter

CHUNK_BYTES = 256 * 1024


class ShellInput:
    """The host's end of the socket that is a shell's standard input."""

    def __init__(self, writer: PipeWriter) -> None:
        self._writer = writer
        self._unsaid = b""
        self._saying: asyncio.Task[None] | None = None

    def say(self, text: bytes) -> None:
        if self._writer.fd < 0:
            return
        if self._unsaid:
            self._unsaid += text
            return
        try:
            self._unsaid = text[self._writer.write_some(text) :]
        except BrokenPipeError:
            return  # it has ended, as we are about to learn
        if self._unsaid:
            self._saying = asyncio.get_running_loop().create_task(self._say_rest())

    def unread(self) -> bool | None:
        """Whether the shell has something left to read; None when that cannot be told."""
        if self._unsaid or self._writer.fd < 0:
            return None
        waiting = fcntl.ioctl(self._writer.fd, termios.TIOCOUTQ, bytes(4))
        return bool(struct.unpack("i", waiting)[0])

    def close(self) -> None:
        self._writer.close()

    async def _say_rest(self) -> None:
        while self._unsaid:
            part = self._unsaid[:CHUNK_BYTES]
            try:
                await self._writer.write(part)
            except BrokenPipeError:
                part = self._unsaid
            self._unsaid = self._unsaid[len(part) :]
