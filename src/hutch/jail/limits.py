"""Holding a jail to its limits, by the best means this machine has.

A cgroup when there is one; rlimits inside in any case; and a watcher for the
rest. Whatever stops something is noted with the limit's name, so that the
command's result can tell. The jail itself goes on.
"""

import asyncio
import contextlib
import os
import resource
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

from hutch.domain.errors import HutchError
from hutch.jail import cgroup
from hutch.jail.growth import Growth
from hutch.jail.policy import GIB, HOME, KIB, MIB, Limits
from hutch.jail.seam import Exit, LimitHit
from hutch.jail.watch import below, kill_if_inside, tmpfs_use, usage

LOOK_S = 0.2
CLOSE_LOOK_S = 0.05  # while memory is more than half used
SLACK = 1.05  # after a hit, so that there is room to clean up in
SPARE_PROCESSES = 64
NICER = 5  # as the warden has it
SIGXCPU, SIGXFSZ = 24, 25

_home: cgroup.Home | None = None
_swept = False


@dataclass(frozen=True, slots=True)
class Mark:
    """Where the counters stood at some moment."""

    hits: int
    kills: int
    refused_forks: int


class Meter:
    """Sets one jail's limits and notes which were hit."""

    def __init__(self, limits: Limits, group: cgroup.Cgroup | None) -> None:
        self.limits = limits
        self.counted = group is not None
        self._group = group
        self._hits: list[LimitHit] = []
        self._busy = asyncio.Event()
        self._watching: asyncio.Task[None] | None = None
        self._tmpfs: dict[str, int] = {}
        self._workspace = -1
        self._ceilings: dict[str, float] = {}

    def rlimits(self, limits: Limits, *, unsafe: bool = False) -> str:
        """The limits of one command's processes, as the warden reads them."""
        values = {
            resource.RLIMIT_CORE: (0, 0),
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
            values[resource.RLIMIT_DATA] = (limits.memory_bytes, limits.memory_bytes)
        return " ".join(f"{kind}:{soft}:{hard}" for kind, (soft, hard) in values.items())

    def start(self, pids: tuple[int, int], *, workspace: Path, clear: Callable[[], Awaitable[None]]) -> None:
        """Take the jail's first processes (outer, warden) in, while they are still trusted."""
        _, warden = pids
        if self._group is not None:
            self._group.add(pids)
            for pid in below(warden):  # the reaper that waits for the first command was there before
                with contextlib.suppress(ProcessLookupError):
                    self._group.add([pid])
        with contextlib.suppress(PermissionError):  # only root can; else commands run a little slower
            os.setpriority(os.PRIO_PROCESS, warden, -NICER)
            for pid in below(warden):
                os.setpriority(os.PRIO_PROCESS, pid, 0)
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
        for path in ("/tmp", "/dev/shm", HOME):
            self._tmpfs[path] = os.open(f"/proc/{warden}/root{path}", flags)
        self._workspace = os.open(workspace, flags)
        namespace = os.readlink(f"/proc/{warden}/ns/pid")  # noqa: PTH115
        self._watching = asyncio.create_task(self._watch(warden, namespace, clear))

    def busy(self, running: int) -> None:
        """Tell how many commands run; with none there is nothing to watch."""
        if running:
            self._busy.set()
        else:
            self._busy.clear()

    def mark(self) -> Mark:
        if self._group is None:
            return Mark(len(self._hits), 0, 0)
        return Mark(len(self._hits), self._group.kills(), self._group.refused_forks())

    def hit_since(self, mark: Mark) -> LimitHit | None:
        """The first limit that was hit after the mark."""
        now = self.mark()
        if now.hits > mark.hits:
            return self._hits[mark.hits]
        if now.kills > mark.kills:
            return LimitHit("memory_bytes", size(self.limits.memory_bytes))
        if now.refused_forks > mark.refused_forks:
            return LimitHit("processes", f"{self.limits.processes}")
        return None

    async def stop(self) -> None:
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.gather(self._watching, return_exceptions=True)
        for fd in (*self._tmpfs.values(), self._workspace):
            if fd >= 0:
                os.close(fd)
        self._tmpfs, self._workspace = {}, -1

    async def remove(self) -> None:
        group, self._group = self._group, None
        if group is not None:
            await asyncio.to_thread(group.remove)

    async def _watch(self, warden: int, namespace: str, clear: Callable[[], Awaitable[None]]) -> None:
        growth = Growth(
            self._workspace,
            most_bytes=self.limits.workspace_growth_bytes,
            most_files=self.limits.workspace_growth_files,
        )
        await asyncio.to_thread(growth.grown)
        while True:
            await self._busy.wait()
            memory_bytes = 0 if self.counted else await self._watch_memory(warden, namespace)
            over = [*self._over_in_tmpfs(), *self._over(await asyncio.to_thread(growth.grown))]
            if over:
                self._hits += over
                try:
                    await clear()
                except HutchError:
                    return  # the jail is gone
            await asyncio.sleep(CLOSE_LOOK_S if memory_bytes > self.limits.memory_bytes // 2 else LOOK_S)

    async def _watch_memory(self, warden: int, namespace: str) -> int:
        held = await asyncio.to_thread(usage, warden)
        total = held.memory_bytes + sum(tmpfs_use(fd)[0] for fd in self._tmpfs.values())
        if total > self.limits.memory_bytes:
            self._hits.append(LimitHit("memory_bytes", size(self.limits.memory_bytes)))
            kill_if_inside(held.biggest, namespace=namespace)
        elif held.processes + 1 >= self.limits.processes:  # with the warden
            self._note_once(LimitHit("processes", f"{self.limits.processes}"))
        return total

    def _note_once(self, hit: LimitHit) -> None:
        if not self._hits or self._hits[-1] != hit:
            self._hits.append(hit)

    def _over_in_tmpfs(self) -> list[LimitHit]:
        most = self.limits.tmpfs_files
        return [
            LimitHit("tmpfs_files", f"{most} in {path}")
            for path, fd in self._tmpfs.items()
            if self._is_over(path, tmpfs_use(fd)[1], most)
        ]

    def _over(self, grown: tuple[int, int]) -> list[LimitHit]:
        limits = self.limits
        hits = []
        if self._is_over("growth", grown[0], limits.workspace_growth_bytes):
            hits.append(LimitHit("workspace_growth_bytes", size(limits.workspace_growth_bytes)))
        if self._is_over("growth files", grown[1], limits.workspace_growth_files):
            hits.append(LimitHit("workspace_growth_files", f"{limits.workspace_growth_files}"))
        return hits

    def _is_over(self, what: str, used: int, most: int) -> bool:
        """Whether it is, for the first time: a jail that is over its limit must still be able to delete."""
        if used <= most:
            self._ceilings.pop(what, None)
        elif used > self._ceilings.get(what, most):
            self._ceilings[what] = used * SLACK
            return True
        return False


def make_group(limits: Limits) -> cgroup.Cgroup | None:
    """A cgroup for a jail, if there can be one. Blocks."""
    global _home, _swept
    if not _swept:
        _home = cgroup.find_home()
        if _home is not None:
            cgroup.sweep(_home)
        _swept = True
    return cgroup.make(_home, limits) if _home is not None else None


def hit_by_signal(ended: Exit, limits: Limits) -> LimitHit | None:
    """The limit that a command's own end tells of; a shell reports a child's signal as 128 and more."""
    number = ended.signal or (ended.code or 0) - 128
    if number == SIGXFSZ:
        return LimitHit("file_bytes", size(limits.file_bytes))
    if number == SIGXCPU and limits.cpu_s is not None:
        return LimitHit("cpu_s", f"{limits.cpu_s} s")
    return None


def size(count: int) -> str:
    """Bytes, for people."""
    for unit, name in ((GIB, "GiB"), (MIB, "MiB"), (KIB, "KiB")):
        if count >= unit:
            return f"{count / unit:.4g} {name}"
    return f"{count} bytes"
