"""A command's output: head and tail in memory, all of it in a file.

The file is created only when memory is not enough, so most commands never touch the
disk. It holds both streams in the order in which they arrived.

The output files of a jail share a limited amount of disk space. When it runs out, the
oldest files of ended commands are deleted; files of running commands are cut, and their
results say so.
"""

import asyncio
import contextlib
import fcntl
import os
from collections.abc import Callable
from pathlib import Path

from hutch.jail.command_process import Command
from hutch.jail.interface import Exit, OnOutput, StreamName
from hutch.jail.output_buffer import NO_OUTPUT, StreamBuffer, StreamOutput
from hutch.jail.pipe_reader_and_writer import DEFAULT_PIPE_BYTES, widen

MAX_FULL_FILES = 4  # that can have a file of the maximum size
CHUNK_BYTES = 256 * 1024


class OutputFiles:
    """The output files of one jail, in a directory that is made when needed."""

    def __init__(self, directory: Callable[[], Path], max_bytes: int) -> None:
        self._directory = directory
        self._free = max_bytes
        self._ended: dict[Path, int] = {}  # path: bytes, the oldest first
        self._number = 0

    def begin(self) -> "OutputFile":
        self._number += 1
        return OutputFile(self, self._directory() / f"output-{self._number}")

    def take(self, requested: int) -> int:
        """Reserve disk space and return how much was granted."""
        while self._free < requested and self._ended:
            oldest = next(iter(self._ended))
            self._free += self._ended.pop(oldest)
            with contextlib.suppress(FileNotFoundError):
                oldest.unlink()
        granted = min(requested, self._free)
        self._free -= granted
        return granted

    def end(self, path: Path, size: int) -> None:
        self._ended[path] = size


class OutputFile:
    """An output file that is being written."""

    def __init__(self, files: OutputFiles, path: Path) -> None:
        self.path = path
        self._files = files
        self._size = 0
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)

    def write(self, data: bytes) -> bool:
        """Write `data` and return whether there was space for all of it."""
        part = data[: self._files.take(len(data))]
        self._size += len(part)
        if part:
            os.write(self._fd, part)
        return len(part) == len(data)

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
            self._files.end(self.path, self._size)


class Capture:
    """Both output streams of one command."""

    def __init__(self, *, max_bytes: int, file_bytes: int, files: OutputFiles) -> None:
        self.path: Path | None = None
        self.cut = False  # the file is incomplete
        self._streams: dict[StreamName, StreamBuffer] = {}  # only streams with output
        self._max_bytes = max_bytes
        self._file_space = file_bytes
        self._files = files
        self._file: OutputFile | None = None

    def add(self, name: StreamName, data: bytes) -> None:
        buffer = self._streams.get(name)
        if buffer is None:
            buffer = self._streams[name] = StreamBuffer(self._max_bytes)
        if self._file is None and buffer.total_bytes + len(data) > self._max_bytes:
            self._begin()
        buffer.add(data)
        if self._file is not None:
            self._save(self._file, data)

    def output(self, name: StreamName) -> StreamOutput:
        return self._streams[name].output() if name in self._streams else NO_OUTPUT

    @property
    def truncated(self) -> bool:
        return any(buffer.omitted_bytes for buffer in self._streams.values())

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def _begin(self) -> None:
        if self.path is None:
            self._file = file = self._files.begin()
            self.path = file.path
            for buffer in self._streams.values():  # nothing is omitted from them yet
                self._save(file, bytes(buffer.output()))

    def _save(self, file: OutputFile, data: bytes) -> None:
        part = data[: self._file_space]
        self._file_space -= len(part)
        if part and not file.write(part):
            self._file_space = 0
            self.cut = True
        self.cut = self.cut or len(part) < len(data)


class Pump:
    """Moves output from a pipe to a capture, in the event loop."""

    def __init__(self, fd: int, name: StreamName, capture: Capture, on_output: OnOutput | None) -> None:
        self.error: Exception | None = None
        self._fd = fd
        self._name = name
        self._capture = capture
        self._on_output = on_output
        self._loop = asyncio.get_running_loop()
        self._open, self._wide = True, False
        self._loop.add_reader(fd, self._readable)

    def drain(self) -> None:
        """Read what is in the pipe now, without waiting for processes that still have the other end."""
        remaining = fcntl.fcntl(self._fd, fcntl.F_GETPIPE_SZ) if self._open else 0
        while self._open and remaining > 0:
            count = self._readable()
            if not count:
                break
            remaining -= count
        self.stop()

    def stop(self) -> None:
        if self._open:
            self._open = False
            self._loop.remove_reader(self._fd)

    def _readable(self) -> int:
        try:
            data = os.read(self._fd, CHUNK_BYTES)
        except BlockingIOError:
            return 0
        if not data:
            self.stop()
            return 0
        if len(data) >= DEFAULT_PIPE_BYTES and not self._wide:
            self._wide = True
            widen(self._fd)
        self._capture.add(self._name, data)
        if self._on_output is not None:
            try:
                self._on_output(self._name, data)
            except Exception as error:  # noqa: BLE001 (raised later to the caller, whose callback failed)
                self.error, self._on_output = error, None
        return len(data)


async def run_to_end(
    process: Command, capture: Capture, *, timeout_s: float, on_output: OnOutput | None
) -> tuple[Exit, bool]:
    """Wait for a command, and return how it ended and whether it timed out.

    Processes it leaves behind may hold its output open, and are not waited for. If the caller is
    cancelled, the command is killed with all it started.
    """
    assert process.stdout and process.stderr
    pumps = [
        Pump(process.stdout.fd, "stdout", capture, on_output),
        Pump(process.stderr.fd, "stderr", capture, on_output),
    ]
    timed_out = False
    try:
        try:
            async with asyncio.timeout(timeout_s):
                exit_ = await process.wait()
        except TimeoutError:
            timed_out = True
            await process.kill()
            exit_ = await process.wait()
        for pump in pumps:
            pump.drain()
    except asyncio.CancelledError:
        await asyncio.shield(asyncio.ensure_future(process.kill()))
        raise
    finally:
        for pump in pumps:
            pump.stop()
        capture.close()
        process.close()
    for pump in pumps:
        if pump.error is not None:
            raise pump.error
    return exit_, timed_out
