"""Commands that outlasted their caller's patience, under an id, until they end or the jail does.

Each keeps the shell process it was started in. Its output is kept as on a tape
of limited length, read from where the last reader stopped or from any place.
"""

import asyncio
import contextlib
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from hutch.domain.errors import BadRequest, HutchError, NotFound
from hutch.jail.interface import StreamName
from hutch.jail.pipes import PipeWriter
from hutch.jail.shell.job import Job
from hutch.jail.shell.pipes import discard
from hutch.jail.shell.process import shown
from hutch.jail.shell.result import Ended, Result
from hutch.jail.stream_output import AROUND_BYTES, NO_OUTPUT, StreamOutput

KEPT_ENDED = 100  # that can still be asked about
KEPT_WHOLE = 4  # of these, the last to end
KEPT_BYTES = 16 * 1024  # of the others' output, head and tail
BEFORE_BYTES = AROUND_BYTES  # of what stood before, for who looks for secrets


@dataclass(frozen=True, slots=True)
class Tape:
    """What was printed from one place to another, both streams as they came."""

    data: bytes
    start: int  # later than was asked for, if that is no longer kept
    end: int  # where to read on
    running: bool
    asked: int = 0  # where the reader wanted to read on
    before: bytes = b""  # the last that was printed before `start`: not to be shown, but to understand it


@dataclass(frozen=True, slots=True)
class Listed:
    """One line of the list."""

    id: str
    shell: str
    command: str
    cwd: str
    running: bool
    exit_code: int | None
    duration_s: float


class BackgroundCommand:
    """A command that goes on by itself."""

    def __init__(self, id_: str, job: Job, *, shell: str, most_bytes: int) -> None:
        self.id = id_
        self.shell = shell
        self._job: Job | None = job  # until it has ended
        self._command, self._cwd = job.command, shown(job.cwd)
        self._most = most_bytes
        self._result: Result | None = None
        self._began = time.monotonic()
        first = job.finish(None)
        # The place on the tape of the first byte that can be read, and the bytes from shortly before it on.
        self._start, self._kept = _tape(first.stdout_output, first.stderr_output)
        self._first = replace(
            first,
            id=id_,
            note=f"Still running, now in the background as {id_}. The shell is free again: same directory "
            "and exported variables; other variables and functions stayed with the command.",
        )
        # Of the one to read next: the first result has told what is before.
        self._read = first.stdout_output.total_bytes + first.stderr_output.total_bytes
        self._ended = asyncio.Event()
        self._also, job.on_output = job.on_output, self._hear

    @property
    def running(self) -> bool:
        return self._result is None

    def result(self) -> Result:
        """The final result, or the one of the moment when it went to the background."""
        return self._result or self._first

    def read(self, offset: int | None = None) -> Tape:
        """What is new since the last read without an offset, or all since the offset."""
        begin = self._start - min(self._start, BEFORE_BYTES)  # of what is kept
        end = begin + len(self._kept)
        asked = min(self._read if offset is None else offset, end)
        start = max(asked, self._start)
        if offset is None:
            self._read = end
        place = start - begin
        before = bytes(self._kept[max(0, place - BEFORE_BYTES) : place])
        return Tape(bytes(self._kept[place:]), start, end, self.running, asked, before)

    async def wait(self, timeout_s: float | None = None) -> Result:
        """The result; one with `running` if it has not ended in that time."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self._ended.wait()
        return self.result()

    async def write(self, data: bytes) -> None:
        """To its standard input."""
        await self._writer().write(data)

    def close_stdin(self) -> None:
        """End of its standard input."""
        self._writer().close()

    async def signal(self, number: int) -> None:
        if number == 9:
            await self.kill()
        elif self._job is not None:
            await self._job.signal(number)

    async def kill(self) -> None:
        """With all it started."""
        if self._job is not None:
            with contextlib.suppress(HutchError):
                await self._job.stop()
            await self._ended.wait()

    def listed(self) -> Listed:
        result = self.result()
        duration_s = self._first.duration_s + time.monotonic() - self._began
        return Listed(
            self.id,
            self.shell,
            self._command,
            self._cwd,
            self.running,
            result.exit_code,
            duration_s if self.running else result.duration_s,
        )

    async def follow(self) -> Result:
        """Wait for its end, its timeout included; then its shell process is not needed any more."""
        job = self._job
        assert job is not None
        ended: Ended | None = None
        while ended is None:
            ended = await job.wait(None)
        process = job.process
        result = replace(job.finish(ended), id=self.id, restarted=False, note="")
        process.output.sink = discard
        process.output.resume()
        process.retire()
        self._result = result
        self._first = replace(self._first, stdout_output=NO_OUTPUT, stderr_output=NO_OUTPUT)
        self._job = None
        self._ended.set()
        return result

    def shrink(self) -> None:
        """Others have ended since; of this one, keep the ends of what it printed."""
        if self._result is not None:
            stdout = self._result.stdout_output.shortened(KEPT_BYTES)
            stderr = self._result.stderr_output.shortened(KEPT_BYTES)
            cut = self._result.truncated or bool(stdout.left_out_bytes or stderr.left_out_bytes)
            self._result = replace(self._result, stdout_output=stdout, stderr_output=stderr, truncated=cut)
            self._most = KEPT_BYTES
            self._take("stdout", b"")

    def _hear(self, name: StreamName, data: bytes) -> None:
        self._take(name, data)
        if self._also is not None:
            self._also(name, data)

    def _take(self, name: StreamName, data: bytes) -> None:
        end = self._start - min(self._start, BEFORE_BYTES) + len(self._kept) + len(data)
        self._kept += data
        self._start = max(self._start, end - self._most)
        del self._kept[: len(self._kept) - (end - self._start) - min(self._start, BEFORE_BYTES)]

    def _writer(self) -> PipeWriter:
        lender = self._job.stdin if self._job is not None else None
        if lender is None or lender.stdin is None:
            raise BadRequest(f"{self.id} has no standard input to write to. Start it with stdin=PIPE.")
        return lender.stdin


class Background:
    """All background commands of a jail."""

    def __init__(self, *, most_bytes: int, on_end: Callable[[str, Result], None] | None = None) -> None:
        self.on_end = on_end  # told the id and the result of each that ends
        self._most = most_bytes
        self._commands: dict[str, BackgroundCommand] = {}
        self._following: set[asyncio.Task[None]] = set()
        self._whole: deque[BackgroundCommand] = deque()  # have ended, the last of all
        self._number = 0

    def add(self, job: Job, *, shell: str, on_end: Callable[[Result], None]) -> BackgroundCommand:
        self._number += 1
        command = BackgroundCommand(f"bg_{self._number}", job, shell=shell, most_bytes=self._most)
        self._commands[command.id] = command
        self._forget()
        task = asyncio.get_running_loop().create_task(self._follow(command, on_end))
        self._following.add(task)
        task.add_done_callback(self._following.discard)
        return command

    def list(self) -> "list[Listed]":
        return [command.listed() for command in self._commands.values()]

    def __iter__(self) -> Iterator[BackgroundCommand]:
        return iter(tuple(self._commands.values()))

    def __len__(self) -> int:
        return len(self._commands)

    def get(self, id_: str) -> BackgroundCommand:
        try:
            return self._commands[id_]
        except KeyError:
            known = ", ".join(self._commands) or "none"
            raise NotFound(f"There is no background command '{id_}'. Known are: {known}.") from None

    async def close(self) -> None:
        """The jail is gone, and they with it; wait until everybody was told."""
        if self._following:
            await asyncio.wait(self._following, timeout=5)
        for task in self._following:
            task.cancel()

    async def _follow(self, command: BackgroundCommand, on_end: Callable[[Result], None]) -> None:
        result = await command.follow()
        self._whole.append(command)
        if len(self._whole) > KEPT_WHOLE:
            self._whole.popleft().shrink()
        on_end(result)
        if self.on_end is not None:
            self.on_end(command.id, result)

    def _forget(self) -> None:
        ended = [id_ for id_, command in self._commands.items() if not command.running]
        for id_ in ended[:-KEPT_ENDED]:
            del self._commands[id_]


def _tape(stdout: StreamOutput, stderr: StreamOutput) -> tuple[int, bytearray]:
    """The output of a command up to now: from where on it can be read, and the bytes from BEFORE_BYTES before
    that on. It begins behind the last gap: next to one there may be half of a secret."""
    if stderr.left_out_bytes:
        before, shown = stderr.before_tail, stderr.tail
    elif stderr.before_head:
        before, shown = stderr.before_head, stderr.head
    elif stdout.left_out_bytes:
        before, shown = stdout.before_tail, stdout.tail + stderr.head
    elif stdout.before_head:
        before, shown = stdout.before_head, stdout.head + stderr.head
    else:
        return 0, bytearray(stdout.head + stderr.head)
    start = stdout.total_bytes + stderr.total_bytes - len(shown)
    return start, bytearray(before[-BEFORE_BYTES:].rjust(min(start, BEFORE_BYTES), b"\n") + shown)
