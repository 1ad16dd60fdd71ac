"""An open jail: starts commands, watches them, and ends them when it closes.

All processes inside are in one pid namespace whose first process is the warden. Closing
the jail kills the warden, and so all others within milliseconds, however they were
daemonised.
"""

import asyncio
import contextlib
import os
import shutil
import socket
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from hutch.domain.byte_size_formatting import readable_size
from hutch.domain.errors import Denied, Unavailable
from hutch.jail.command_output_capture import MAX_FULL_FILES, Capture, OutputFiles, run_to_end
from hutch.jail.command_process import KILL_TIMEOUT_S, SIGKILL, Command
from hutch.jail.egress_proxy_startup import EgressProxy, Outside, open_egress
from hutch.jail.interface import Exit, Finished, LimitHit, OnOutput, OnStart, Pipe, Size
from hutch.jail.jail_processes import number_inside
from hutch.jail.jail_request_validation import check_size, check_stdin, check_timeout, check_words
from hutch.jail.launch.bubblewrap_launch import Launched
from hutch.jail.launch.jail_uid import Identity
from hutch.jail.launch.teardown import Teardown
from hutch.jail.launch.warden_control import Control
from hutch.jail.limits.command_timeout_cap import capped_timeout
from hutch.jail.limits.limit_enforcement import Mark, Meter
from hutch.jail.limits.limit_hit_attribution import EndedCommand, limit_of_signal
from hutch.jail.limits.limit_watcher import EndedCommands
from hutch.jail.limits.oom_scores import prefer_commands
from hutch.jail.machine_checks import jail_fix
from hutch.jail.pid_stamped_names import make_directory
from hutch.jail.policy import WORKSPACE, Limits, Policy, environment
from hutch.jail.pty_opening import open_terminal
from hutch.jail.shared_file_mappings import NONE_MAPPED, MappedFiles, find_mapped_files
from hutch.jail.tcp_sockets_into_jail import connect_inside, listen_inside

CLOSE_TIMEOUT_S = 5.0
NEVER_STARTED = Finished(exit_code=None, signal=SIGKILL, timed_out=True)

_closing: "dict[Jailed, asyncio.Task[None]]" = {}  # closed, but a process inside has not died yet


class Jailed:
    """An open jail; see `interface.Jail`."""

    def __init__(
        self,
        policy: Policy,
        *,
        launched: Launched,
        identity: Identity,
        meter: Meter,
        directory: Path,
        unsafe: bool,
    ) -> None:
        self.policy = policy
        self.requested_policy = policy  # as its opener wants it; `policy` may have lower limits
        self.waiting: tuple[str, ...] = ()  # names of limits that it could not change to
        self.unsafe = unsafe
        self.workspace = str(directory) if unsafe else WORKSPACE
        self._directory = directory
        self._launched = launched
        self._identity = identity
        self._meter = meter
        self._loop = asyncio.get_running_loop()
        self._scratch: Path | None = None
        self._egress: EgressProxy | None = None
        self.outputs = OutputFiles(self._own_directory, MAX_FULL_FILES * policy.limits.output_file_bytes)
        self._commands: set[Command] = set()  # with processes that remain
        self._ending: set[Command] = set()  # those of them that are being ended for memory
        self._starts = 0  # of commands, so far
        self._pts = self._proc = -1
        self._warden = -1
        self._closed = self._is_changed = False
        self._outside = Outside()
        self._control = Control(launched.control, launched.work, uid=identity.uid, on_broken=self._end)

    async def ready(self, outside: Outside) -> None:
        """Wait for the warden. From then on commands may start, and the inside is not trusted."""
        try:
            pid = await self._control.ready()
        except (Unavailable, TimeoutError) as error:
            reason = self._launched.read_error() or str(error) or "no answer"
            raise Unavailable(f"The jail did not start: {reason}. Try: {jail_fix(reason)}") from None
        finally:
            os.close(self._launched.stderr_fd)
        flags = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC
        self._pts = os.open("/dev" if self.unsafe else f"/proc/{pid}/root/dev/pts", flags)
        self._proc = os.open("/proc" if self.unsafe else f"/proc/{pid}/root/proc", flags)
        if not self.unsafe:
            self._warden = os.pidfd_open(pid)
            self._meter.start(
                (self._launched.process.pid, pid), clear=self.clear, end_commands=self._end_commands
            )
            await self._prefer_commands(pid)
            self._outside = outside
            if self.policy.network or outside.always:
                self._egress = await open_egress(self, outside)

    async def change(self, policy: Policy) -> None:
        """Apply the limits and hosts of another policy to the open jail, as far as possible."""
        limits, self.waiting = await asyncio.to_thread(self._meter.change, policy.limits, self._identity)
        self._is_changed = self._is_changed or limits != self.policy.limits
        if self._egress is not None:
            await self._egress.change(policy.network)
        self.policy = replace(self.policy, limits=limits, network=policy.network)
        if self._egress is None and policy.network and not self.unsafe:
            self._egress = await open_egress(self, self._outside)

    @property
    def grown(self) -> tuple[int, int]:
        """Bytes and files by which the workspace has grown, as of the last inspection."""
        return self._meter.watch.inspector.growth.last_grown if self._meter.watch is not None else (0, 0)

    @property
    def warden_pid(self) -> int:
        """The host's pid of the jail's first process."""
        return self._control.warden_pid

    @property
    def warden_pidfd(self) -> int:
        return self._warden

    async def run(
        self,
        argv: Sequence[str],
        *,
        stdin: bytes | None = None,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        timeout_s: float | None = None,
        limits: Limits | None = None,
        on_output: OnOutput | None = None,
        on_start: OnStart | None = None,
    ) -> Finished:
        self._check_allowed(argv)
        limits = limits or self.policy.limits
        check_timeout(timeout_s := limits.command_timeout_s if timeout_s is None else timeout_s)
        began = time.monotonic()
        timeout_s, hit_at_timeout = capped_timeout(timeout_s, limits)
        try:
            async with asyncio.timeout(timeout_s):
                # Before the mark: limits hit until then belong to other commands.
                await self._wait_until_startable()
                mark, starts = self._meter.mark(), self._starts
                is_first = not any(command.is_active for command in self._commands)
                process = await self.spawn(argv, stdin=stdin, env=env, cwd=cwd, limits=limits)
        except TimeoutError:  # no reaper takes the command
            return replace(NEVER_STARTED, duration_s=time.monotonic() - began, limit_hit=hit_at_timeout)
        sizes = {"max_bytes": limits.output_bytes, "file_bytes": limits.output_file_bytes}
        capture = Capture(**sizes, files=self.outputs)
        if on_start is not None:
            on_start(process)
        remaining_s = max(0.0, began + timeout_s - time.monotonic())
        exit_, timed_out = await run_to_end(process, capture, timeout_s=remaining_s, on_output=on_output)
        hit = hit_at_timeout if timed_out else None
        await self._meter.find_causes(process.reaper, alone=not self._commands - {process})
        command = EndedCommand(
            process.reaper,
            mark.at,
            has_failed=exit_.code != 0,
            was_alone=is_first and self._starts == starts + 1,
        )
        hit = self._meter.hit_since(mark, command) or hit or limit_of_signal(exit_, limits)
        return Finished(
            exit_code=exit_.code,
            signal=exit_.signal,
            stdout_output=capture.output("stdout"),
            stderr_output=capture.output("stderr"),
            timed_out=timed_out,
            truncated=capture.truncated,
            output_path=capture.path,
            output_cut=capture.cut,
            duration_s=time.monotonic() - began,
            cpu_s=exit_.cpu_s,
            peak_bytes=exit_.peak_bytes,
            limit_hit=hit or self.reported_limit(mark, capture, limits, failed=exit_.code != 0),
        )

    async def spawn(
        self,
        argv: Sequence[str],
        *,
        stdin: bytes | Pipe | None = None,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        limits: Limits | None = None,
        terminal: Size | None = None,
        descriptor_3: bytes | None = None,
    ) -> Command:
        full = {**self._environment(), **(env or {})}
        check_words(argv, full, cwd or "")
        check_stdin(stdin)
        if terminal is not None:
            check_size(terminal)
        where = os.path.join(self.workspace, cwd or "")  # noqa: PTH118 (a path inside the jail)
        await self._wait_until_startable()
        if self._closed:
            raise Unavailable("The jail is closed.")
        command = Command(self._control, lambda: self._proc, argv, where)
        command.on_taken = lambda reaper: self.begin_command(reaper, limits)
        await command.start(
            argv,
            stdin=stdin,
            env=full,
            rlimits=self._own_rlimits(limits),
            pty=open_terminal(self._pts, terminal, self._identity) if terminal else None,
            descriptor_3=descriptor_3,
            uid=self._identity.uid if self._identity.claim else None,
            waits=self._meter.has_own_memory(limits),
        )
        self._commands.add(command)
        self._starts += 1
        self._meter.set_running(len(self._commands))
        command.on_gone(lambda: self._forget(command))
        return command

    async def connect(self, port: int, *, host: str = "127.0.0.1") -> socket.socket:
        return await connect_inside(self._control, host, port)

    async def listen(self, port: int = 0, *, host: str = "127.0.0.1") -> socket.socket:
        return await listen_inside(self._control, host, port)

    def proc(self, pid: int) -> int:
        """A descriptor of a process's directory in the jail's /proc; -1 when it has ended."""
        try:
            return os.open(str(pid), os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=self._proc)
        except OSError:
            return -1

    def begin_command(self, reaper: int, limits: Limits | None = None) -> None:
        """Limit a reaper's next command, and count its processor time from now on."""
        if limits is not None and self._meter.has_own_memory(limits):
            self._meter.limit_command(reaper, limits)
        self._meter.begin_command(reaper, (limits or self.policy.limits).cpu_time_s)

    def mark(self, *, inspect_soon: bool = True) -> Mark:
        """This moment, for `limit_hit`. `inspect_soon` makes the watcher inspect the jail soon."""
        return self._meter.mark(inspect_soon=inspect_soon)

    def limit_hit(self, since: Mark, ended: Exit, command: EndedCommand | None = None) -> LimitHit | None:
        """The limit that was hit since the mark, by the given command if there is one, or that ended a
        command just now."""
        return self._meter.hit_since(since, command) or limit_of_signal(ended, self.policy.limits)

    async def find_growth(self, reaper: int = 0) -> LimitHit | None:
        """The limit of the workspace that a command has exceeded, by its reaper, which has just ended."""
        return await self._meter.find_causes(reaper, alone=len(self._commands) <= 1)

    def reported_limit(
        self, since: Mark, printed: Capture, limits: Limits, *, failed: bool, lost: bool = False
    ) -> LimitHit | None:
        """The limit of a command that it has met since the mark, as far as its output and the kernel tell."""
        return self._meter.reported_since(since, printed.output, limits, failed=failed, lost=lost)

    def limits_hit(self, since: Mark, ended: Exit | None = None) -> list[LimitHit]:
        """Every limit that was hit since the mark, each once; `ended` is a command that has just ended."""
        hits = self._meter.hits_since(since, closely=ended is not None)
        own = limit_of_signal(ended, self.policy.limits) if ended else None
        return [*hits, own] if own and own not in hits else hits

    async def linked_outside(self) -> int:
        """How many files of the workspace also have names outside: writing to one here changes it there,
        without leaving the jail."""
        return await self._meter.linked_outside()

    def mapped_files(self) -> MappedFiles | None:
        """The files that its processes have mapped; None if that is unknown. Blocks."""
        return NONE_MAPPED if self.unsafe or self._closed else find_mapped_files(self.warden_pid)

    async def clear(self) -> None:
        commands = list(self._commands)
        with contextlib.suppress(TimeoutError):  # if it does not read, it will not answer either
            async with asyncio.timeout(CLOSE_TIMEOUT_S):
                for command in commands:
                    if not command.has_started:  # there is no process to kill yet
                        await command.request_kill()
        await self._control.clear()
        # Killed processes count towards the limit until they are reaped; the next command might not start.
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(KILL_TIMEOUT_S):
                for command in commands:
                    await command.wait_gone()

    async def _wait_until_startable(self) -> None:
        """Wait until a command may start, and until the processes being ended have made space for it."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(KILL_TIMEOUT_S):
                for command in list(self._ending):
                    await command.wait_gone()
        await self._meter.wait_until_startable()

    async def _end_commands(self, reapers: frozenset[int]) -> EndedCommands:
        """End the commands of these reapers, by their pid on the host, if others run besides them. Others may
        allocate memory at this moment, so the watcher does not wait until the ended ones are gone."""
        numbers = {number_inside(pid) for pid in reapers}  # 0 for one that has ended
        ending = [command for command in self._commands if command.reaper in numbers]
        if len(ending) == len(self._commands):
            return "all"
        self._ending.update(ending)
        try:
            async with asyncio.timeout(CLOSE_TIMEOUT_S):
                for command in ending:
                    await command.request_kill()
        except TimeoutError:
            return "all"
        return "missing" if len(ending) < len(reapers) else "ended"

    async def close(self) -> None:
        """End all processes inside and release everything. Safe to call again."""
        if self._closed:
            return
        self._closed = True
        self._control.close()
        if not self.unsafe:  # the unsafe warden ends its children itself, now that its socket is closed
            self._end("closed")
        await self._meter.stop()
        if self._egress is not None:
            await self._egress.close()
        teardown = Teardown(self._warden, self._launched.process)
        if await teardown.wait(CLOSE_TIMEOUT_S, warden_pid=self._inside()):
            await self._release()
        else:
            _closing[self] = self._loop.create_task(self._finish_closing(teardown))

    async def _prefer_commands(self, warden: int) -> None:
        scores = prefer_commands(warden, memory_bytes=self.policy.limits.memory_bytes)
        if scores is not None:
            try:
                await self._control.send_scores(scores)
            finally:
                os.close(scores.fd)

    def _end(self, reason: str) -> str:
        """Kill the first process of the pid namespace, and so all others. Returns the reason, with the
        limit if known."""
        Teardown(self._warden, self._launched.process).kill()
        kills = self._meter.kills()
        if kills:
            max_memory = readable_size(self.policy.limits.memory_bytes)
            reason += f" The kernel killed {kills} of its processes: memory_bytes is {max_memory}. Raise it."
        return reason

    async def _release(self) -> None:
        """Release the user id and the cgroup. All processes have ended; until then no other jail may have
        them."""
        for fd in (self._warden, self._pts, self._proc):
            if fd >= 0:
                os.close(fd)
        self._warden = self._pts = self._proc = -1
        await self._meter.remove()
        self._identity.release()
        if self._scratch is not None:
            await asyncio.to_thread(shutil.rmtree, self._scratch, ignore_errors=True)

    async def _finish_closing(self, teardown: Teardown) -> None:
        while not await teardown.wait(CLOSE_TIMEOUT_S, warden_pid=self._inside()):
            teardown.kill()
        await self._release()
        _closing.pop(self, None)

    def _inside(self) -> int:
        return 0 if self.unsafe else self.warden_pid

    def _own_rlimits(self, limits: Limits | None) -> str:
        if not self._is_changed and limits in (None, self.policy.limits):
            return ""  # the jail's own, which reapers have already
        return self._meter.rlimits(limits or self.policy.limits, unsafe=self.unsafe)

    def _forget(self, command: Command) -> None:
        self._commands.discard(command)
        self._ending.discard(command)
        self._meter.set_running(len(self._commands))

    @property
    def proxy_environment(self) -> dict[str, str]:
        """The variables that make programs use the proxy, if there is one."""
        return self._egress.environment if self._egress else {}

    def _environment(self) -> dict[str, str]:
        if not self.unsafe:
            return {**self.proxy_environment, **environment(self.policy)}
        return environment(self.policy, workspace=self.workspace, home=str(self._own_directory()))

    def _own_directory(self) -> Path:
        if self._scratch is None:
            self._scratch = make_directory()
        return self._scratch

    def _check_allowed(self, argv: Sequence[str]) -> None:
        allowed = self.policy.commands
        if allowed is not None and argv and argv[0] not in allowed:
            raise Denied(f"'{argv[0]}' is not among the allowed commands: {', '.join(allowed) or 'none'}.")
