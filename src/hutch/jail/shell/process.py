"""One shell process in a jail: the pipes to it, and the command that runs in it.

A command has ended when the shell reports so with the command's own nonce, or when the
shell process has ended. The shell may read on without having reported anything, for
example because a command made `printf` a read-only function. To detect that, a blank
line is sent when nothing else was left to read; when it is gone from the socket without
a report, the shell counts as lost. That does not depend on timing, so a busy machine
loses no shell.

A socket that closes while the process continues means that the command replaced the
shell (`exec`). Then the end of the process is awaited.
"""

import asyncio
import contextlib
import os
import sys
import time
from binascii import b2a_hex
from collections.abc import Coroutine, Mapping
from dataclasses import replace

from hutch.domain.errors import HutchError, Unavailable
from hutch.jail.interface import SOCKET, Exit
from hutch.jail.jailed import Jailed
from hutch.jail.policy import WARDEN_PROGRAM
from hutch.jail.process import Command
from hutch.jail.shell.pipes import CHUNK_BYTES, ShellInput, ShellOutput, Sink
from hutch.jail.shell.protocol import NULL, Chatter, Dialect, Hearing, dialect, without_chatter
from hutch.jail.shell.result import KILLED, LEFT, REPLACED, SIGNALLED, Alarm, Ended, Ending
from hutch.jail.shell.signal_scripts import HUNT, PASS_ON
from hutch.jail.stream_output import StreamOutput

DELETED = " (deleted)"
START_S = 10.0
PROBE_S = 0.25
ROUSE_AT = {2**n for n in range(1, 16)}  # checks at which a stopped shell is woken
TICK_S = 0.01  # start times of processes are rounded down to this
HUNT_S = 8.0
PASS_ON_S = 10.0
ANSWER_S = 2.0
SIGINT = 2


class ShellCwd:
    """The directory of one process, by a descriptor of the process's directory in /proc.

    A shell would answer with a variable that any command can set. The kernel gives the directory itself,
    by its own path, whatever links led there.
    """

    def __init__(self, process: int) -> None:
        self._process = process

    def read(self) -> str | None:
        """The directory; None when the process has ended. A name that is not UTF-8 comes with lone
        surrogates."""
        if self._process < 0:
            return None
        try:
            path = os.readlink("cwd", dir_fd=self._process)
            if path.endswith(DELETED) and os.stat("cwd", dir_fd=self._process).st_nlink == 0:
                return path.removesuffix(DELETED)
        except OSError:
            return None
        return path

    def close(self) -> None:
        if self._process >= 0:
            os.close(self._process)
            self._process = -1


def shown(cwd: str) -> str:
    """The same as text for people and logs."""
    return cwd if cwd.isascii() else cwd.encode(errors="surrogateescape").decode(errors="replace")


class ShellProcess:
    """A running shell. `cwd` is the directory after its last finished command."""

    def __init__(self, jail: Jailed, program: str) -> None:
        self.cwd = jail.workspace
        self.lost = ""
        self._jail = jail
        self._program = program
        self._dialect: Dialect = dialect(program)
        self._loop = asyncio.get_running_loop()
        self._hearing = Hearing(self._dialect.mark)
        self._nonce = b""
        self._alarm = Alarm(self._loop)
        self._done = Ending(self._loop, self._alarm)
        self._began = time.clock_gettime(time.CLOCK_BOOTTIME)
        self._background_pid = self._earlier_pid = 0
        self._is_probed = False  # a blank line was sent after everything else was read
        self._is_stopping = False  # signals may make the shell drop the status query
        self._probe: asyncio.TimerHandle | None = None
        self._looks = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._answers = -1
        self._cwd = ShellCwd(-1)
        self.output: ShellOutput
        self._input: ShellInput
        self._process: Command

    async def start(self, *, cwd: str, exports: bytes, sink: Sink) -> None:
        """Start the shell in a directory, or in the workspace if that was deleted. Output before it is
        ready is discarded."""
        words = [self._program, *self._dialect.arguments]
        try:
            async with asyncio.timeout(START_S):
                self._process = await self._jail.spawn(words, stdin=SOCKET, cwd="/")
        except TimeoutError:
            raise Unavailable("Cannot start a shell: the jail accepts no commands. Clear it.") from None
        try:
            await self._set_up(cwd=cwd, exports=exports)
        except BaseException:
            await asyncio.shield(asyncio.ensure_future(self.kill()))
            raise
        self.output.drain()
        self.output.sink = sink

    async def _set_up(self, *, cwd: str, exports: bytes) -> None:
        process = self._process
        assert process.stdout and process.stderr and process.stdin
        self.output = ShellOutput(process.stdout.fd, process.stderr.fd)
        self._input = ShellInput(process.stdin)
        self._answers = process.stdin.fd  # a socket, on which the shell also replies
        self._loop.add_reader(self._answers, self._answered)
        self._spawn_task(self._await_end())
        process.on_gone(self.close)
        nonce = self._begin()
        fallback = self._jail.workspace
        self._input.say(self._dialect.setup(cwd=cwd, fallback=fallback, exports=exports, nonce=nonce))
        ended = await self._done.until(START_S) or Ended(None, lost=f"no answer in {START_S:g} s")
        if not ended.lost:
            self._cwd = ShellCwd(self._jail.proc(await process.begun()))
            self.cwd = self._cwd.read() or self.cwd
            if process.is_gone:  # then we were closed already
                self._cwd.close()
            return
        raise Unavailable(
            f"'{self._program}' does not work in the jail: {ended.lost}. Use /bin/sh or /bin/bash."
        )

    def call(
        self, command: str, *, env: Mapping[str, str] | None, stdin: str = NULL, status: int = 0
    ) -> Ending:
        """Run a command, which sees `status` as `$?`; one at a time."""
        nonce = self._begin()
        self._input.say(self._dialect.call(command, nonce=nonce, env=env, stdin=stdin, status=status))
        return self._done

    async def interrupt(self, number: int = SIGINT) -> None:
        """Send a signal to the command. Background jobs of a shell ignore SIGINT."""
        if self._done.ended is not None:
            return
        self._is_stopping = True
        if number == SIGINT:
            await self._process.signal(number)
        else:  # interactive shells ignore other signals, so their loops would continue
            await self._run_hunter(PASS_ON, PASS_ON_S, str(number))
        self._ask_again()

    async def stop_command(self) -> Ended:
        """Kill the command's processes. The shell survives if possible, with the jobs of earlier commands."""
        done = self._done
        self._is_stopping = True
        if self._is_replaced and done.ended is None:
            self.lost = self.lost or REPLACED
        if done.ended is None and await self._run_hunter(HUNT, HUNT_S):
            self._ask_again()
            await done.until(ANSWER_S)
        if done.ended is None:
            await self.kill()
        ended = await done.until(None)
        assert ended is not None
        return ended

    async def kill(self) -> None:
        """Kill the shell and everything that was ever started from it."""
        self.lost = self.lost or KILLED
        with contextlib.suppress(HutchError):  # the jail has ended, and the shell with it
            await self._process.kill()
        self._lose(Exit(None, 9))

    def retire(self) -> None:
        """Accept no more commands: the shell ends when it reads on, its background jobs continue."""
        self._stop_hearing()
        self._input.close()

    def chatter(self, command: str) -> Chatter | None:
        """A filter that removes the shell's additions from a command's standard error as it arrives."""
        return Chatter(command) if self._dialect.chatty else None

    def clean(self, stderr: StreamOutput, ended: Ended) -> StreamOutput:
        """A command's standard error without the shell's additions."""
        if not self._dialect.chatty or not stderr:
            return stderr
        jobs_began, left = self._background_pid != self._earlier_pid or bool(ended.lost), bool(ended.lost)

        def clean(part: bytes, *, left: bool) -> bytes:
            return without_chatter(part, nonce=self._nonce, jobs_began=jobs_began, left=left)

        if not stderr.left_out_bytes:
            return replace(stderr, head=clean(stderr.head, left=left))
        return replace(stderr, head=clean(stderr.head, left=False), tail=clean(stderr.tail, left=left))

    def close(self) -> None:
        """Close the pipes, when no process that could write to them remains."""
        self.output.close()
        self._lose(Exit(None, 9))
        self._stop_hearing()
        if self._probe is not None:
            self._probe.cancel()
        self._alarm.close()
        self._cwd.close()
        self._process.close()

    def _begin(self) -> bytes:
        self._nonce = b2a_hex(os.urandom(16))
        self._began = time.clock_gettime(time.CLOCK_BOOTTIME)
        self._done = Ending(self._loop, self._alarm)
        self._earlier_pid = self._background_pid
        self._is_probed = self._is_stopping = False
        self._looks = 0
        if self._probe is None:
            self._probe = self._loop.call_later(PROBE_S, self._look)
        if self.lost:
            self._lose(Exit(None, 9))
        return self._nonce

    def _answered(self) -> None:
        try:
            data = os.read(self._answers, CHUNK_BYTES)
        except BlockingIOError:
            return
        except ConnectionResetError:  # the shell ended with input unread
            data = b""
        if not data:
            self._stop_hearing()
            return
        answer = self._hearing.hear(data, self._nonce)
        if answer is not None and self._done.ended is None:
            self.cwd = self._cwd.read() or self.cwd
            self._background_pid = answer.background_pid
            self._done.set(Ended(answer.exit_code))
        elif self._hearing.flooded:
            self._stop_hearing()
            self.lost = self.lost or "a process flooded the socket on which the shell replies"
            self._spawn_task(self.kill())

    def _ask_again(self) -> None:
        """Repeat the status query, since a signal may have made the shell drop the first one."""
        self._is_probed = self._is_stopping = False
        if not self._is_replaced:
            self._input.say(self._dialect.question(self._nonce))

    @property
    def _is_replaced(self) -> bool:
        """Whether the command replaced the shell."""
        return self._answers < 0

    def _stop_hearing(self) -> None:
        if self._answers >= 0:
            self._loop.remove_reader(self._answers)
            self._answers = -1

    @property
    def reaper(self) -> int:
        """Its reaper's pid in the jail."""
        return self._process.reaper

    @property
    def is_gone(self) -> bool:
        """True when neither the shell nor any process it started remains."""
        return self._process.is_gone

    @property
    def is_busy(self) -> bool:
        return self._done.ended is None

    @property
    def has_jobs(self) -> bool:
        """True when processes of ended commands are alive; not reliable while a command runs."""
        return self._process.has_jobs

    @property
    def exports(self) -> bytes:
        """Text that gives another shell the environment that this one had after its last finished command."""
        return self._hearing.exports()

    async def _await_end(self) -> None:
        try:
            ended = await self._process.wait()
        except HutchError as error:
            self.lost = str(error)
            ended = Exit(None, 9)
        self._lose(ended)

    def _lose(self, ended: Exit) -> None:
        if self._answers >= 0:
            self._answered()  # a reply sent just before counts, and so do the exported variables
        self.lost = self.lost or (LEFT if ended.signal is None else SIGNALLED)
        self._done.set(Ended(ended.code, ended.signal, self.lost))

    def _look(self) -> None:
        """Check whether the shell still works on the command; see above. One timer serves many short
        commands."""
        self._probe = None
        if self._done.ended is not None:
            return
        self._probe = self._loop.call_later(PROBE_S, self._look)
        self._looks += 1
        if self._looks in ROUSE_AT:
            self._spawn_task(self._rouse())
        if self._is_replaced or self._is_stopping or self._input.unread() is not False:
            return
        if not self._is_probed:
            self._input.say(b"\n")
            self._is_probed = True
            return
        self._answered()  # the shell has read on, so any reply has been sent
        if self._done.ended is None and self._answers >= 0:
            self.lost = "it no longer reported the end of a command"
            self._spawn_task(self.kill())

    async def _run_hunter(self, script: str, timeout_s: float, *more: str) -> bool:
        """Run a script inside that finds the processes started after the command; True when it succeeds."""
        python = sys.executable if self._jail.unsafe else WARDEN_PROGRAM
        words = (
            str(self._process.pid),
            f"{self._began - TICK_S:.4f}",
            str(self._background_pid),
            str(int(self._is_replaced)),
        )
        try:
            ran = await self._jail.run([python, "-ISc", script, *words, *more], timeout_s=timeout_s)
            return ran.exit_code == 0
        except HutchError:
            return False

    async def _rouse(self) -> None:
        """Wake the shell: one that was stopped (`kill -STOP $$`) would wait for ever."""
        with contextlib.suppress(HutchError):
            await self._jail.run(["/bin/sh", "-c", f"kill -CONT {self._process.pid}"], timeout_s=HUNT_S)

    def _spawn_task(self, work: Coroutine[object, object, None]) -> None:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
