"""A shell that outlives its commands.

There is one shell process in the jail at a time. Its directory, variables, functions,
options and background jobs stay from command to command. When the process is lost, the
next command gets a new one in the last known directory with the exported variables, and
the result says so.

Output that comes after a command's end, from processes that it left running, goes to the
receiver of that command's output, never into the result of another one.
"""

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import PurePosixPath
from typing import Any

from hutch.domain.current_actor_and_author import current_actor
from hutch.domain.errors import BadRequest
from hutch.jail.command_process import Command
from hutch.jail.interface import OnOutput, Pipe, StreamName
from hutch.jail.jail_request_validation import check_stdin
from hutch.jail.leftover_job_detection import JobWatch
from hutch.jail.running_jail import Jailed
from hutch.jail.shell.background_commands import Background, BackgroundCommand
from hutch.jail.shell.command_results_and_events import (
    Chunk,
    CommandEnded,
    CommandStarted,
    CommandYielded,
    Ended,
    JobsDetached,
    JobsEnded,
    OnEnd,
    Result,
    ShellEvent,
)
from hutch.jail.shell.effective_timeout import effective_timeout
from hutch.jail.shell.process_directory_and_descriptors import displayed_path
from hutch.jail.shell.requested_signals_to_leftovers import LeftProcesses
from hutch.jail.shell.running_command import Job
from hutch.jail.shell.shell_pipes import ShellOutput, discard
from hutch.jail.shell.shell_process import ShellProcess
from hutch.jail.shell.shell_protocol import check_command

STREAM_BYTES = 1024 * 1024  # read ahead of a slow reader of `stream`
MAX_LEFT = 64  # commands of a shell whose processes can still print after them; older ones get SIGPIPE
OnEvent = Callable[[ShellEvent], None]
Admit = Callable[[], Awaitable[object]]  # returns when the announced command may run, or raises


class Shell:
    """A named shell of a jail; callers queue in order."""

    def __init__(
        self,
        jail: Jailed,
        *,
        name: str,
        program: str,
        start_in: str = "",
        background: Background,
        listeners: Sequence[OnEvent],
        admit: Admit,
    ) -> None:
        self.jail = jail
        self.name = name
        self.program = program
        self.background = background
        self._listeners = listeners
        self._admit = admit
        self._turn = asyncio.Lock()
        self._process: ShellProcess | None = None
        self._job: Job | None = None
        self._ending: asyncio.Future[Any] | None = None  # of a command whose caller was cancelled
        self._cwd = str(PurePosixPath(jail.workspace, start_in))
        self._exports = b""
        self._left: deque[ShellOutput] = deque()  # pipes of processes that commands left running
        self._status = 0  # of the last command; the next one sees it as `$?`
        self._former: list[ShellProcess] = []  # whose processes may remain
        self._jobs = JobWatch(self._has_jobs, self._report_jobs)

    @property
    def cwd(self) -> str:
        """Where the next command will start."""
        return self._cwd

    @property
    def commands(self) -> list[Command]:
        """Its process, and earlier ones whose processes may remain, as commands of the jail."""
        current = [self._process] if self._process is not None else []
        return [process.command for process in (*self._former, *current)]

    async def start(self) -> None:
        """Start the process before its first command, so that the command need not wait for it."""
        async with self._turn:
            await self._ready()

    async def run(
        self,
        command: str,
        *,
        timeout_s: float | None = None,
        yield_s: float | None = None,
        silence_s: float | None = None,
        env: Mapping[str, str] | None = None,
        stdin: bytes | Pipe | None = None,
        on_output: OnOutput | None = None,
        on_end: OnEnd | None = None,
    ) -> Result:
        """Run a command. At `timeout_s` it is killed with all it started; with `silence_s`, also when it has
        printed nothing for so long. At `yield_s` it continues in the background, from then on without a
        timeout unless one was given. `on_output` receives its output, also that of processes which it leaves
        running. `on_end` is called with an id when output continues in the background, and with None after
        the last output, also when the command is killed because its caller was cancelled. `stdin` is empty by
        default; a PIPE is written to through the background."""
        check_command(command, env)
        check_stdin(stdin)
        timeout_s, hit = effective_timeout(self.jail.policy.limits, timeout_s, yield_s, silence_s)
        if isinstance(stdin, Pipe) and yield_s is None:
            raise BadRequest("stdin=PIPE is for commands with a yield_s. Give the bytes, or a yield_s.")
        async with self._turn:
            process = self._process
            if process is None or process.lost or self._ending is not None:
                process = await self._ready()
            if self._listeners:
                actor = current_actor()
                cwd = displayed_path(process.cwd)
                self._report(CommandStarted(self.name, command, cwd, actor.by, actor.call_id))
            process = await self._wait_admitted(process, command)
            job = self._job = Job(
                self.jail,
                process,
                command,
                timeout_s=timeout_s,
                timeout_hit=hit,
                silence_s=silence_s,
                on_output=on_output,
                on_end=on_end,
            )
            try:
                env = process.add_proxy(env)
                if stdin is None:
                    job.begin(env, status=self._status)
                else:
                    await job.begin_with_stdin(env, stdin, status=self._status)
                ended = await job.wait(yield_s)
            except BaseException:
                self._ending = asyncio.ensure_future(self._abandon(job))
                await asyncio.shield(self._ending)
                raise
            if ended is None:
                return self._yield(job)
            return await self._finish(job, ended)

    async def stream(
        self,
        command: str,
        *,
        timeout_s: float | None = None,
        env: Mapping[str, str] | None = None,
        stdin: bytes | None = None,
    ) -> AsyncIterator[Chunk]:
        """Yield the output as it arrives, then the result. A reader that stops early ends the command, a
        slow one makes it wait."""
        chunks: deque[Chunk] = deque()
        fresh = asyncio.Event()
        buffered = 0

        def take(name: StreamName, data: bytes) -> None:
            nonlocal buffered
            if running.done():  # of processes that the command left running
                return
            chunks.append(Chunk(name, data))
            buffered += len(data)
            fresh.set()
            if buffered > STREAM_BYTES and self._process is not None:
                self._process.output.pause()

        running = asyncio.ensure_future(
            self.run(command, timeout_s=timeout_s, env=env, stdin=stdin, on_output=take)
        )
        running.add_done_callback(lambda _: fresh.set())
        try:
            while chunks or not running.done():
                if not chunks:
                    await fresh.wait()
                    fresh.clear()
                while chunks:
                    chunk = chunks.popleft()
                    buffered -= len(chunk.data)
                    if buffered <= STREAM_BYTES and self._process is not None:
                        self._process.output.resume()
                    yield chunk
            yield Chunk("result", result=await running)
        finally:
            if not running.done():
                running.cancel()
                await asyncio.gather(running, return_exceptions=True)

    async def interrupt(self) -> None:
        """Send SIGINT to the running command, as Ctrl-C would."""
        if self._job is not None:
            await self._job.process.interrupt()

    async def close(self) -> None:
        """Kill the shell and all that was started from it, except background commands with an id."""
        if self._process is not None:
            await self._process.kill()

    def end_watch(self) -> None:
        """Stop reporting jobs, after the jail was closed."""
        self._jobs.close()
        for left in tuple(self._left):
            left.close()

    async def _wait_admitted(self, process: ShellProcess, command: str) -> ShellProcess:
        """Wait until the command may run. A command that was announced but does not run is reported as
        ended."""
        actor, cwd = current_actor(), displayed_path(process.cwd)
        never_ran = CommandEnded(
            self.name, command, cwd, None, None, False, 0.0, by=actor.by, call_id=actor.call_id
        )
        try:
            await self._admit()
        except asyncio.CancelledError:
            self._report(never_ran)
            raise
        try:
            return await self._ready() if process.lost else process
        except BaseException:
            self._report(never_ran)
            raise

    async def _ready(self) -> ShellProcess:
        if self._ending is not None:  # its caller was cancelled twice
            await asyncio.shield(self._ending)
            self._ending = None
        if self._process is None or self._process.lost:
            if self._process is not None:
                self._exports = self._process.exports or self._exports
                self._former.append(self._process)
            process = ShellProcess(self.jail, self.program)
            await process.start(cwd=self._cwd, exports=self._exports, sink=discard)
            self._process = process
            self._cwd = process.cwd
        return self._process

    async def _finish(self, job: Job, ended: Ended) -> Result:
        result = job.finish(ended)
        self._status = _status(result)
        self._release(job)
        if job.process.has_new_jobs():
            self._ending = asyncio.ensure_future(self._leave(job, result))
            result = await asyncio.shield(self._ending)
            self._ending = None
        else:
            job.end_output()
            self._report_end(job, result)
        return result

    def _release(self, job: Job) -> None:
        """Make the shell free again; output that still arrives is not part of the result."""
        self._job = None
        job.process.output.sink = job.late_sink
        job.process.output.resume()
        self._cwd = job.process.cwd

    async def _leave(self, job: Job, result: Result) -> Result:
        """Leave the pipes of a command to the processes that it left running, before the next command."""
        was_lost = job.process.lost
        left = await job.process.leave_output()
        notes = [result.note] if result.note else []
        if job.process.lost and not was_lost:
            result = replace(result, restarted=True)
            notes.append(job.note(Ended(None, lost=job.process.lost)))
        if left.is_open:
            entry = self.background.add_ended(job, result, shell=self.name)
            self._retain(left, job, entry.id)
            notes.append(
                f"Processes that it started still run. Their output can be read as {entry.id}; "
                f"end them with kill, or by a signal to {entry.id}."
            )
            result = replace(result, id=entry.id)
        job.end_output(result.id)
        # Without output, they may also come from jobs of an earlier command.
        is_certain = left.is_open or not job.process.had_jobs
        jobs = JobsDetached(self.name, job.command, job.actor.by, result.id) if is_certain else None
        own = job.process.left_jobs  # None: too many to tell them from those of earlier commands
        if own and not left.is_open and LeftProcesses(job.process, own).any_left:
            entry = self.background.add_ended(job, result, shell=self.name)
            notes.append(
                f"Processes that it started still run. End them with kill, or by a signal to {entry.id}."
            )
            result = replace(result, id=entry.id)
        result = replace(result, note=" ".join(notes))
        self._report_end(job, result, jobs=jobs)
        return result

    def _retain(self, left: ShellOutput, job: Job, id_: str) -> None:
        """Read the pipes of processes that a command left running, until they have closed them."""
        left.sink, left.on_end = job.late_sink, lambda: self._end_left(left, job, id_)
        self._left.append(left)
        if len(self._left) > MAX_LEFT:
            self._left[0].close()

    def _end_left(self, left: ShellOutput, job: Job, id_: str) -> None:
        """Note that no process that a command left running can print any more."""
        self._left.remove(left)
        job.end_output()
        self._report(JobsEnded(self.name, id_))

    def _yield(self, job: Job) -> Result:
        """Leave the shell process to the command; the next command gets a new one."""
        self._former.append(job.process)
        self._job, self._process, self._status = None, None, 0
        self._exports = job.process.exports or self._exports
        entry = self.background.add(
            job, shell=self.name, on_end=lambda result: self._end_yielded(job, result, entry)
        )
        job.end_output(entry.id)
        self._report(CommandYielded(self.name, job.command, entry.id, job.actor.by, job.actor.call_id))
        return entry.result()

    def _end_yielded(self, job: Job, result: Result, entry: BackgroundCommand) -> None:
        jobs = None
        if entry.left is not None:
            jobs = JobsDetached(self.name, job.command, job.actor.by, entry.id)
            self._retain(entry.left, job, entry.id)
        self._report_end(job, result, entry.id, jobs=jobs)

    async def _abandon(self, job: Job) -> None:
        """End the command of a cancelled caller before the next one gets its turn."""
        with contextlib.suppress(Exception):
            result = job.finish(await job.stop())
            self._status = _status(result)
            self._report_end(job, result)
        job.close()
        self._release(job)

    def _has_jobs(self) -> bool | None:
        """True when ended commands have left processes; None while those cannot be distinguished from a
        running command."""
        self._former = [process for process in self._former if not process.is_gone]
        if any(process.has_jobs for process in self._former if not process.is_busy):
            return True
        if self._process is None or self._process.is_gone:
            return False
        return None if self._process.is_busy else self._process.has_jobs

    def _report_jobs(self, found: bool) -> None:
        self._report(JobsDetached(self.name) if found else JobsEnded(self.name))

    def _report_end(
        self, job: Job, result: Result, id_: str | None = None, *, jobs: JobsDetached | None = None
    ) -> None:
        if self._listeners:
            if jobs is not None:  # first, since they outlive the command
                self._report(jobs)
                self._jobs.set_found(True, is_reported=True)
            else:
                self._jobs.check()
            self._report(
                CommandEnded(
                    self.name,
                    job.command,
                    displayed_path(job.cwd),
                    result.exit_code,
                    result.signal,
                    result.timed_out,
                    result.duration_s,
                    id_,
                    job.actor.by,
                    job.actor.call_id,
                )
            )

    def _report(self, event: ShellEvent) -> None:
        for listener in self._listeners:
            listener(event)


def _status(result: Result) -> int:
    """The value of `$?` after a command."""
    if result.exit_code is not None:
        return result.exit_code
    return 128 + (result.signal or 0)
