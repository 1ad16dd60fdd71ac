"""A terminal in a jail that several people watch, and that nobody can flood.

What its program prints goes into a ring, every byte with a number, so a viewer
who comes late or comes back says where to go on. A viewer tells what it has
shown; while one is too far behind, the terminal is not read, the kernel's
buffer fills, and the program waits.
"""

import asyncio
import errno
import os
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager

from hutch.domain.errors import BadRequest, Conflict, Unavailable
from hutch.jail.interface import Exit, Jail, Process, Size
from hutch.jail.policy import Limits
from hutch.jail.pty import set_size

RING_BYTES = 1024 * 1024
PAUSE_BYTES = 100_000  # not acknowledged by some reader: the program has to wait
RESUME_BYTES = 50_000  # early enough that the program goes on before the reader has nothing left to show
BATCH_S = 0.005
BATCH_BYTES = 64 * 1024  # as much is read, and handed on, at once
AT_ONCE_BYTES = 4095  # that the kernel hands out, when it has them
ENOUGH_BYTES = 16 * 1024  # handed on without waiting for more: whoever sends it works while more is printed
UNWATCHED_S = 0.02  # between two batches that nobody sees: a flood shall not keep the host busy
LAST_BYTES = 256 * 1024  # still read after the program's end; somebody might go on printing for ever
CLOSE_S = 1.0
SHELL = ("/bin/bash",)
ENDED = "The terminal's program has ended. Open a new terminal."


class Ring:
    """The last bytes of an endless stream, each known by its number in it.

    Keeps `size_bytes`; what is older is gone. Memory is used only as far as it was written to."""

    def __init__(self, size_bytes: int = RING_BYTES) -> None:
        self._memory = memoryview(bytearray(size_bytes))
        self.end = 0  # the number that the next byte will have

    @property
    def start(self) -> int:
        """The number of the oldest byte still here."""
        return max(0, self.end - len(self._memory))

    def fill(self, fd: int, most: int) -> int:
        """Read from a descriptor, straight into place, and return how many bytes came."""
        at = self.end % len(self._memory)
        count = os.readv(fd, [self._memory[at : at + most]])
        self.end += count
        return count

    def read(self, seq: int, until: int) -> bytes:
        """Bytes from `seq` on and before `until`: at least one if there are any, not always all."""
        at = seq % len(self._memory)
        return bytes(self._memory[at : at + max(0, until - seq)])


class TerminalReader:
    """One viewer: an iterator of (seq, bytes), seq being the number of the first byte."""

    def __init__(self, terminal: "Terminal", seq: int, missed_bytes: int) -> None:
        self.seq = seq  # of the next byte it gets
        self.acknowledged = seq  # everything before this was shown
        self.missed_bytes = missed_bytes  # asked for, but gone from the ring: `seq` is the first there is
        self.attached = True
        self._terminal = terminal
        self._news = asyncio.Event()
        self._held_up_at: float | None = None

    def __aiter__(self) -> "TerminalReader":
        return self

    async def __anext__(self) -> tuple[int, bytes]:
        while self.attached:
            if data := self._terminal.read(self.seq):
                seq, self.seq = self.seq, self.seq + len(data)
                return seq, data
            if self._terminal.ended:
                break
            self._news.clear()
            await self._news.wait()
        raise StopAsyncIteration

    def acknowledge(self, count: int) -> None:
        """Say that so many more bytes were shown; every RESUME_BYTES at the latest, or the program waits."""
        if not 0 <= count <= self.seq - self.acknowledged:
            waiting = self.seq - self.acknowledged
            raise BadRequest(f"{count} bytes cannot be acknowledged: {waiting} were sent and are not yet.")
        self.acknowledged += count
        self._terminal.regulate()

    @property
    def holds_up(self) -> bool:
        """Whether the program has to wait for this reader."""
        return self._held_up_at is not None

    @property
    def held_up_s(self) -> float:
        """For how long it has been waiting."""
        return 0.0 if self._held_up_at is None else time.monotonic() - self._held_up_at

    def detach(self) -> int:
        """Watch no longer, whether caught up or not. Returns the number to resume from."""
        self.attached = False
        self._terminal.forget(self)
        self.wake()
        return self.acknowledged

    def wake(self) -> None:
        self._news.set()

    def allowance(self, end: int) -> int:
        """How many more bytes may be read from the terminal as far as this reader is concerned."""
        behind = end - self.acknowledged
        if behind >= PAUSE_BYTES:
            self._held_up_at = self._held_up_at or time.monotonic()
        elif behind <= RESUME_BYTES:
            self._held_up_at = None
        return 0 if self.holds_up else PAUSE_BYTES - behind


class Terminal:
    """A program on a terminal of its own. Close it, or open it with `open_terminal`."""

    def __init__(self, process: Process) -> None:
        assert process.terminal is not None and process.stdin is not None
        self.ended = False  # nothing more will be printed
        self._process = process
        self._input = process.stdin
        self._fd = process.terminal
        self._ring = Ring()
        self._readers: dict[TerminalReader, None] = {}  # in the order they came
        self._loop = asyncio.get_running_loop()
        self._listening = False
        self._hung_up = False
        self._last_seq: int | None = None  # set when the program has ended
        self._published = 0  # readers get what is before this
        self._published_at = 0.0
        self._publishing: asyncio.TimerHandle | None = None
        self._resting: asyncio.TimerHandle | None = None
        self._writing = asyncio.Lock()
        self._closed = False
        self._exit = self._loop.create_task(process.wait())
        self._exit.add_done_callback(lambda _: self._program_ended())
        self.regulate()

    @property
    def seq(self) -> int:
        """How many bytes were printed so far, which is the number of the next one."""
        return self._ring.end

    @property
    def first_seq(self) -> int:
        """The oldest byte that can still be had."""
        return self._ring.start

    @property
    def paused(self) -> bool:
        """Whether the program has to wait for a reader."""
        return any(reader.holds_up for reader in self._readers)

    def attach(self, resume: int | None = None) -> TerminalReader:
        """Watch from a byte on; without one, from the oldest that is left."""
        first = self._ring.start
        wanted = first if resume is None else resume
        if not 0 <= wanted <= self.seq:
            raise BadRequest(f"The terminal has printed {self.seq} bytes; there is no byte {wanted} yet.")
        reader = TerminalReader(self, max(wanted, first), max(0, first - wanted))
        self._readers[reader] = None
        self.regulate()
        return reader

    async def write(self, data: bytes) -> None:
        """Type. Returns when the terminal has taken all of it."""
        async with self._writing:
            try:
                await self._input.write(data)
            except OSError:
                raise Conflict(ENDED) from None

    def write_some(self, data: bytes) -> int:
        """Type as much as is taken at once, which may be nothing."""
        if self._writing.locked():
            return 0
        try:
            return self._input.write_some(data)
        except OSError:
            raise Conflict(ENDED) from None

    def resize(self, size: Size) -> None:
        if not (0 < size.rows <= 0xFFFF and 0 < size.columns <= 0xFFFF):
            raise BadRequest(f"{size.columns}x{size.rows} is no terminal's size.")
        if not self._closed:
            set_size(self._fd, size)

    @property
    def fd(self) -> int:
        """The master's descriptor, to ask about its modes."""
        return self._fd

    @property
    def has_jobs(self) -> bool:
        """True while something runs that is not in the foreground."""
        return self._process.has_jobs

    async def signal(self, number: int) -> None:
        """To the program's process group."""
        await self._process.signal(number)

    async def wait(self) -> Exit:
        """How the program ended; what it printed last may still be on its way to readers."""
        return await asyncio.shield(self._exit)

    async def close(self) -> None:
        """Kill the program and all it started. What was printed stays to be read by who is attached."""
        if self._closed:
            return
        self._closed = True
        self._end()
        try:
            await self._process.kill()
            await asyncio.wait({self._exit}, timeout=CLOSE_S)
        finally:
            self._process.close()
            self._exit.cancel()

    # --- for readers ---

    def read(self, seq: int) -> bytes:
        return self._ring.read(seq, min(self._published, seq + BATCH_BYTES))

    def forget(self, reader: TerminalReader) -> None:
        self._readers.pop(reader, None)
        self.regulate()

    def regulate(self) -> None:
        """Read the terminal if everybody can take more, and only then."""
        wanted = not self.ended and self._resting is None and self._allowance() > 0
        if wanted and not self._listening:
            self._loop.add_reader(self._fd, self._readable)
        elif self._listening and not wanted:
            self._loop.remove_reader(self._fd)
        self._listening = wanted

    # --- from the terminal to the ring ---

    def _allowance(self) -> int:
        return min((reader.allowance(self.seq) for reader in self._readers), default=BATCH_BYTES)

    def _readable(self) -> None:
        left = min(BATCH_BYTES, self._allowance())
        try:
            while left > 0:
                count = self._ring.fill(self._fd, left)
                left -= count
                if not count or (self._last_seq is not None and self.seq >= self._last_seq):
                    self._end()
                    return
                if count < AT_ONCE_BYTES and self._last_seq is None:
                    break  # that was all there is
        except BlockingIOError:
            if self._last_seq is not None:
                self._end()
                return
        except OSError as error:
            if error.errno != errno.EIO:  # how a terminal says that its last program is gone
                raise
            if self._hung_up:
                self._end()
                return
            self._hung_up = True  # its last words may be there only now: see `PipeReader.read`
        if not left and not self._readers:
            self._resting = self._loop.call_later(UNWATCHED_S, self._rested)
        self.regulate()
        if self._listening:
            self._publish_soon()
        else:
            self._publish()  # no more will come to fill the batch

    def _rested(self) -> None:
        self._resting = None
        self.regulate()

    def _program_ended(self) -> None:
        if not self._exit.cancelled():
            self._exit.exception()  # seen: nobody may be waiting
        self._last_seq = self.seq + LAST_BYTES
        if self._listening:
            self._readable()

    def _end(self) -> None:
        self.ended = True
        self.regulate()
        self._publish()

    # --- from the ring to readers ---

    def _publish_soon(self) -> None:
        """At once after a quiet moment, so that a key's echo does not wait; in a flood, batch by batch."""
        if self.seq - self._published >= ENOUGH_BYTES or self._loop.time() - self._published_at >= BATCH_S:
            self._publish()
        elif self._publishing is None and self.seq > self._published:
            self._publishing = self._loop.call_at(self._published_at + BATCH_S, self._publish)

    def _publish(self) -> None:
        if self._publishing is not None:
            self._publishing.cancel()
            self._publishing = None
        self._published, self._published_at = self.seq, self._loop.time()
        for reader in reversed(self._readers):  # people before the log, which came first
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
) -> AsyncIterator[Terminal]:
    """A program on a terminal; it and all it started are gone when the block is left."""
    terminal = await start_terminal(jail, argv, size=size, env=env, cwd=cwd, limits=limits)
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
) -> Terminal:
    """As `open_terminal`, for callers who close it themselves."""
    try:
        return Terminal(await jail.spawn(argv, env=env, cwd=cwd, limits=limits, terminal=size or Size()))
    except OSError as error:  # there are so many terminals on a machine, for all jails together
        raise Unavailable(
            f"No terminal can be opened: {error.strerror}. Close some, or raise kernel.pty.max."
        ) from error
