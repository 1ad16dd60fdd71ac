"""A command that runs in a shell, even when its caller has stopped waiting.

Its standard input is a pipe, held by a separate process in the jail that does nothing
else. The shell opens it through /proc, the only way to give a running process another
descriptor.
"""

import asyncio
import contextlib
import math
import time
from collections.abc import Mapping
from typing import Final

from hutch.domain.author import Actor, current_actor
from hutch.domain.errors import HutchError, Unavailable
from hutch.jail.command_output import Capture
from hutch.jail.command_process import Command
from hutch.jail.interface import Exit, LimitHit, OnOutput, Pipe, StreamName
from hutch.jail.limits.limit_hits import Suspect
from hutch.jail.policy import Limits
from hutch.jail.running_jail import Jailed
from hutch.jail.shell import command_result
from hutch.jail.shell.command_result import CommandEnd, Ended, LostOutput, OnEnd, OnLostOutput, Result
from hutch.jail.shell.process import ShellProcess, displayed_path
from hutch.jail.shell.protocol import NULL

SIGINT, SIGKILL = 2, 9
STDIN_HOLDER: Final = ("/bin/sh", "-c", "echo $$; exec sleep 2147483647")
START_TIMEOUT_S = 10.0


class Job:
    """One command in one shell process, its output and its end."""

    def __init__(
        self,
        jail: Jailed,
        process: ShellProcess,
        command: str,
        *,
        timeout_s: float | None,
        silence_s: float | None = None,
        on_output: OnOutput | None,
        on_lost: OnLostOutput | None = None,
        on_end: OnEnd | None = None,
    ) -> None:
        limits: Limits = jail.policy.limits
        self.process = process
        self.command = command
        self.actor: Actor = current_actor()  # that runs it
        self.cwd = process.cwd  # where it starts
        self.timed_out = self._was_silent = self._stopped = False
        self.on_output, self.on_lost, self._on_end = on_output, on_lost, on_end
        self.stdin: Command | None = None  # the process whose standard input the command reads
        self._jail = jail
        self._mark = jail.mark(inspect_soon=False)  # limits hit until now belong to other commands
        self._timeout_s, self._silence_s = timeout_s, silence_s
        self._started_at = self._printed_at = time.monotonic()
        self._done: CommandEnd | None = None
        self._chatter = process.chatter(command)
        self._signal: int | None = None  # the last one sent to it
        self._capture = Capture(
            max_bytes=limits.output_bytes, file_bytes=limits.output_file_bytes, files=jail.outputs
        )

    def begin(self, env: Mapping[str, str] | None, stdin: str = NULL, *, status: int = 0) -> None:
        """Send the command to the shell."""
        self.process.output.sink = self.take
        self._done = self.process.call(self.command, env=env, stdin=stdin, status=status)

    async def begin_with_stdin(
        self, env: Mapping[str, str] | None, stdin: bytes | Pipe, *, status: int = 0
    ) -> None:
        """Send the command to the shell, with a standard input."""
        self.stdin, pid = await start_stdin_holder(self._jail, stdin)
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

    def lost_output(self, name: StreamName, lost: LostOutput) -> None:
        """Note that output of the command was dropped before its first bytes."""
        self._capture.is_incomplete = True
        self._capture.continue_after(name, lost.end)
        if self.on_lost is not None:
            self.on_lost(name, lost)

    async def wait(self, max_s: float | None) -> Ended | None:
        """Wait for the end or the timeout; None if that takes longer than `max_s`."""
        assert self._done is not None
        until = math.inf if max_s is None else time.monotonic() + max_s
        while True:
            deadline = min(self._timeout_at, self._silent_at)
            first = min(until, deadline)
            ended = await self._done.wait(None if first == math.inf else max(0.0, first - time.monotonic()))
            if ended is not None:
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
        """The result so far; `ended` is None while the command runs."""
        raw = ended
        if ended is not None:
            if self._stopped:  # whatever the shell reported
                ended = Ended(None, SIGKILL, ended.lost)
            elif self._signal and ended.exit_code in (128 + SIGINT, 128 + self._signal):
                ended = Ended(None, self._signal, ended.lost)
            self.process.output.drain()
            if self._chatter is not None and (rest := self._chatter.end(has_ended=bool(ended.lost))):
                self._record("stderr", rest)
            self.close()
        hit = None
        if self.timed_out:
            hit = LimitHit("command_timeout_s", self._timeout_text)
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
            note=self._note(raw) if raw and raw.lost else "",
            running=ended is None,
        )

    def _limit_hit(self, ended: Ended) -> LimitHit | None:
        """The limit that the command hit. If it succeeded, only a full tmpfs, since the check takes time."""
        if ended.exit_code == 0:
            return self._jail.full_tmpfs(self._mark, self._capture)
        suspect = Suspect(
            self.process.reaper, self._mark.at, has_failed=True, was_alone=False, is_lost=bool(ended.lost)
        )
        hit = self._jail.limit_hit(self._mark, Exit(ended.exit_code, ended.signal), suspect)
        return hit or self._jail.full_tmpfs(self._mark, self._capture)

    @property
    def _timeout_text(self) -> str:
        return f"{self._silence_s:g} s without output" if self._was_silent else f"{self._timeout_s:g} s"

    def _note(self, ended: Ended) -> str:
        """Why the shell was lost, and what the next command finds."""
        after = f" after {self._timeout_text}" if self.timed_out else ""
        match ended.lost:
            case command_result.REPLACED:
                why = f"The command replaced the shell (exec) and was killed{after}."
            case command_result.KILLED:
                why = f"The shell did not return after its command was stopped; both were killed{after}."
            case command_result.EXITED:
                why = f"The command ended the shell (exit, exec or set -e), with exit code {ended.exit_code}."
            case command_result.SIGNALLED:
                why = f"The shell process was killed by signal {ended.signal}."
            case other:
                why = f"The shell was lost: {other}."
        return (
            f"{why} The next command gets a new shell in {displayed_path(self.process.cwd)}, with the "
            "variables that were exported before this command. Other variables, functions, options, and a "
            "change of directory by this command are lost."
        )

    def close(self) -> None:
        """Release the output file and the input process, when both are no longer needed."""
        self._capture.close()
        if self._on_end is not None:
            on_end, self._on_end = self._on_end, None
            on_end()
        if self.stdin is not None:
            holder, self.stdin = self.stdin, None
            self._ending = asyncio.get_running_loop().create_task(end_stdin_holder(holder))


async def start_stdin_holder(jail: Jailed, stdin: bytes | Pipe | None) -> tuple[Command, int]:
    """Start the process that holds the standard input; returns it with its pid inside."""
    holder: Command | None = None
    try:
        async with asyncio.timeout(START_TIMEOUT_S):
            holder = await jail.spawn(STDIN_HOLDER, stdin=stdin, cwd="/")
            assert holder.stdout is not None
            return holder, int(await holder.stdout.read(32))
    except BaseException as error:
        if holder is not None:  # even when the caller was cancelled
            await asyncio.shield(asyncio.ensure_future(end_stdin_holder(holder)))
        if not isinstance(error, TimeoutError | ValueError):
            raise
    raise Unavailable("The jail has reached its process limit. End some processes.")


async def end_stdin_holder(holder: Command) -> None:
    """End the process that held the standard input, when its pipes are open in the command or no longer
    needed."""
    try:
        with contextlib.suppress(HutchError):  # the jail has ended, and the process with it
            await holder.kill()
    finally:
        holder.close()
