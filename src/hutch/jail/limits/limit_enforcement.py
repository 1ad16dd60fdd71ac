"""Enforces a jail's limits with the best means of this machine.

A cgroup where there is one, rlimits in the jail in any case, and a watcher for the
rest. The jail itself survives, whatever is stopped in it.
"""

import asyncio
import contextlib
import os
import resource
from collections.abc import Awaitable, Callable, Collection, Iterator
from dataclasses import replace
from pathlib import Path

from hutch.jail.interface import LimitHit, StreamName
from hutch.jail.jail_directory_and_namespaces import OpenLocation
from hutch.jail.jail_processes import below
from hutch.jail.launch.jail_uid import Identity
from hutch.jail.limits import cgroup
from hutch.jail.limits.exceeded_limit_inspection import TMPFS, Inspector
from hutch.jail.limits.limit_errors_in_output import find_refusal
from hutch.jail.limits.limit_hit_attribution import EndedCommand, HitBy, now
from hutch.jail.limits.limit_watcher import EndedCommands, Watch
from hutch.jail.limits.running_process_rlimit_lowering import lower_rlimits
from hutch.jail.output_buffer import StreamOutput
from hutch.jail.policy import WORKSPACE, Limits
from hutch.system.lazy_dataclass import dataclass

SPARE_PROCESSES = 64
NO_SPACE = b"No space left on device"
NICENESS = 5  # the same as in the warden
# The kernel counts a writable mapping against RLIMIT_DATA before any page of it is used, and V8 (Node 24)
# maps 512 MiB for code when it starts.
RESERVED_BYTES = 512 * 1024**2

_parents: cgroup.ParentGroups | None = None
_swept = False


@dataclass(frozen=True, slots=True)
class Mark:
    """The number of limit hits at one moment."""

    hits: int
    at: float  # on the clock of `limit_hits.now`


class Meter:
    """Sets one jail's limits and notes which were hit."""

    def __init__(self, limits: Limits, group: cgroup.Cgroup | None, location: OpenLocation) -> None:
        self.limits = limits
        self._location = location  # until the jail has started
        self.has_cgroup = group is not None
        self.watch: Watch | None = None  # set when the jail has started
        self._group = group
        self._warden = 0  # set when the jail has started

    def rlimits(self, limits: Limits, *, unsafe: bool = False) -> str:
        """The limits of one command's processes, in the warden's format."""
        values = {
            resource.RLIMIT_CORE: (1, 1),  # with 0 the kernel still starts the host's handler of core dumps
            resource.RLIMIT_NOFILE: (limits.open_files, limits.open_files),
            resource.RLIMIT_FSIZE: (limits.file_bytes, limits.file_bytes),
        }
        if limits.cpu_time_s is not None and limits != self.limits:  # not for shells, which live long
            values[resource.RLIMIT_CPU] = (limits.cpu_time_s, limits.cpu_time_s + 1)
        if not unsafe:
            # With a cgroup this limit is higher than the cgroup's, since only the cgroup reports refusals.
            processes = limits.processes + (SPARE_PROCESSES if self.has_cgroup else 0)
            values[resource.RLIMIT_NPROC] = (processes, processes)
            if not self.has_cgroup:  # a process that allocates all at once is faster than the watcher
                values[resource.RLIMIT_DATA] = (2 * limits.memory_bytes, 2 * limits.memory_bytes)
        if limits.memory_bytes < self.limits.memory_bytes:
            data_bytes = limits.memory_bytes + RESERVED_BYTES
            values[resource.RLIMIT_DATA] = (data_bytes, data_bytes)
        return " ".join(f"{kind}:{soft}:{hard}" for kind, (soft, hard) in values.items())

    def start(
        self,
        pids: tuple[int, int],
        *,
        clear: Callable[[], Awaitable[None]],
        end_commands: Callable[[frozenset[int]], Awaitable[EndedCommands]],
    ) -> None:
        """Take over the jail's first processes (outer, warden) while they are still trusted."""
        _, warden = pids
        self._warden = warden
        root = Path(f"/proc/{warden}/root")
        self._location.check(Path(f"{root}{WORKSPACE}"), root)
        inspector = Inspector(self.limits, self._group, warden=warden, workspace=self._location.written())
        for pid in (*pids, *below(warden)):
            _stop_real_time(pid)
        if self._group is not None:
            self._group.add(pids)
            for pid in below(warden):  # the reaper that waits for the first command exists already
                with contextlib.suppress(ProcessLookupError):
                    self._group.add([pid])
        with contextlib.suppress(PermissionError):  # only root can; else commands run a little slower
            os.setpriority(os.PRIO_PROCESS, warden, -NICENESS)
            for pid in below(warden):
                with contextlib.suppress(ProcessLookupError):
                    os.setpriority(os.PRIO_PROCESS, pid, 0)
        self.watch = Watch(
            inspector,
            memory_bytes=self.limits.memory_bytes,
            has_cgroup=self.has_cgroup,
            clear=clear,
            end_commands=end_commands,
        )

    async def wait_until_startable(self) -> None:
        """Wait until a command may start."""
        if self.watch is not None:
            await self.watch.wait_until_startable()

    async def linked_outside(self) -> int:
        """How many files of the workspace also had names outside of it when the jail was opened."""
        await self.wait_until_startable()
        return self.watch.inspector.growth.linked_outside if self.watch is not None else 0

    def begin_command(self, reaper: int, cpu_time_s: float | None) -> None:
        """Count the processor time of a reaper's next command from now on."""
        if self.watch is not None:
            self.watch.inspector.begin_command(reaper, cpu_time_s)

    def has_own_memory(self, limits: Limits | None) -> bool:
        """True if a command with these limits may use less memory than the jail."""
        own, is_open = self.limits.memory_bytes, self.watch is not None
        return is_open and limits is not None and limits.memory_bytes < own

    def limit_command(self, reaper: int, limits: Limits) -> None:
        """Limit the memory of a reaper's next command, which waits for this."""
        if self.watch is not None:
            self.watch.inspector.command_memory.begin(reaper, limits.memory_bytes)

    def change(self, limits: Limits, identity: Identity) -> tuple[Limits, tuple[str, ...]]:
        """Apply other limits to the open jail, whose processes have this identity. Returns those in force,
        and the names of limits that only a new jail can have. Blocks the thread."""
        if self.watch is None:
            return limits, ()
        waiting = [
            name for name in self._set_at_start() if getattr(limits, name) > getattr(self.limits, name)
        ]
        limits = self._keeping(limits, waiting)
        if self._group is not None and not self._group.change(limits):
            waiting.append("memory_bytes")
            limits = self._keeping(limits, waiting)
        lowered = [
            name for name in self._set_at_start() if getattr(limits, name) < getattr(self.limits, name)
        ]
        self.limits = limits
        self.watch.change(limits)
        if lowered and not lower_rlimits(self._warden, self.rlimits(limits), identity):
            waiting += lowered  # new commands have them; shells that run already do not
        return limits, tuple(waiting)

    def _keeping(self, limits: Limits, names: Collection[str]) -> Limits:
        """Other limits, without changing these. The sizes of each tmpfs belong to the memory limit."""
        kept = {*names, *(TMPFS.values() if "memory_bytes" in names else ())}
        return replace(limits, **{name: getattr(self.limits, name) for name in kept})

    def _set_at_start(self) -> tuple[str, ...]:
        """The limits that the kernel enforces for each process: no process can raise its own."""
        return ("open_files", "file_bytes", *(() if self.has_cgroup else ("memory_bytes", "processes")))

    def set_running(self, running: int) -> None:
        """Set the number of running commands."""
        if self.watch is not None:
            self.watch.set_running(running)

    def mark(self, *, inspect_soon: bool = True) -> Mark:
        if self.watch is None:
            return Mark(0, now())
        if inspect_soon:
            self.watch.inspect_soon()  # the caller is about to start a command
        self.watch.inspector.count()
        self.watch.inspector.hits.start_window()
        return Mark(len(self.watch.inspector.hits.noted), now())

    async def find_causes(self, ended: int, *, alone: bool) -> LimitHit | None:
        """Find out which commands hit the limits that the kernel enforces, while their processes may still
        exist. Returns the limit of the workspace that the command of a reaper has exceeded, if it has. One
        that was not `alone` is not examined: another may have written, and the watcher must still stop it."""
        if self.watch is not None and self.watch.inspector.has_counted():
            await asyncio.to_thread(self.watch.inspector.count, closely=True)
        return await self.watch.note_growth(ended) if self.watch is not None and alone else None

    def hit_since(self, mark: Mark, command: EndedCommand | None = None) -> LimitHit | None:
        """The first limit that was hit after the mark, by the given command if there is one. One that stops
        commands comes before a full tmpfs, after which they may continue."""
        own = [hit for hit, by in self._noted(mark) if command is None or command.hit(by)]
        return next(iter(sorted(own, key=lambda hit: hit.limit in TMPFS.values())), None)

    def filled_since(self, mark: Mark) -> LimitHit | None:
        """The limit of a tmpfs that has become full since the mark. Lists no processes, so it takes little
        time."""
        if self.watch is None:
            return None
        inspector = self.watch.inspector
        inspector.count_full()
        noted = inspector.hits.noted[mark.hits :]
        return next((hit for hit, _ in noted if hit.limit in TMPFS.values()), None)

    def full_tmpfs(self) -> LimitHit | None:
        """The limit of a tmpfs that is full now."""
        return self.watch.inspector.full_tmpfs() if self.watch is not None else None

    def reported_since(
        self,
        mark: Mark,
        output: Callable[[StreamName], StreamOutput],
        limits: Limits,
        *,
        failed: bool,
        lost: bool,
    ) -> LimitHit | None:
        """The limit of a tmpfs that has become full since the mark, or that a command reports: no space, also
        if it succeeded although writes failed; or another refusal of the kernel. A lost shell reports
        nothing: then it is the number of processes, which others may have used up. `limits` are those of
        the command."""
        if hit := self.filled_since(mark):
            return hit
        hit = self.full_tmpfs()
        stderr = bytes(output("stderr")) if hit or failed else b""
        if hit and (NO_SPACE in stderr or NO_SPACE in bytes(output("stdout"))):
            return hit
        used_up = next((hit for hit, _ in self._noted(mark) if hit.limit == "processes"), None)
        names = (*self._set_at_start(), *(("processes",) if used_up else ()))
        found = find_refusal(stderr, limits, names) if failed else None
        return found or (used_up if lost else None)

    def hits_since(self, mark: Mark, *, closely: bool = False) -> list[LimitHit]:
        """Every limit that was hit after the mark, each once; `closely` adds those that are used up now."""
        hits = [hit for hit, _ in self._noted(mark)]
        if closely and self.watch is not None:
            hits += self.watch.inspector.used_up()
        return list(dict.fromkeys(hits))

    def kills(self) -> int:
        """How many processes the kernel has killed because memory ran out."""
        return self._group.kills() if self._group is not None else 0

    async def stop(self) -> None:
        if self.watch is not None:
            await self.watch.stop()

    async def remove(self) -> None:
        group, self._group = self._group, None
        if group is not None:
            await asyncio.to_thread(group.remove)

    def _noted(self, mark: Mark) -> list[tuple[LimitHit, HitBy]]:
        if self.watch is None:
            return []
        self.watch.inspector.count()
        return self.watch.inspector.hits.noted[mark.hits :]


def _stop_real_time(pid: int) -> None:
    """Schedule a process of a jail like any other. Hutch may have been started with real-time priority, with
    which a command would stop the machine; and the kernel refuses such a process in a cgroup."""
    with contextlib.suppress(ProcessLookupError):
        if os.sched_getscheduler(pid) & ~os.SCHED_RESET_ON_FORK in (os.SCHED_FIFO, os.SCHED_RR):
            os.sched_setscheduler(pid, os.SCHED_OTHER, os.sched_param(0))


def make_group(limits: Limits) -> cgroup.Cgroup | None:
    """Make a cgroup for a jail, where possible. Blocks the thread."""
    parents = _parent_groups()
    return cgroup.make(parents, limits) if parents is not None else None


def can_limit_cpus() -> bool:
    """True if jails here have a cgroup that can limit their processors. Blocks the thread."""
    parents = _parent_groups()
    return parents is not None and cgroup.can_limit_cpus(parents)


@contextlib.contextmanager
def preferring_self() -> Iterator[None]:
    """Give this process a larger share of the processor than a jail while the block runs, where possible."""
    parents = _parent_groups()
    group = cgroup.prefer_self(parents) if parents is not None else None
    try:
        yield
    finally:
        if parents is not None and group is not None:
            cgroup.stop_preferring(parents, group)


def _parent_groups() -> cgroup.ParentGroups | None:
    global _parents, _swept
    if not _swept:
        _parents = cgroup.find_parent_groups()
        if _parents is not None:
            cgroup.sweep(_parents)
        _swept = True
    return _parents
