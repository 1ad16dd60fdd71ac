"""A terminal in a jail that several clients can watch, with back-pressure.

The program's output goes into a ring buffer that numbers every byte, so a client that
attaches late or reconnects says where to resume. A client acknowledges the bytes it has
displayed. While one is too far behind, the terminal is not read, the kernel's buffer
fills, and the program waits.
"""

import asyncio
import errno
import os
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager

from hutch.domain.errors import BadRequest, Conflict, Unavailable
from hutch.jail.command_process import Command
from hutch.jail.interface import Exit, Jail, Process, Size
from hutch.jail.policy import Limits
from hutch.jail.pty_opening import set_size

RING_BYTES = 1024 * 1024
PAUSE_BYTES = 100_000  # not acknowledged by some reader: the program must wait
RESUME_BYTES = 50_000  # early enough that the program resumes before the reader runs out of output
BATCH_S = 0.005
BATCH_BYTES = 64 * 1024  # maximum that is read, and passed on, at once
KERNEL_READ_BYTES = 4095  # that one read returns, when the kernel has them
PUBLISH_BYTES = 16 * 1024  # passed on without waiting for more, so that sending overlaps with printing
UNWATCHED_DELAY_S = 0.02  # between two batches without a reader: a flood must not keep the host busy
MAX_FINAL_BYTES = 256 * 1024  # still read after the program ended; its children may print for ever
CLOSE_TIMEOUT_S = 1.0
SHELL = ("/bin/bash",)
ENDED = "The terminal's program has ended. Open a new terminal."


class Ring:
    """The last `size_bytes` bytes of an endless stream, each identified by its number. Memory is used only
    as far as it was written."""

    def __init__(self, size_bytes: int = RING_BYTES) -> None:
        self._memory = memoryview(bytearray(size_bytes))
        self.end = 0  # the number of the next byte

    @property
    def start(self) -> int:
        """The number of the oldest byte that is still available."""
        return max(0, self.end - len(self._memory))

    def fill(self, fd: int, max_bytes: int) -> int:
        """Read from a descriptor directly into the buffer and return the number of bytes."""
        at = self.end % len(self._memory)
        count = os.readv(fd, [self._memory[at : at + max_bytes]])
        self.end += count
        return count

    def read(self, seq: int, until: int) -> bytes:
        """Bytes from `seq` to before `until`: at least one if there are any, not always all."""
        at = seq % len(self._memory)
        return bytes(self._memory[at : at + max(0, until - seq)])


class TerminalReader:
    """One client: an iterator of (seq, bytes), where seq is the number of the first byte."""

    def __init__(self, terminal: "Terminal", seq: int, missed_bytes: int) -> None:
        self.seq = seq  # of the next byte to return
        self.acknowledged = seq  # every byte before this was displayed
        self.missed_bytes = missed_bytes  # requested, but no longer in the ring: `seq` is the first available
        self.attached = True
        self._terminal = terminal
        self._changed = asyncio.Event()
        self._blocking_since: float | None = None

    def __aiter__(self) -> "TerminalReader":
        return self

    async def __anext__(self) -> tuple[int, bytes]:
        while self.attached:
            if data := self._terminal.read(self.seq):
                seq, self.seq = self.seq, self.seq + len(data)
                return seq, data
            if self._terminal.ended:
                break
            self._changed.clear()
            await self._changed.wait()
        raise StopAsyncIteration

    def acknowledge(self, count: int) -> None:
        """Report that `count` more bytes were displayed, at least every RESUME_BYTES; otherwise the
        program waits."""
        if not 0 <= count <= self.seq - self.acknowledged:
            waiting = self.seq - self.acknowledged
            raise BadRequest(f"{count} bytes cannot be acknowledged: only {waiting} are outstanding.")
        self.acknowledged += count
        self._terminal.regulate()

    @property
    def is_blocking(self) -> bool:
        """True if the program is waiting for this reader."""
        return self._blocking_since is not None

    @property
    def blocking_s(self) -> float:
        """How long the program has been waiting."""
        return 0.0 if self._blocking_since is None else time.monotonic() - self._blocking_since

    def detach(self) -> int:
        """Stop watching, even when behind. Returns the number to resume from."""
        self.attached = False
        self._terminal.forget(self)
        self.wake()
        return self.acknowledged

    def wake(self) -> None:
        self._changed.set()

    def allowance(self, end: int) -> int:
        """How many more bytes may be read from the terminal for this reader."""
        behind = end - self.acknowledged
        if behind >= PAUSE_BYTES:
            self._blocking_since = self._blocking_since or time.monotonic()
        elif behind <= RESUME_BYTES:
            self._blocking_since = None
        return 0 if self.is_blocking else PAUSE_BYTES - behind


class Terminal:
    """A program on a terminal of its own. The creator closes it; `open_terminal` does so itself."""

    def __init__(self, process: Process) -> None:
        assert process.terminal is not None and process.stdin is not None
        self.ended = False  # no more output will come
        self._process = process
        self._input = process.stdin
        self._fd = process.terminal
        self._ring = Ring()
        self._readers: dict[TerminalReader, None] = {}  # in the order in which they attached
        self._loop = asyncio.get_running_loop()
        self._listening = False
        self._hung_up = False
        self._last_seq: int | None = None  # set when the program has ended
        self._published = 0  # readers get the bytes before this
        self._published_at = 0.0
        self._publishing: asyncio.TimerHandle | None = None
        self._read_pause: asyncio.TimerHandle | None = None
        self._writing = asyncio.Lock()
        self._closed = False
        self._exit = self._loop.create_task(process.wait())
        self._exit.add_done_callback(lambda _: self._program_ended())
        self.regulate()

    @property
    def seq(self) -> int:
        """The number of bytes printed so far, which is the number of the next one."""
        return self._ring.end

    @property
    def first_seq(self) -> int:
        """The oldest byte that is still available."""
        return self._ring.start

    @property
    def paused(self) -> bool:
        """True if the program is waiting for a reader."""
        return any(reader.is_blocking for reader in self._readers)

    def attach(self, resume: int | None = None) -> TerminalReader:
        """Watch from byte `resume` on, or from the oldest that is available."""
        first = self._ring.start
        wanted = first if resume is None else resume
        if not 0 <= wanted <= self.seq:
            raise BadRequest(f"The terminal has printed {self.seq} bytes; byte {wanted} does not exist yet.")
        reader = TerminalReader(self, max(wanted, first), max(0, first - wanted))
        self._readers[reader] = None
        self.regulate()
        return reader

    async def write(self, data: bytes) -> None:
        """Type `data`. Returns when the terminal has taken all of it."""
        async with self._writing:
            try:
                await self._input.write(data)
            except OSError:
                raise Conflict(ENDED) from None

    def write_some(self, data: bytes) -> int:
        """Type as much as the terminal takes immediately, which may be nothing."""
        if self._writing.locked():
            return 0
        try:
            return self._input.write_some(data)
        except OSError:
            raise Conflict(ENDED) from None

    def resize(self, size: Size) -> None:
        if not (0 < size.rows <= 0xFFFF and 0 < size.columns <= 0xFFFF):
            raise BadRequest(f"{size.columns}x{size.rows} is not a valid terminal size.")
        if not self._closed:
            set_size(self._fd, size)

    @property
    def fd(self) -> int:
        """The master's descriptor, for querying its modes."""
        return self._fd

    @property
    def commands(self) -> list[Command]:
        """Its program as a command of the jail."""
        return [self._process] if isinstance(self._process, Command) else []

    @property
    def has_jobs(self) -> bool:
        """True while something runs outside the foreground."""
        return self._process.has_jobs

    async def signal(self, number: int) -> None:
        """Send a signal to the program's process group."""
        await self._process.signal(number)

    async def wait(self) -> Exit:
        """Wait for the program to end. Its last output may still be on the way to readers."""
        return await asyncio.shield(self._exit)

    async def close(self) -> None:
        """Kill the program and all it started. Attached readers can still read the output."""
        if self._closed:
            return
        self._closed = True
        self._end()
        try:
            await self._process.kill()
            await asyncio.wait({self._exit}, timeout=CLOSE_TIMEOUT_S)
        finally:
            self._process.close()
            self._exit.cancel()

    # --- for readers ---

    def read(self, seq: int, max_bytes: int = BATCH_BYTES) -> bytes:
        return self._ring.read(seq, min(self._published, seq + max_bytes))

    def forget(self, reader: TerminalReader) -> None:
        self._readers.pop(reader, None)
        self.regulate()

    def regulate(self) -> None:
        """Read the terminal only while every reader can take more."""
        wanted = not self.ended and self._read_pause is None and self._allowance() > 0
        if wanted and not self._listening:
            self._loop.add_reader(self._fd, self._readable)
        elif self._listening and not wanted:
            self._loop.remove_reader(self._fd)
        self._listening = wanted

    # --- from the terminal to the ring ---

    def _allowance(self) -> int:
        return min((reader.allowance(self.seq) for reader in self._readers), default=BATCH_BYTES)

    def _readable(self) -> None:
        remaining = min(BATCH_BYTES, self._allowance())
        try:
            while remaining > 0:
                count = self._ring.fill(self._fd, remaining)
                remaining -= count
                if not count or (self._last_seq is not None and self.seq >= self._last_seq):
                    self._end()
                    return
                if count < KERNEL_READ_BYTES and self._last_seq is None:
                    break  # there is no more for now
        except BlockingIOError:
            if self._last_seq is not None:
                self._end()
                return
        except OSError as error:
            if error.errno != errno.EIO:  # reported when a terminal's last program has ended
                raise
            if self._hung_up:
                self._end()
                return
            self._hung_up = True  # its last output may arrive only now: see `PipeReader.read`
        if not remaining and not self._readers:
            self._read_pause = self._loop.call_later(UNWATCHED_DELAY_S, self._resume_reading)
        self.regulate()
        if self._listening:
            self._publish_soon()
        else:
            self._publish()  # no more will come to fill the batch

    def _resume_reading(self) -> None:
        self._read_pause = None
        self.regulate()

    def _program_ended(self) -> None:
        if not self._exit.cancelled():
            self._exit.exception()  # retrieved, since there may be no waiter
        self._last_seq = self.seq + MAX_FINAL_BYTES
        if self._listening:
            self._readable()

    def _end(self) -> None:
        self.ended = True
        self.regulate()
        self._publish()

    # --- from the ring to readers ---

    def _publish_soon(self) -> None:
        """Publish immediately after a quiet moment, so that the echo of a key does not wait; otherwise in
        batches."""
        if self.seq - self._published >= PUBLISH_BYTES or self._loop.time() - self._published_at >= BATCH_S:
            self._publish()
        elif self._publishing is None and self.seq > self._published:
            self._publishing = self._loop.call_at(self._published_at + BATCH_S, self._publish)

    def _publish(self) -> None:
        if self._publishing is not None:
            self._publishing.cancel()
            self._publishing = None
        self._published, self._published_at = self.seq, self._loop.time()
        for reader in reversed(self._readers):  # people before the log, which attached first
            reader.wake()


@asynccontextmanager
async def open_terminal(
    jail: Jail,
    argv: Sequence[str] = SHELL,
    *,
    size: Size | None = None,
    env: Mapping[str, str] | None = None,
    cwd: str | None = None,
    limits: Limits | None = None,
    descriptor_3: bytes | None = None,
) -> AsyncIterator[Terminal]:
    """Run a program on a terminal. It and all it started are killed when the block is left."""
    terminal = await start_terminal(
        jail, argv, size=size, env=env, cwd=cwd, limits=limits, descriptor_3=descriptor_3
    )
    try:
        yield terminal
    finally:
        await asyncio.shield(asyncio.ensure_future(terminal.close()))


async def start_terminal(
    jail: Jail,
    argv: Sequence[str] = SHELL,
    *,
    size: Size | None = None,
    env: Mapping[str, str] | None = None,
    cwd: str | None = None,
    limits: Limits | None = None,
    descriptor_3: bytes | None = None,
) -> Terminal:
    """Like `open_terminal`, for callers that close it themselves."""
    try:
        process = await jail.spawn(
            argv, env=env, cwd=cwd, limits=limits, terminal=size or Size(), descriptor_3=descriptor_3
        )
        return Terminal(process)
    except OSError as error:  # all jails share the machine's terminals
        raise Unavailable(
            f"Cannot open a terminal: {error.strerror}. Close some, or raise kernel.pty.max."
        ) from error
