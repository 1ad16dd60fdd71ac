"""Holding a jail to its limits, by the best means this machine has.

A cgroup when there is one; rlimits inside in any case; and a watcher for the
rest. The jail itself goes on, whatever is stopped in it.
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
NICER = 5  # as the warden has it
# The kernel counts a writable mapping against RLIMIT_DATA before a page of it is used, and V8 (Node 24) maps
# 512 MiB for code at its start.
RESERVED_BYTES = 512 * 1024**2

_home: cgroup.Home | None = None
_swept = False


@dataclass(frozen=True, slots=True)
class Mark:
    """How many limits had been hit at some moment."""

    hits: int
    at: float  # on the clock of `hits.now`


class Meter:
    """Sets one jail's limits and notes which were hit."""

    def __init__(self, limits: Limits, group: cgroup.Cgroup | None, held: Held) -> None:
        self.limits = limits
        self._held = held  # until it has started
        self.counted = group is not None
        self.watch: Watch | None = None  # once it has started
        self._group = group

    def rlimits(self, limits: Limits, *, unsafe: bool = False) -> str:
        """The limits of one command's processes, as the warden reads them."""
        values = {
            resource.RLIMIT_CORE: (1, 1),  # with 0 the kernel still starts the host's handler of core dumps
            resource.RLIMIT_NOFILE: (limits.open_files, limits.open_files),
            resource.RLIMIT_FSIZE: (limits.file_bytes, limits.file_bytes),
        }
        if limits.cpu_s is not None:
            values[resource.RLIMIT_CPU] = (limits.cpu_s, limits.cpu_s + 1)
        if not unsafe:
            # With a cgroup this one stands behind, since only the cgroup tells when it refuses.
            processes = limits.processes + (SPARE_PROCESSES if self.counted else 0)
            values[resource.RLIMIT_NPROC] = (processes, processes)
            if not self.counted:  # one process that asks for everything at once is faster than a watcher
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
        """Take the jail's first processes (outer, warden) in, while they are still trusted."""
        _, warden = pids
        root = Path(f"/proc/{warden}/root")
        self._held.check(Path(f"{root}{WORKSPACE}"), root)
        look = Look(self.limits, self._group, warden=warden, workspace=self._held.written())
        if self._group is not None:
            self._group.add(pids)
            for pid in below(warden):  # the reaper that waits for the first command was there before
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
        """Until a command may start."""
        if self.watch is not None:
            await self.watch.calm()

    async def linked_out(self) -> int:
        """How many files of the workspace had names outside of it as well when the jail was opened."""
        await self.calm()
        return self.watch.look.growth.linked_out if self.watch is not None else 0

    def busy(self, running: int) -> None:
        """Tell how many commands run."""
        if self.watch is not None:
            self.watch.busy(running)

    def mark(self, *, stir: bool = True) -> Mark:
        if self.watch is None:
            return Mark(0, now())
        if stir:
            self.watch.stir()  # who marks a moment is about to start something
        self.watch.look.count()
        self.watch.look.hits.ask()
        return Mark(len(self.watch.look.hits.noted), now())

    async def look_closely(self) -> None:
        """Find out who hit the limits that the kernel keeps, while the processes may still be there."""
        if self.watch is not None and self.watch.look.has_counted():
            await asyncio.to_thread(self.watch.look.count, closely=True)

    def hit_since(self, mark: Mark, suspect: Suspect | None = None) -> LimitHit | None:
        """The first limit that was hit after the mark, by that command if one is given."""
        own = (hit for hit, cause in self._noted(mark) if suspect is None or suspect.hit(cause))
        return next(own, None)

    def hits_since(self, mark: Mark, *, closely: bool = False) -> list[LimitHit]:
        """Every limit that was hit after the mark, each once; `closely` looks for what is used up now."""
        hits = [hit for hit, _ in self._noted(mark)]
        if closely and self.watch is not None:
            hits += self.watch.look.used_up()
        return list(dict.fromkeys(hits))

    def kills(self) -> int:
        """How many processes the kernel has killed for want of memory."""
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
    """A cgroup for a jail, if there can be one. Blocks."""
    home = _found_home()
    return cgroup.make(home, limits) if home is not None else None


@contextlib.contextmanager
def preferring_self() -> Iterator[None]:
    """Meanwhile this process has a larger share of the processor than a jail, where that can be."""
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
