"""Enforces a jail's limits with the best means of this machine.

A cgroup where there is one, rlimits in the jail in any case, and a watcher for the
rest. The jail itself survives, whatever is stopped in it.
"""

import asyncio
import contextlib
import os
import resource
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from hutch.jail.interface import LimitHit
from hutch.jail.jail_processes import below
from hutch.jail.limits import cgroup
from hutch.jail.limits.inspection import Look
from hutch.jail.limits.limit_hits import Cause, Suspect, now
from hutch.jail.limits.watch import Watch
from hutch.jail.location import Held
from hutch.jail.policy import WORKSPACE, Limits

SPARE_PROCESSES = 64
NICER = 5  # the same as in the warden
# The kernel counts a writable mapping against RLIMIT_DATA before any page of it is used, and V8 (Node 24)
# maps 512 MiB for code when it starts.
RESERVED_BYTES = 512 * 1024**2

_home: cgroup.Home | None = None
_swept = False


@dataclass(frozen=True, slots=True)
class Mark:
    """The number of limit hits at one moment."""

    hits: int
    at: float  # on the clock of `limit_hits.now`


class Meter:
    """Sets one jail's limits and notes which were hit."""

    def __init__(self, limits: Limits, group: cgroup.Cgroup | None, held: Held) -> None:
        self.limits = limits
        self._held = held  # until the jail has started
        self.counted = group is not None
        self.watch: Watch | None = None  # set when the jail has started
        self._group = group

    def rlimits(self, limits: Limits, *, unsafe: bool = False) -> str:
        """The limits of one command's processes, in the warden's format."""
        values = {
            resource.RLIMIT_CORE: (1, 1),  # with 0 the kernel still starts the host's handler of core dumps
            resource.RLIMIT_NOFILE: (limits.open_files, limits.open_files),
            resource.RLIMIT_FSIZE: (limits.file_bytes, limits.file_bytes),
        }
        if limits.cpu_s is not None:
            values[resource.RLIMIT_CPU] = (limits.cpu_s, limits.cpu_s + 1)
        if not unsafe:
            # With a cgroup this limit is higher than the cgroup's, since only the cgroup reports refusals.
            processes = limits.processes + (SPARE_PROCESSES if self.counted else 0)
            values[resource.RLIMIT_NPROC] = (processes, processes)
            if not self.counted:  # one process that allocates everything at once is faster than the watcher
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
        end_commands: Callable[[frozenset[int]], Awaitable[bool]],
    ) -> None:
        """Take over the jail's first processes (outer, warden) while they are still trusted."""
        _, warden = pids
        root = Path(f"/proc/{warden}/root")
        self._held.check(Path(f"{root}{WORKSPACE}"), root)
        look = Look(self.limits, self._group, warden=warden, workspace=self._held.written())
        if self._group is not None:
            self._group.add(pids)
            for pid in below(warden):  # the reaper that waits for the first command exists already
                with contextlib.suppress(ProcessLookupError):
                    self._group.add([pid])
        with contextlib.suppress(PermissionError):  # only root can; else commands run a little slower
            os.setpriority(os.PRIO_PROCESS, warden, -NICER)
            for pid in below(warden):
                with contextlib.suppress(ProcessLookupError):
                    os.setpriority(os.PRIO_PROCESS, pid, 0)
        self.watch = Watch(
            look,
            memory_bytes=self.limits.memory_bytes,
            counted=self.counted,
            clear=clear,
            end_commands=end_commands,
        )

    async def calm(self) -> None:
        """Wait until a command may start."""
        if self.watch is not None:
            await self.watch.calm()

    async def linked_out(self) -> int:
        """How many files of the workspace also had names outside of it when the jail was opened."""
        await self.calm()
        return self.watch.look.growth.linked_out if self.watch is not None else 0

    def busy(self, running: int) -> None:
        """Set the number of running commands."""
        if self.watch is not None:
            self.watch.busy(running)

    def mark(self, *, stir: bool = True) -> Mark:
        if self.watch is None:
            return Mark(0, now())
        if stir:
            self.watch.stir()  # the caller is about to start a command
        self.watch.look.count()
        self.watch.look.hits.ask()
        return Mark(len(self.watch.look.hits.noted), now())

    async def look_closely(self) -> None:
        """Find out which commands hit the limits that the kernel enforces, while their processes may still
        exist."""
        if self.watch is not None and self.watch.look.has_counted():
            await asyncio.to_thread(self.watch.look.count, closely=True)

    def hit_since(self, mark: Mark, suspect: Suspect | None = None) -> LimitHit | None:
        """The first limit that was hit after the mark, by the given command if there is one."""
        own = (hit for hit, cause in self._noted(mark) if suspect is None or suspect.hit(cause))
        return next(own, None)

    def hits_since(self, mark: Mark, *, closely: bool = False) -> list[LimitHit]:
        """Every limit that was hit after the mark, each once; `closely` adds those that are used up now."""
        hits = [hit for hit, _ in self._noted(mark)]
        if closely and self.watch is not None:
            hits += self.watch.look.used_up()
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

    def _noted(self, mark: Mark) -> list[tuple[LimitHit, Cause]]:
        if self.watch is None:
            return []
        self.watch.look.count()
        return self.watch.look.hits.noted[mark.hits :]


def make_group(limits: Limits) -> cgroup.Cgroup | None:
    """Make a cgroup for a jail, where possible. Blocks."""
    home = _found_home()
    return cgroup.make(home, limits) if home is not None else None


@contextlib.contextmanager
def preferring_self() -> Iterator[None]:
    """Give this process a larger share of the processor than a jail while the block runs, where possible."""
    home = _found_home()
    group = cgroup.prefer_self(home) if home is not None else None
    try:
        yield
    finally:
        if home is not None and group is not None:
            cgroup.stop_preferring(home, group)


def _found_home() -> cgroup.Home | None:
    global _home, _swept
    if not _swept:
        _home = cgroup.find_home()
        if _home is not None:
            cgroup.sweep(_home)
        _swept = True
    return _home
