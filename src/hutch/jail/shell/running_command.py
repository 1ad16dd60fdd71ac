"""A command that runs in a shell, even when its caller has stopped waiting.

Its standard input is a pipe of a separate process in the jail, from which the shell
opens it.
"""

import asyncio
import math
import time
from collections.abc import Mapping

from hutch.domain.current_actor_and_author import Actor, current_actor
from hutch.jail.command_output_capture import Capture
from hutch.jail.command_process import Command
from hutch.jail.interface import Exit, LimitHit, OnOutput, Pipe, StreamName
from hutch.jail.limits.command_timeout_cap import MEMBERS_TIMEOUT
from hutch.jail.limits.limit_hit_attribution import EndedCommand
from hutch.jail.policy import Limits
from hutch.jail.running_jail import Jailed
from hutch.jail.shell import command_results_and_events as command_results
from hutch.jail.shell.command_results_and_events import CommandEnd, Ended, OnEnd, Result
from hutch.jail.shell.idle_pipe_holder_process import end_holder, start_holder
from hutch.jail.shell.process_directory_and_descriptors import displayed_path
from hutch.jail.shell.shell_pipes import Sink, discard
from hutch.jail.shell.shell_process import ShellProcess
from hutch.jail.shell.shell_protocol import NULL

SIGINT, SIGKILL = 2, 9


class Job:
    """One command in one shell process, its output and its end."""

    def __init__(
        self,
        jail: Jailed,
        process: ShellProcess,
        command: str,
        *,
        timeout_s: float | None,
        timeout_hit: LimitHit | None = None,
        silence_s: float | None = None,
        on_output: OnOutput | None,
        on_end: OnEnd | None = None,
    ) -> None:
        limits: Limits = jail.policy.limits
        self.process = process
        self.command = command
        self.actor: Actor = current_actor()  # that runs it
        self.cwd = process.cwd  # where it starts
        self.timed_out = self._was_silent = self._stopped = False
        self.on_output, self._on_end = on_output, on_end
        self.stdin: Command | None = None  # the process whose standard input the command reads
        self._jail = jail
        self._growth_hit: LimitHit | None = None
        self._mark = jail.mark(inspect_soon=False)  # limits hit until now belong to other commands
        self._timeout_s, self._timeout_hit, self._silence_s = timeout_s, timeout_hit, silence_s
        self._started_at = self._printed_at = time.monotonic()
        self._done: CommandEnd | None = None
        self._chatter = process.chatter(command)
        self._signal: int | None = None  # the last one sent to it
        self._capture = Capture(
            max_bytes=limits.output_bytes, file_bytes=limits.output_file_bytes, files=jail.outputs
        )

    def begin(self, env: Mapping[str, str] | None, stdin: str = NULL, *, status: int = 0) -> None:
        """Send the command to the shell."""
        self._jail.begin_command(self.process.reaper)
        self.process.output.drain()  # what came before it is not its output
        self.process.output.sink = self.take
        self._done = self.process.call(self.command, env=env, stdin=stdin, status=status)

    async def begin_with_stdin(
        self, env: Mapping[str, str] | None, stdin: bytes | Pipe, *, status: int = 0
    ) -> None:
        """Send the command to the shell, with a standard input."""
        self.stdin, pid = await start_holder(self._jail, stdin)
        self.begin(env, f"/proc/{pid}/fd/0", status=status)

    def take(self, name: StreamName, data: bytes) -> None:
        if name == "stderr" and self._chatter is not None:
            data = self._chatter.add(data)
        if data:
            self._record(name, data)

    def _record(self, name: StreamName, data: bytes) -> None:
        self._printed_at = time.monotonic()
        self._capture.add(name, data)
        if self.on_output is not None:
            self.on_output(name, data)

    async def wait(self, max_s: float | None) -> Ended | None:
        """Wait for the end or the timeout; None if that takes longer than `max_s`."""
        assert self._done is not None
        until = math.inf if max_s is None else time.monotonic() + max_s
        while True:
            deadline = min(self._timeout_at, self._silent_at)
            first = min(until, deadline)
            ended = await self._done.wait(None if first == math.inf else max(0.0, first - time.monotonic()))
            if ended is not None:
                self._growth_hit = await self._jail.find_growth(self.process.reaper)
                return ended
            if deadline <= until and deadline == min(self._timeout_at, self._silent_at):
                self.timed_out, self._was_silent = True, self._silent_at < self._timeout_at
                return await self.stop()
            if until <= time.monotonic():
                return None

    @property
    def _timeout_at(self) -> float:
        return math.inf if self._timeout_s is None else self._started_at + self._timeout_s

    @property
    def _silent_at(self) -> float:
        """When it is killed unless it prints something before."""
        return math.inf if self._silence_s is None else self._printed_at + self._silence_s

    async def signal(self, number: int) -> None:
        """Send a signal to the command and to all it started."""
        if number != SIGINT:  # a shell reports SIGINT by its exit code
            self._signal = number
        await self.process.interrupt(number)

    async def stop(self) -> Ended:
        """Kill the command with all it started."""
        self._stopped = True
        return await self.process.stop_command()

    def finish(self, ended: Ended | None) -> Result:
        """The result so far; `ended` is None while the command runs. `end_output` must follow."""
        raw = ended
        if ended is not None:
            if self._stopped:  # whatever the shell reported
                ended = Ended(None, SIGKILL, ended.lost)
            elif self._signal and ended.exit_code in (128 + SIGINT, 128 + self._signal):
                ended = Ended(None, self._signal, ended.lost)
            self.process.output.drain()
            if self._chatter is not None and (rest := self._chatter.end(has_ended=bool(ended.lost))):
                self._record("stderr", rest)
            self._release()
        hit = None
        if self.timed_out:
            hit = self._silence_hit() if self._was_silent else self._timeout_hit
        stderr = self._capture.output("stderr")
        return Result(
            exit_code=ended.exit_code if ended else None,
            signal=ended.signal if ended else None,
            stdout_output=self._capture.output("stdout"),
            stderr_output=self.process.clean(stderr, ended) if ended else stderr,
            timed_out=self.timed_out,
            was_silent=self._was_silent,
            cwd=displayed_path(self.process.cwd),
            duration_s=time.monotonic() - self._started_at,
            truncated=self._capture.truncated,
            output_path=self._capture.path,
            output_cut=self._capture.cut,
            limit_hit=hit or (self._limit_hit(ended) if ended else None),
            restarted=bool(ended and ended.lost),
            note=self.note(raw) if raw and raw.lost else "",
            running=ended is None,
        )

    def _limit_hit(self, ended: Ended) -> LimitHit | None:
        """The limit that the command hit. If it succeeded, only a full tmpfs or workspace, since the check
        takes time."""
        limits = self._jail.policy.limits
        if ended.exit_code == 0 or self._growth_hit:
            return self._growth_hit or self._jail.reported_limit(
                self._mark, self._capture, limits, failed=False
            )
        command = EndedCommand(
            self.process.reaper, self._mark.at, has_failed=True, was_alone=False, is_lost=bool(ended.lost)
        )
        hit = self._jail.limit_hit(self._mark, Exit(ended.exit_code, ended.signal), command)
        return hit or self._jail.reported_limit(
            self._mark,
            self._capture,
            limits,
            failed=True,
            lost=ended.lost == command_results.SILENT,
        )

    def _silence_hit(self) -> LimitHit:
        most_s = self._jail.policy.limits.max_command_timeout_s
        is_cap = most_s is not None and self._silence_s is not None and self._silence_s >= most_s
        return LimitHit(MEMBERS_TIMEOUT if is_cap else "command_timeout_s", self._timeout_text)

    @property
    def _timeout_text(self) -> str:
        return f"{self._silence_s:g} s without output" if self._was_silent else f"{self._timeout_s:g} s"

    def note(self, ended: Ended) -> str:
        """Why the shell was lost, and what the next command finds."""
        after = f" after {self._timeout_text}" if self.timed_out else ""
        match ended.lost:
            case command_results.REPLACED:
                why = f"The command replaced the shell (exec) and was killed{after}."
            case command_results.KILLED:
                why = f"The shell did not return after its command was stopped; both were killed{after}."
            case command_results.EXITED:
                why = f"The command ended the shell (exit, exec or set -e), with exit code {ended.exit_code}."
            case command_results.SIGNALLED:
                why = f"The shell process was killed by signal {ended.signal}."
            case other:
                why = f"The shell was lost: {other}."
        return (
            f"{why} The next command gets a new shell in {displayed_path(self.process.cwd)}, with the "
            "variables that were exported before this command. Other variables, functions, options, and a "
            "change of directory by this command are lost."
        )

    @property
    def late_sink(self) -> Sink:
        """The receiver of output that comes after the end of the command: not its result."""
        return self.on_output or discard

    def end_output(self, continues_as: str | None = None) -> None:
        """Note that no more output will come, or that it continues in the background under an id."""
        if self._on_end is not None:
            on_end, self._on_end = self._on_end, self._on_end if continues_as else None
            on_end(continues_as)

    def close(self) -> None:
        """Release everything, also after a failure."""
        self._release()
        self.end_output()

    def _release(self) -> None:
        """Release the output file and the input process, when both are no longer needed."""
        self._capture.close()
        if self.stdin is not None:
            holder, self.stdin = self.stdin, None
            self._ending = asyncio.get_running_loop().create_task(end_holder(holder))
