"""What a command printed: the head and the tail in memory, the whole in a file.

The file is begun only when memory was not enough, so most commands never touch
the disk. It holds both streams in the order in which they came.

The files of a jail's commands together may take only so much room. When it runs
out, the oldest of commands that have ended go; those of commands that still run
are cut, and their results say so.
"""

import asyncio
import contextlib
import fcntl
import os
from collections.abc import Callable
from pathlib import Path

from hutch.jail.interface import Exit, OnOutput, StreamName
from hutch.jail.pipes import USUAL_BYTES, widen
from hutch.jail.process import Command
from hutch.jail.stream_output import NO_OUTPUT, Kept, StreamOutput

COMMANDS = 4  # that can have a file of the greatest size
CHUNK_BYTES = 256 * 1024


class OutputFiles:
    """Those of one jail, in a directory of its own that is made when it is needed."""

    def __init__(self, directory: Callable[[], Path], most_bytes: int) -> None:
        self._directory = directory
        self._free = most_bytes
        self._ended: dict[Path, int] = {}  # path: bytes, the oldest first
        self._number = 0

    def begin(self) -> "OutputFile":
        self._number += 1
        return OutputFile(self, self._directory() / f"output-{self._number}")

    def take(self, wanted: int) -> int:
        """As much of that room as can be had."""
        while self._free < wanted and self._ended:
            oldest = next(iter(self._ended))
            self._free += self._ended.pop(oldest)
            with contextlib.suppress(FileNotFoundError):
                oldest.unlink()
        given = min(wanted, self._free)
        self._free -= given
        return given

    def end(self, path: Path, size: int) -> None:
        self._ended[path] = size


class OutputFile:
    """One that is being written."""

    def __init__(self, files: OutputFiles, path: Path) -> None:
        self.path = path
        self._files = files
        self._size = 0
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)

    def write(self, data: bytes) -> bool:
        """Whether there was room for all of it."""
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
    """Both streams of one command."""

    def __init__(self, *, most_bytes: int, file_bytes: int, files: OutputFiles) -> None:
        self.path: Path | None = None
        self.cut = False  # the file is not whole
        self.is_incomplete = False  # some output never came here
        self._streams: dict[StreamName, Kept] = {}  # that something was printed on
        self._most = most_bytes
        self._room = file_bytes
        self._files = files
        self._file: OutputFile | None = None

    def add(self, name: StreamName, data: bytes) -> None:
        kept = self._streams.get(name)
        if kept is None:
            kept = self._streams[name] = Kept(self._most)
        if self._file is None and kept.total_bytes + len(data) > self._most:
            self._begin()
        kept.add(data)
        if self._file is not None:
            self._save(self._file, data)

    def continue_after(self, name: StreamName, before: bytes) -> None:
        """What comes first on a stream follows this, which is not kept."""
        self._streams[name] = kept = Kept(self._most)
        kept.before = before

    def output(self, name: StreamName) -> StreamOutput:
        return self._streams[name].output() if name in self._streams else NO_OUTPUT

    @property
    def truncated(self) -> bool:
        return self.is_incomplete or any(kept.left_out_bytes for kept in self._streams.values())

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def _begin(self) -> None:
        if self.path is None:
            self._file = file = self._files.begin()
            self.path = file.path
            for kept in self._streams.values():  # nothing is left out of them yet
                self._save(file, bytes(kept.output()))

    def _save(self, file: OutputFile, data: bytes) -> None:
        part = data[: self._room]
        self._room -= len(part)
        if part and not file.write(part):
            self._room = 0
            self.cut = True
        self.cut = self.cut or len(part) < len(data)


class Pump:
    """Moves what comes out of a pipe into a capture, from inside the event loop."""

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
        """Take what is in the pipe now; whoever still holds the other end is not waited for."""
        rest = fcntl.fcntl(self._fd, fcntl.F_GETPIPE_SZ) if self._open else 0
        while self._open and rest > 0:
            taken = self._readable()
            if not taken:
                break
            rest -= taken
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
        if len(data) >= USUAL_BYTES and not self._wide:
            self._wide = True
            widen(self._fd)
        self._capture.add(self._name, data)
        if self._on_output is not None:
            try:
                self._on_output(self._name, data)
            except Exception as error:  # noqa: BLE001 (raised by the caller of the command, who gave it)
                self.error, self._on_output = error, None
        return len(data)


async def run_to_end(
    process: Command, capture: Capture, *, timeout_s: float, on_output: OnOutput | None
) -> tuple[Exit, bool]:
    """How it ended, and whether that was at its timeout. What it leaves behind may hold its output open,
    and is not waited for; a caller who is cancelled takes it along with all it started."""
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
