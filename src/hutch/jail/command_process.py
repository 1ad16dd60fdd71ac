"""A command in a jail, as the host sees it.

Its reaper reports on a pipe that belongs to this command alone: started, ended or
failed, and end of file when nothing of its process tree remains. No other process
inside can write there, but its messages are still checked as hostile input.
"""

import asyncio
import contextlib
import errno
import os
import re
import secrets
import socket
from collections.abc import Callable, Mapping, Sequence

from hutch.domain.errors import BadRequest, Denied, HutchError, LimitReached, NotFound, Unavailable
from hutch.jail.interface import SOCKET, Exit, Pipe, Size
from hutch.jail.launch.warden_control import Control
from hutch.jail.leftover_job_detection import NO_JOBS, FoundJobs, Jobs, find_jobs
from hutch.jail.pipe_reader_and_writer import PipeReader, PipeWriter
from hutch.jail.pty_opening import set_size

STATUS_LINE = re.compile(
    rb"taken (?P<reaper>\d{1,10})|started (?P<pid>\d{1,10})"
    rb"|ended (?P<code>-?\d{1,3}) (?P<cpu_us>\d{1,18}) (?P<peak_kib>\d{1,15})"
    rb"|failed (?P<step>[a-z]{1,8}) (?P<errno>\d{1,5})"
)
STATUS_BYTES = 1024  # all messages of a reaper fit in this
SIGKILL = 9
KILL_TIMEOUT_S = 60.0  # a killed process needs the processor to die, as may hundreds of others
MAX_ATTEMPTS = 5
STUCK_INTERVAL_S = 1.0  # after which the reapers must have been stopped


class Command:
    """A spawned command; see `interface.Process`."""

    def __init__(self, control: Control, proc: Callable[[], int], argv: Sequence[str], cwd: str) -> None:
        self.stdin: PipeWriter | None = None
        self.stdout: PipeReader | None = None
        self.stderr: PipeReader | None = None
        self.terminal: int | None = None
        self.pid: int | None = None  # inside the jail
        self.reaper = 0  # pid inside; known when the reaper has taken the command
        self.on_taken: Callable[[int], None] | None = None  # called then
        self._gate = -1  # the reaper waits for a byte before it starts the command
        self._control = control
        self._proc = proc  # a descriptor of the jail's /proc
        self._name, self._cwd = argv[0], cwd
        self._nonce = secrets.token_hex(16).encode()
        self._loop = asyncio.get_running_loop()
        self._status = -1
        self._status_buffer = b""
        self._request: tuple[bytes, ...] = ()  # until a reaper has taken it
        self._command_ends: list[int] = []
        self._attempts = 0
        self._exit: Exit | None = None
        self._error: HutchError | None = None
        self._started: asyncio.Future[None] = self._loop.create_future()
        self._ended: asyncio.Future[None] = self._loop.create_future()
        self._gone: asyncio.Future[None] = self._loop.create_future()
        self._feeding: asyncio.Task[None] | None = None
        self._watchdog: asyncio.TimerHandle | None = None
        self._waking: asyncio.Task[None] | None = None

    async def start(
        self,
        argv: Sequence[str],
        *,
        stdin: bytes | Pipe | None,
        env: Mapping[str, str],
        rlimits: str,
        pty: tuple[int, str] | None,
        descriptor_3: bytes | None,
        uid: int | None,
        waits: bool = False,
    ) -> None:
        """Open the pipes and request a reaper. `uid` is the user that must own the pipes, if not ours. If it
        `waits`, the command starts after `on_taken` has returned."""
        try:
            kinds, terminal = self._open(stdin, pty, uid)
            if waits:
                end, self._gate = os.pipe2(os.O_CLOEXEC)
                kinds += b"g"
                self._command_ends.append(end)
            if pty is not None and descriptor_3 is not None:
                kinds += b"3"
                self._command_ends.append(_filled_socket(descriptor_3))
            self._request = (
                self._nonce,
                rlimits.encode(),
                kinds,
                terminal,
                os.fsencode(self._cwd),
                b"%d" % len(argv),
                *map(os.fsencode, argv),
                *(os.fsencode(f"{name}={value}") for name, value in env.items()),
            )
            await self._submit()
        except BaseException:
            self.close()
            self._finish()
            raise
        self._watchdog = self._loop.call_later(STUCK_INTERVAL_S, self._unstick)
        if self.stdin is not None and isinstance(stdin, bytes):
            self._feed(self.stdin, stdin)

    def _open(
        self, stdin: bytes | Pipe | None, pty: tuple[int, str] | None, uid: int | None
    ) -> tuple[bytes, bytes]:
        """Make the pipes. Returns the kinds of pipes the command gets, and the terminal if it gets one
        instead."""
        if pty is not None:
            self.terminal, name = pty
            self.stdout = PipeReader(self.terminal)
            self.stdin = PipeWriter(os.dup(self.terminal))
            return b"", name.encode()
        if stdin is not None:
            end, ours = _socket() if stdin is SOCKET else _pipe(uid)
            self._command_ends.append(end)
            self.stdin = PipeWriter(ours)
        ours, end = _pipe(uid)
        self._command_ends.append(end)
        self.stdout = PipeReader(ours)
        ours, end = _pipe(uid)
        self._command_ends.append(end)
        self.stderr = PipeReader(ours)
        return b"oe" if stdin is None else b"ioe", b""

    async def _submit(self) -> None:
        """Send the command to where the next free reaper takes it."""
        self._status, end = os.pipe2(os.O_CLOEXEC)
        os.set_blocking(self._status, False)
        self._loop.add_reader(self._status, self._status_readable)
        try:
            await self._control.send_command(*self._request, fds=[end, *self._command_ends])
        finally:
            os.close(end)

    async def _resubmit(self) -> None:
        try:
            await self._submit()
        except HutchError:  # the jail has ended
            self._finish()

    async def wait(self) -> Exit:
        if self._exit is None and self._error is None:
            await asyncio.shield(self._ended)
        if self._error is not None:
            raise self._error
        assert self._exit is not None
        return self._exit

    async def wait_started(self) -> int:
        """Wait for the command's pid inside the jail; 0 when it never started."""
        if not self._started.done():
            await asyncio.shield(self._started)
        return self.pid or 0

    async def signal(self, number: int) -> None:
        await self.wait_started()
        if self.pid is not None and self._exit is None:
            await self._control.send(b"signal", b"%d" % self.pid, b"%d" % number)

    async def request_kill(self) -> None:
        """Request that it be killed, even if it has not started yet."""
        await self._control.send(b"kill", self._nonce)

    async def kill(self) -> None:
        if self._gone.done():
            return
        try:
            async with asyncio.timeout(KILL_TIMEOUT_S):
                await self.request_kill()
                if self._request:
                    self._status_readable()
                if self._request:  # no reaper has taken it: withdraw it, and none will
                    self._finish()
                while not (await asyncio.wait([self._gone], timeout=STUCK_INTERVAL_S))[0]:
                    # Some have not died yet, or their reaper is blocked, which is then killed too.
                    await self._control.send(b"end", self._nonce)
        except TimeoutError:
            raise Unavailable(
                f"'{self._name}' still runs {KILL_TIMEOUT_S:g} s after SIGKILL. Close the jail."
            ) from None

    @property
    def has_started(self) -> bool:
        return self._started.done()

    @property
    def is_gone(self) -> bool:
        """True if neither the command nor any process it started remains."""
        return self._gone.done()

    @property
    def proc(self) -> int:
        """A descriptor of the jail's /proc."""
        return self._proc()

    @property
    def has_jobs(self) -> bool:
        return self.find_jobs().any_new

    def find_jobs(self, known: Jobs = NO_JOBS) -> FoundJobs:
        """The processes that it started and that are alive, apart from a terminal's foreground."""
        if self.is_gone or self.pid is None:
            return FoundJobs()
        if not self.reaper:
            return FoundJobs(is_complete=False)
        return find_jobs(self._proc(), self.reaper, self.pid, known)

    @property
    def is_active(self) -> bool:
        """False when it has ended and left nothing running."""
        return not self._ended.done() or self.has_jobs

    async def wait_gone(self) -> None:
        """Wait until none of its processes remains."""
        await asyncio.shield(self._gone)

    def on_gone(self, callback: Callable[[], None]) -> None:
        self._gone.add_done_callback(lambda _: callback())

    def resize(self, size: Size) -> None:
        if self.terminal is not None and self.stdout is not None and self.stdout.fd >= 0:
            set_size(self.terminal, size)

    def close(self) -> None:
        if self._feeding is not None:
            self._feeding.cancel()
        for stream in (self.stdin, self.stdout, self.stderr):
            if stream is not None:
                stream.close()

    def _feed(self, writer: PipeWriter, data: bytes) -> None:
        try:
            written = writer.write_some(data)
        except BrokenPipeError:
            written = len(data)
        if written == len(data):
            writer.close()
        else:
            self._feeding = self._loop.create_task(_write_all(writer, data[written:]))

    def _unstick(self) -> None:
        if not self._started.done():
            self._waking = self._loop.create_task(self._wake_reapers())

    async def _wake_reapers(self) -> None:
        with contextlib.suppress(Unavailable):  # then the pipes end, and waiters are woken
            await self._control.send(b"resume")
            self._watchdog = self._loop.call_later(STUCK_INTERVAL_S, self._unstick)

    def _status_readable(self) -> None:
        try:
            data = os.read(self._status, STATUS_BYTES)
        except BlockingIOError:
            return
        if not data:
            self._close_status()
            if self._request and self._attempts < MAX_ATTEMPTS:
                # The reaper was killed before it read the command, so nothing has run yet.
                self._attempts += 1
                self._waking = self._loop.create_task(self._resubmit())
            else:
                self._finish()
            return
        *lines, self._status_buffer = (self._status_buffer + data)[:STATUS_BYTES].split(b"\n")
        for line in lines:
            self._process_line(line)

    def _process_line(self, line: bytes) -> None:
        fields = STATUS_LINE.fullmatch(line)
        if fields is None or self._exit is not None or self._error is not None:
            return
        self._release_request()
        if fields["reaper"]:
            is_first, self.reaper = not self.reaper, int(fields["reaper"])
            if is_first and self.on_taken is not None:
                self.on_taken(self.reaper)
            if is_first and self._gate >= 0:
                with contextlib.suppress(BrokenPipeError):  # the reaper has ended
                    os.write(self._gate, b"1")
        elif fields["pid"] and int(fields["pid"]) > 1:
            self.pid = int(fields["pid"])
            self._mark_started()
        elif fields["step"]:
            self._error = self._explain(fields["step"].decode(), int(fields["errno"]))
            self._mark_started()
            _resolve(self._ended)
        elif fields["code"]:
            code, cpu_s, peak = (
                int(fields["code"]),
                int(fields["cpu_us"]) / 1e6,
                int(fields["peak_kib"]) * 1024,
            )
            self._exit = Exit(code, None, cpu_s, peak) if code >= 0 else Exit(None, -code, cpu_s, peak)
            _resolve(self._ended)

    def _close_status(self) -> None:
        if self._status >= 0:
            self._loop.remove_reader(self._status)
            os.close(self._status)
            self._status = -1

    def _release_request(self) -> None:
        """Close our copies of the pipe ends that the command has now."""
        self._request = ()
        while self._command_ends:
            os.close(self._command_ends.pop())

    def _mark_started(self) -> None:
        _resolve(self._started)
        if self._watchdog is not None:
            self._watchdog.cancel()

    def _finish(self) -> None:
        """Mark everything as ended, after the status pipe has ended: no process of the command remains."""
        self._close_status()
        if self._gate >= 0:
            os.close(self._gate)
            self._gate = -1
        self._release_request()
        if self._exit is None and self._error is None:
            self._exit = Exit(None, SIGKILL)  # its reaper was killed, and the command with it
        self._mark_started()
        _resolve(self._ended)
        _resolve(self._gone)

    def _explain(self, step: str, number: int) -> HutchError:
        reason = os.strerror(number)
        if step == "exec" and number == errno.ENOENT:
            return NotFound(
                f"There is no program '{self._name}' in the jail, or its interpreter is missing. "
                "Give a path, or install it."
            )
        if step == "exec" and number == errno.EACCES:
            return Denied(f"'{self._name}' is not executable, or is a directory. Try chmod +x.")
        if step == "cwd":
            return NotFound(f"Cannot start in '{self._cwd}': {reason}. Give a directory in the jail.")
        if step == "exec" and number == errno.EAGAIN:
            return LimitReached(
                f"Cannot start '{self._name}': the jail has reached its process limit. End processes that "
                "earlier commands left, by a signal to their id.",
                limit="processes",
            )
        return BadRequest(f"Cannot start '{self._name}' ({step}): {reason}. See `hutch doctor`.")


def _pipe(uid: int | None) -> tuple[int, int]:
    read, write = os.pipe2(os.O_CLOEXEC)
    if uid is not None:  # so that the command can open /dev/stdout
        os.fchown(write, uid, uid)
    return read, write


def _socket() -> tuple[int, int]:
    theirs, ours = socket.socketpair()
    return theirs.detach(), ours.detach()


def _filled_socket(data: bytes) -> int:
    """A descriptor from which these bytes can be read, and then the end."""
    theirs, ours = socket.socketpair()
    with ours:
        ours.setblocking(False)
        ours.sendall(data)
    return theirs.detach()


def _resolve(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


async def _write_all(writer: PipeWriter, data: bytes) -> None:
    try:
        await writer.write(data)
    except BrokenPipeError:
        pass  # it stopped reading
    finally:
        writer.close()
