"""One shell process in a jail: the pipes to it, and the command that runs in it.

A command has ended when the shell reports so with the command's own nonce, or when the
shell process has ended. The shell may read on without having reported anything, for
example because a command made `printf` a read-only function. To detect that, a blank
line is sent when nothing else was left to read; when it is gone from the socket without
a report, the shell counts as lost. That does not depend on timing, so a busy machine
loses no shell.

A socket that closes while the process continues means that the command replaced the
shell (`exec`). Then the end of the process is awaited.

A command that leaves processes running leaves its output pipes to them, and the shell
gets new pipes before its next command. So no command's pipes are open in processes of
another one. A shell that does not take the new pipes counts as lost.
"""

import asyncio
import contextlib
import os
import sys
import time
from binascii import b2a_hex
from collections.abc import Coroutine, Mapping
from dataclasses import replace

from hutch.domain.errors import HutchError, LimitReached, Unavailable
from hutch.jail.command_process import Command
from hutch.jail.interface import SOCKET, Exit
from hutch.jail.leftover_job_detection import NO_JOBS, Jobs
from hutch.jail.output_buffer import StreamOutput
from hutch.jail.policy import WARDEN_PROGRAM
from hutch.jail.running_jail import Jailed
from hutch.jail.shell import command_results_and_events as command_results
from hutch.jail.shell.command_results_and_events import CommandEnd, Ended, SharedTimer
from hutch.jail.shell.command_signal_scripts import KILL_SCRIPT, SIGNAL_SCRIPT
from hutch.jail.shell.idle_pipe_holder_process import end_holder, start_holder
from hutch.jail.shell.process_directory_and_descriptors import ProcLinks
from hutch.jail.shell.shell_pipes import CHUNK_BYTES, ShellInput, ShellOutput, Sink
from hutch.jail.shell.shell_protocol import NULL, ChatterFilter, Dialect, ReplyParser, dialect, remove_chatter

START_TIMEOUT_S = 10.0
PROBE_INTERVAL_S = 0.25
WAKE_AT_CHECKS = {2**n for n in range(1, 16)}  # checks at which a stopped shell is woken
TICK_S = 0.01  # start times of processes are rounded down to this
KILL_SCRIPT_TIMEOUT_S = 8.0
SIGNAL_SCRIPT_TIMEOUT_S = 10.0
REPLY_TIMEOUT_S = 5.0  # long enough for a busy machine: a shell that is killed loses its state
NOT_SEPARATED = "its output could not be separated from that of processes which the command left running"
SIGINT = 2


class ShellProcess:
    """A running shell. `cwd` is the directory after its last finished command."""

    def __init__(self, jail: Jailed, program: str) -> None:
        self.cwd = jail.workspace
        self.lost = ""
        self.jail = jail
        self._program = program
        self._dialect: Dialect = dialect(program)
        self._loop = asyncio.get_running_loop()
        self._parser = ReplyParser(self._dialect.reply_prefix)
        self._nonce = b""
        self._shared_timer = SharedTimer(self._loop)
        self._done = CommandEnd(self._loop, self._shared_timer)
        self._started_at = time.clock_gettime(time.CLOCK_BOOTTIME)
        self._background_pid = self._earlier_pid = 0
        self._is_probed = False  # a blank line was sent after everything else was read
        self._is_stopping = False  # signals may make the shell drop the status query
        self._probe: asyncio.TimerHandle | None = None
        self._checks = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._reply_fd = -1
        self._proxy: Mapping[str, str] = {}
        self._links = ProcLinks(-1)
        self.had_jobs = False  # before its last command
        self.left_jobs: Jobs | None = NO_JOBS  # by its last command; None if there are too many to list
        self._failure: HutchError | None = None  # to start the shell
        self._known_jobs: Jobs = NO_JOBS  # those that do not have the pipes of `output`
        self.output: ShellOutput
        self._input: ShellInput
        self._process: Command

    async def start(self, *, cwd: str, exports: bytes, sink: Sink) -> None:
        """Start the shell in a directory, or in the workspace if that was deleted. Output before it is
        ready is discarded."""
        words = [self._program, *self._dialect.arguments]
        self._proxy = self.jail.proxy_environment
        try:
            async with asyncio.timeout(START_TIMEOUT_S):
                self._process = await self.jail.spawn(words, stdin=SOCKET, cwd="/")
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
        self.output = ShellOutput(os.dup(process.stdout.fd), os.dup(process.stderr.fd))
        process.stdout.close()
        process.stderr.close()
        self._input = ShellInput(process.stdin)
        self._reply_fd = process.stdin.fd  # a socket, on which the shell also replies
        self._loop.add_reader(self._reply_fd, self._replies_readable)
        self._spawn_task(self._await_end())
        process.on_gone(self.close)
        nonce = self._begin()
        fallback = self.jail.workspace
        self._input.send(self._dialect.setup(cwd=cwd, fallback=fallback, exports=exports, nonce=nonce))
        late = Ended(None, lost=f"no answer in {START_TIMEOUT_S:g} s")
        ended = await self._done.wait(START_TIMEOUT_S) or late
        if not ended.lost:
            self._links = ProcLinks(self.jail.proc(await process.wait_started()))
            self.cwd = self._links.read_cwd() or self.cwd
            if process.is_gone:  # then we were closed already
                self._links.close()
            return
        if isinstance(self._failure, LimitReached):
            raise self._failure
        raise Unavailable(
            f"'{self._program}' does not work in the jail: {ended.lost}. Use /bin/sh or /bin/bash."
        )

    def call(
        self, command: str, *, env: Mapping[str, str] | None, stdin: str = NULL, status: int = 0
    ) -> CommandEnd:
        """Run a command, which sees `status` as `$?`; one at a time."""
        nonce = self._begin()
        self._input.send(self._dialect.call(command, nonce=nonce, env=env, stdin=stdin, status=status))
        return self._done

    def add_proxy(self, env: Mapping[str, str] | None) -> Mapping[str, str] | None:
        """The environment of a command, with the variables for the proxy if the allowed hosts have changed
        since the shell started."""
        now = self.jail.proxy_environment
        return env if now == self._proxy else {**now, **(env or {})}

    def has_new_jobs(self) -> bool:
        """True if the command that has just ended left processes, which may have the pipes of `output`."""
        found = self._process.find_jobs(self._known_jobs)
        self.left_jobs = found.new if found.is_complete else None
        self.had_jobs = bool(self._known_jobs)
        self._known_jobs = found.all if found.is_complete else self._known_jobs
        return found.any_new

    async def leave_output(self) -> ShellOutput:
        """Leave the pipes of `output` to processes of the last command, and get new ones. Otherwise the
        shell is lost."""
        left = self.output
        if not self.lost:
            try:
                new = await self._replace_output()
            except HutchError:  # no more processes are allowed, or the jail has ended
                new = None
            if new is not None:
                self.output = new
            else:
                self.lost = self.lost or NOT_SEPARATED
                self.retire()
        left.drain()
        return left

    async def _replace_output(self) -> ShellOutput | None:
        """Give the shell new pipes; None when it does not take them, as its builtins may be redefined."""
        holder, pid = await start_holder(self.jail)
        try:
            assert holder.stdout and holder.stderr
            new = ShellOutput(os.dup(holder.stdout.fd), os.dup(holder.stderr.fd))
            nonce = self._begin()
            self._input.send(self._dialect.replace_output(pid) + self._dialect.status_query(nonce))
            await self._done.wait(START_TIMEOUT_S)
        finally:
            await end_holder(holder)
        # The shell may reply before it has restored the descriptors that it redirected for the reply.
        for wait in (False, True):
            if wait:
                await self._input.wait_read(START_TIMEOUT_S)
            if not self.lost and new.is_at(*map(self._links.read_descriptor, self._dialect.descriptors)):
                return new
        new.close()
        return None

    async def interrupt(self, number: int = SIGINT) -> None:
        """Send a signal to the command. Background jobs of a shell ignore SIGINT."""
        if self._done.ended is not None:
            return
        self._is_stopping = True
        if number == SIGINT:
            await self._process.signal(number)
        else:  # interactive shells ignore other signals, so their loops would continue
            await self._run_script(SIGNAL_SCRIPT, SIGNAL_SCRIPT_TIMEOUT_S, str(number))
        self._repeat_query()

    async def stop_command(self) -> Ended:
        """Kill the command's processes. The shell survives if possible, with the jobs of earlier commands."""
        done = self._done
        self._is_stopping = True
        if self._is_replaced and done.ended is None:
            self.lost = self.lost or command_results.REPLACED
        if done.ended is None and await self._run_script(KILL_SCRIPT, KILL_SCRIPT_TIMEOUT_S):
            self._repeat_query()
            await done.wait(REPLY_TIMEOUT_S)
        if done.ended is None:
            await self.kill()
        ended = await done.wait(None)
        assert ended is not None
        return ended

    async def kill(self) -> None:
        """Kill the shell and everything that was ever started from it."""
        self.lost = self.lost or command_results.KILLED
        with contextlib.suppress(HutchError):  # the jail has ended, and the shell with it
            await self._process.kill()
        self._lose(Exit(None, 9))

    def retire(self) -> None:
        """Accept no more commands: the shell ends when it reads on, its background jobs continue."""
        self._stop_reading_replies()
        self._input.close()

    def chatter(self, command: str) -> ChatterFilter | None:
        """A filter that removes the shell's additions from a command's standard error as it arrives."""
        return ChatterFilter(command) if self._dialect.is_chatty else None

    def clean(self, stderr: StreamOutput, ended: Ended) -> StreamOutput:
        """A command's standard error without the shell's additions."""
        if not self._dialect.is_chatty or not stderr:
            return stderr
        has_ended = bool(ended.lost)
        jobs_started = has_ended or self._background_pid != self._earlier_pid

        def clean(part: bytes, *, has_ended: bool) -> bytes:
            return remove_chatter(part, nonce=self._nonce, jobs_started=jobs_started, has_ended=has_ended)

        if not stderr.omitted_bytes:
            return replace(stderr, head=clean(stderr.head, has_ended=has_ended))
        return replace(
            stderr, head=clean(stderr.head, has_ended=False), tail=clean(stderr.tail, has_ended=has_ended)
        )

    def close(self) -> None:
        """Close the pipes, when no process that could write to them remains."""
        self.output.close()
        self._lose(Exit(None, 9))
        self._stop_reading_replies()
        if self._probe is not None:
            self._probe.cancel()
        self._shared_timer.close()
        self._links.close()
        self._process.close()

    def _begin(self) -> bytes:
        self._nonce = b2a_hex(os.urandom(16))
        self._started_at = time.clock_gettime(time.CLOCK_BOOTTIME)
        self._done = CommandEnd(self._loop, self._shared_timer)
        self._earlier_pid = self._background_pid
        self._is_probed = self._is_stopping = False
        self._checks = 0
        if self._probe is None:
            self._probe = self._loop.call_later(PROBE_INTERVAL_S, self._check)
        if self.lost:
            self._lose(Exit(None, 9))
        return self._nonce

    def _replies_readable(self) -> None:
        try:
            data = os.read(self._reply_fd, CHUNK_BYTES)
        except BlockingIOError:
            return
        except ConnectionResetError:  # the shell ended with input unread
            data = b""
        if not data:
            self._stop_reading_replies()
            return
        reply = self._parser.feed(data, self._nonce)
        if reply is not None and self._done.ended is None:
            self.cwd = self._links.read_cwd() or self.cwd
            self._background_pid = reply.background_pid
            self._done.set(Ended(reply.exit_code))
        elif self._parser.flooded:
            self._stop_reading_replies()
            self.lost = self.lost or "a process flooded the socket on which the shell replies"
            self._spawn_task(self.kill())

    def _repeat_query(self) -> None:
        """Repeat the status query, since a signal may have made the shell drop the first one."""
        self._is_probed = self._is_stopping = False
        if not self._is_replaced:
            self._input.send(self._dialect.status_query(self._nonce))

    @property
    def _is_replaced(self) -> bool:
        """True if the command replaced the shell."""
        return self._reply_fd < 0

    def _stop_reading_replies(self) -> None:
        if self._reply_fd >= 0:
            self._loop.remove_reader(self._reply_fd)
            self._reply_fd = -1

    @property
    def reaper(self) -> int:
        """Its reaper's pid in the jail."""
        return self._process.reaper

    @property
    def command(self) -> Command:
        """The shell as a command of its jail."""
        return self._process

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
        return self._parser.exports()

    async def _await_end(self) -> None:
        try:
            ended = await self._process.wait()
        except HutchError as error:
            self.lost, self._failure = str(error), error
            ended = Exit(None, 9)
        self._lose(ended)

    def _lose(self, ended: Exit) -> None:
        if self._reply_fd >= 0:
            self._replies_readable()  # a reply sent just before counts, and so do the exported variables
        self.lost = self.lost or (
            command_results.EXITED if ended.signal is None else command_results.SIGNALLED
        )
        self._done.set(Ended(ended.code, ended.signal, self.lost))

    def _check(self) -> None:
        """Check whether the shell still works on the command; see above. One timer serves many short
        commands."""
        self._probe = None
        if self._done.ended is not None:
            return
        self._probe = self._loop.call_later(PROBE_INTERVAL_S, self._check)
        self._checks += 1
        if self._checks in WAKE_AT_CHECKS:
            self._spawn_task(self._wake())
        if self._is_replaced or self._is_stopping or self._input.unread() is not False:
            return
        if not self._is_probed:
            self._input.send(b"\n")
            self._is_probed = True
            return
        self._replies_readable()  # the shell has read on, so any reply has been sent
        if self._done.ended is None and self._reply_fd >= 0:
            self.lost = command_results.SILENT
            self._spawn_task(self.kill())

    async def _run_script(self, script: str, timeout_s: float, *more: str) -> bool:
        """Run a script inside that finds the processes started after the command; True when it succeeds."""
        python = sys.executable if self.jail.unsafe else WARDEN_PROGRAM
        words = (
            str(self._process.pid),
            f"{self._started_at - TICK_S:.4f}",
            str(self._background_pid),
            str(int(self._is_replaced)),
        )
        try:
            ran = await self.jail.run([python, "-ISc", script, *words, *more], timeout_s=timeout_s)
            return ran.exit_code == 0
        except HutchError:
            return False

    async def _wake(self) -> None:
        """Wake the shell: one that was stopped (`kill -STOP $$`) would wait for ever."""
        with contextlib.suppress(HutchError):
            await self.jail.run(
                ["/bin/sh", "-c", f"kill -CONT {self._process.pid}"], timeout_s=KILL_SCRIPT_TIMEOUT_S
            )

    def _spawn_task(self, work: Coroutine[object, object, None]) -> None:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
