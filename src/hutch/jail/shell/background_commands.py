"""Commands that took longer than their caller waits, under an id, until they end or the
jail does.

Each keeps the shell process in which it was started. Its output is buffered up to a
maximum, and read from where the last reader stopped or from any offset. So is the output
of processes that a command left running when it ended.
"""

import asyncio
import contextlib
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import replace

from hutch.domain.errors import BadRequest, HutchError, NotFound
from hutch.jail.command_process import Command
from hutch.jail.interface import StreamName
from hutch.jail.output_buffer import CONTEXT_BYTES, NO_OUTPUT, StreamOutput
from hutch.jail.pipe_reader_and_writer import PipeWriter
from hutch.jail.shell.command_results_and_events import Ended, Result
from hutch.jail.shell.process_directory_and_descriptors import displayed_path
from hutch.jail.shell.requested_signals_to_leftovers import LeftProcesses
from hutch.jail.shell.running_command import Job
from hutch.jail.shell.shell_pipes import ShellOutput
from hutch.system.lazy_dataclass import dataclass

MAX_ENDED = 100  # that can still be queried
MAX_WHOLE = 4  # the last of them, with all their output
SHRUNK_BYTES = 16 * 1024  # output of the others, head and tail
PRECEDING_BYTES = CONTEXT_BYTES  # preceding output, for redaction


@dataclass(frozen=True, slots=True)
class OutputRange:
    """Output from one offset to another, both streams in order of arrival."""

    data: bytes
    start: int  # after the requested offset, if that is no longer buffered
    end: int  # the offset to continue from
    running: bool
    requested: int = 0  # the requested offset
    before: bytes = b""  # output just before `start`: never displayed, but needed for redaction


@dataclass(frozen=True, slots=True)
class CommandSummary:
    """One line of the list of background commands."""

    id: str
    shell: str
    command: str
    cwd: str
    running: bool
    exit_code: int | None
    duration_s: float


class BackgroundCommand:
    """A command that runs in the background, or one that has ended with a `result` and left processes that
    may print."""

    def __init__(
        self, id_: str, job: Job, *, shell: str, max_bytes: int, result: Result | None = None
    ) -> None:
        self.id = id_
        self.shell = shell
        self.left: ShellOutput | None = None  # the pipes of processes that it left running when it ended
        self.left_processes: LeftProcesses | None = None  # these processes
        self._job: Job | None = None if result else job  # None after it has ended
        self._command, self._cwd = job.command, displayed_path(job.cwd)
        self._max_bytes = max_bytes
        self._result: Result | None = result
        self._started_at = time.monotonic()
        first = result or job.finish(None)
        # The offset of the first byte that can be read, and the bytes from shortly before it on.
        self._start, self._buffer = _initial_buffer(first.stdout_output, first.stderr_output)
        self._first = replace(
            first,
            id=id_,
            note=f"Still running, now in the background as {id_}. The shell is free again: same directory "
            "and exported variables; other variables and functions stayed with the command.",
        )
        # The next offset to read: the first result contains everything before.
        self._next_offset = first.stdout_output.total_bytes + first.stderr_output.total_bytes
        self._ended = asyncio.Event()
        if result:
            self._ended.set()
        self._forward_to, job.on_output = job.on_output, self._on_output

    @property
    def running(self) -> bool:
        return self._result is None

    @property
    def commands(self) -> list[Command]:
        """Its shell process as a command of the jail, until it has ended."""
        return [self._job.process.command] if self._job is not None else []

    def result(self) -> Result:
        """The final result, or the one from when it went to the background."""
        return self._result or self._first

    def read(self, offset: int | None = None) -> OutputRange:
        """Output since the last read without an offset, or since the offset."""
        begin = self._start - min(self._start, PRECEDING_BYTES)  # of the buffered output
        end = begin + len(self._buffer)
        requested = min(self._next_offset if offset is None else offset, end)
        start = max(requested, self._start)
        if offset is None:
            self._next_offset = end
        index = start - begin
        before = bytes(self._buffer[max(0, index - PRECEDING_BYTES) : index])
        return OutputRange(bytes(self._buffer[index:]), start, end, self.running, requested, before)

    async def wait(self, timeout_s: float | None = None) -> Result:
        """Wait for the result; one with `running` if the command has not ended in that time."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self._ended.wait()
        return self.result()

    async def write(self, data: bytes) -> None:
        """Write to its standard input."""
        await self._writer().write(data)

    def close_stdin(self) -> None:
        self._writer().close()

    async def signal(self, number: int) -> bool:
        """Send a signal to the command, or to the processes that it left running; False if none is left."""
        was_running = self.running
        if self.left_processes is not None:
            return await self.left_processes.signal(number)
        if number == 9:
            await self.kill()
        elif self._job is not None:
            await self._job.signal(number)
        return was_running

    async def kill(self) -> None:
        """Kill the command with all it started."""
        if self._job is not None:
            with contextlib.suppress(HutchError):
                await self._job.stop()
            await self._ended.wait()

    def summary(self) -> CommandSummary:
        result = self.result()
        duration_s = self._first.duration_s + time.monotonic() - self._started_at
        return CommandSummary(
            self.id,
            self.shell,
            self._command,
            self._cwd,
            self.running,
            result.exit_code,
            duration_s if self.running else result.duration_s,
        )

    async def follow(self) -> Result:
        """Wait for the end or the timeout; then release its shell process."""
        job = self._job
        assert job is not None
        ended: Ended | None = None
        while ended is None:
            ended = await job.wait(None)
        process = job.process
        result = replace(job.finish(ended), id=self.id, restarted=False, note="")
        process.output.sink = job.late_sink
        process.output.resume()
        if process.has_new_jobs():
            self.left = process.output
            self.left_processes = LeftProcesses(process, process.left_jobs)
        job.end_output(self.id if self.left is not None else None)
        process.retire()
        self._result = result
        self._first = replace(self._first, stdout_output=NO_OUTPUT, stderr_output=NO_OUTPUT)
        self._job = None
        self._ended.set()
        return result

    def shrink(self) -> None:
        """Retain only head and tail of the output, when later commands have ended too."""
        if self._result is not None:
            stdout = self._result.stdout_output.shortened(SHRUNK_BYTES)
            stderr = self._result.stderr_output.shortened(SHRUNK_BYTES)
            cut = self._result.truncated or bool(stdout.omitted_bytes or stderr.omitted_bytes)
            self._result = replace(self._result, stdout_output=stdout, stderr_output=stderr, truncated=cut)
            self._max_bytes = SHRUNK_BYTES
            self._take("stdout", b"")

    def _on_output(self, name: StreamName, data: bytes) -> None:
        self._take(name, data)
        if self._forward_to is not None:
            self._forward_to(name, data)

    def _take(self, name: StreamName, data: bytes) -> None:
        end = self._start - min(self._start, PRECEDING_BYTES) + len(self._buffer) + len(data)
        self._buffer += data
        self._start = max(self._start, end - self._max_bytes)
        del self._buffer[: len(self._buffer) - (end - self._start) - min(self._start, PRECEDING_BYTES)]

    def _writer(self) -> PipeWriter:
        holder = self._job.stdin if self._job is not None else None
        if holder is None or holder.stdin is None:
            raise BadRequest(f"{self.id} has no standard input to write to. Start it with stdin=PIPE.")
        return holder.stdin


class Background:
    """All background commands of a jail."""

    def __init__(self, *, max_bytes: int, on_end: Callable[[str, Result], None] | None = None) -> None:
        self.on_end = on_end  # called with the id and the result of each that ends
        self._max_bytes = max_bytes
        self._commands: dict[str, BackgroundCommand] = {}
        self._following: set[asyncio.Task[None]] = set()
        self._whole: deque[BackgroundCommand] = deque()  # the last that ended
        self._number = 0

    def add(self, job: Job, *, shell: str, on_end: Callable[[Result], None]) -> BackgroundCommand:
        command = self._add(job, shell, None)
        task = asyncio.get_running_loop().create_task(self._follow(command, on_end))
        self._following.add(task)
        task.add_done_callback(self._following.discard)
        return command

    def add_ended(self, job: Job, result: Result, *, shell: str) -> BackgroundCommand:
        """Add a command that has ended, and whose processes may still print."""
        command = self._add(job, shell, result)
        command.left_processes = LeftProcesses(job.process, job.process.left_jobs)
        self._shrink_older(command)
        return command

    def _add(self, job: Job, shell: str, result: Result | None) -> BackgroundCommand:
        self._number += 1
        id_ = f"bg_{self._number}"
        command = BackgroundCommand(id_, job, shell=shell, max_bytes=self._max_bytes, result=result)
        self._commands[id_] = command
        self._forget()
        return command

    def list(self) -> "list[CommandSummary]":
        return [command.summary() for command in self._commands.values()]

    def __iter__(self) -> Iterator[BackgroundCommand]:
        return iter(tuple(self._commands.values()))

    def __len__(self) -> int:
        return len(self._commands)

    def get(self, id_: str) -> BackgroundCommand:
        try:
            return self._commands[id_]
        except KeyError:
            known = ", ".join(self._commands) or "none"
            raise NotFound(f"There is no background command '{id_}'. Known: {known}.") from None

    async def close(self) -> None:
        """Wait until listeners were notified about the end of all commands, which ended with the jail."""
        if self._following:
            await asyncio.wait(self._following, timeout=5)
        for task in self._following:
            task.cancel()

    async def _follow(self, command: BackgroundCommand, on_end: Callable[[Result], None]) -> None:
        result = await command.follow()
        self._shrink_older(command)
        on_end(result)
        if self.on_end is not None:
            self.on_end(command.id, result)

    def _shrink_older(self, ended: BackgroundCommand) -> None:
        self._whole.append(ended)
        if len(self._whole) > MAX_WHOLE:
            self._whole.popleft().shrink()

    def _forget(self) -> None:
        ended = [id_ for id_, command in self._commands.items() if not command.running]
        for id_ in ended[:-MAX_ENDED]:
            del self._commands[id_]


def _initial_buffer(stdout: StreamOutput, stderr: StreamOutput) -> tuple[int, bytearray]:
    """The start offset of a command's readable output so far, and the bytes from PRECEDING_BYTES before it
    on. It starts after the last gap: next to one there may be half of a secret."""
    if stderr.omitted_bytes:
        before, readable = stderr.before_tail, stderr.tail
    elif stdout.omitted_bytes:
        before, readable = stdout.before_tail, stdout.tail + stderr.head
    else:
        return 0, bytearray(stdout.head + stderr.head)
    start = stdout.total_bytes + stderr.total_bytes - len(readable)
    return start, bytearray(before[-PRECEDING_BYTES:].rjust(min(start, PRECEDING_BYTES), b"\n") + readable)
