"""Holding a jail to its limits, by the best means this machine has.

A cgroup when there is one; rlimits inside in any case; and a watcher for the
rest. Whatever stops something is noted with the limit's name, so that the
command's result can tell. The jail itself goes on.
"""

import asyncio
import contextlib
import os
import resource
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

from hutch.domain.errors import HutchError
from hutch.jail import cgroup
from hutch.jail.growth import Growth
from hutch.jail.policy import GIB, HOME, KIB, MIB, Limits
from hutch.jail.pulse import Pulse
from hutch.jail.seam import Exit, LimitHit
from hutch.jail.watch import (
    Member,
    Nameless,
    below,
    kill_if_inside,
    members,
    nameless,
    shared_memory_device,
    tmpfs_use,
    usage,
)

LOOK_S = 0.2
CLOSE_LOOK_S = 0.05  # at first, and while memory grows or is more than half used
CALM_S = 0.002
IDLE_LOOK_S = 1.0  # at the longest, while next to nothing runs; twice that where a cgroup counts memory
IDLE_SHARE = 0.02  # of a processor
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
        self._waking: asyncio.Future[bool] | None = None
        self._pulse = Pulse()
        self._members: list[Member] = []
        self._watching: asyncio.Task[None] | None = None
        self._looking: asyncio.Future[tuple[bool, int]] | None = None
        self._tmpfs: dict[str, int] = {}
        self._workspace = self._terminals = -1
        self._measured = True  # whether it is known how large the workspace was at the start
        self._clearing = False  # set from the watcher's thread, before it kills
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
                with contextlib.suppress(ProcessLookupError):
                    os.setpriority(os.PRIO_PROCESS, pid, 0)
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
        for path in ("/tmp", "/dev/shm", HOME):
            self._tmpfs[path] = os.open(f"/proc/{warden}/root{path}", flags)
        self._terminals = os.open(f"/proc/{warden}/root/dev/pts", flags)
        self._workspace = os.open(workspace, flags)
        self._measured = False
        self._watching = asyncio.create_task(self._watch(warden, clear))

    async def calm(self) -> None:
        """Until a command may start: not before the workspace was measured, or what it makes would count as
        having been there; and not while the jail is being cleared, or it would be hit for another's deeds."""
        while not self._measured or self._clearing:  # noqa: ASYNC110 (set by a thread, and rare)
            await asyncio.sleep(CALM_S)

    def busy(self, running: int) -> None:
        """Tell how many commands run; with none there is nothing to watch."""
        self._stir()
        if running:
            self._busy.set()
        else:
            self._busy.clear()

    def mark(self) -> Mark:
        self._stir()  # who marks a moment is about to start something
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
        if self._looking is None or self._looking.done():
            self._let_go()
        else:  # a walk may take a while, and needs its descriptors until then
            self._looking.add_done_callback(lambda _: self._let_go())

    def _let_go(self) -> None:
        for fd in (*self._tmpfs.values(), self._workspace, self._terminals):
            if fd >= 0:
                os.close(fd)
        self._tmpfs, self._workspace, self._terminals = {}, -1, -1
        self._pulse.close()

    async def remove(self) -> None:
        group, self._group = self._group, None
        if group is not None:
            await asyncio.to_thread(group.remove)

    async def _watch(self, warden: int, clear: Callable[[], Awaitable[None]]) -> None:
        growth = Growth(
            self._workspace,
            most_bytes=self.limits.workspace_growth_bytes,
            most_files=self.limits.workspace_growth_files,
            nameless=self._nameless,
        )
        self._looking = asyncio.ensure_future(asyncio.to_thread(self._look, warden, growth))
        try:
            await asyncio.shield(self._looking)
        finally:
            self._measured, self._clearing = True, False
        idle_s = 2 * IDLE_LOOK_S if self.counted else IDLE_LOOK_S
        pause_s, looked, before_bytes = CLOSE_LOOK_S, time.monotonic(), 0
        while True:
            if not self._busy.is_set():
                await self._busy.wait()
                pause_s = max(CLOSE_LOOK_S, LOOK_S - (time.monotonic() - looked))
            await self._pause(pause_s)
            since_s, looked = time.monotonic() - looked, time.monotonic()
            moved_ns = self._pulse.moved_ns()
            is_calm = moved_ns is not None and moved_ns < since_s * IDLE_SHARE * 1e9
            pause_s = min(2 * pause_s, idle_s) if is_calm else LOOK_S
            if moved_ns == 0:
                continue
            self._looking = asyncio.ensure_future(asyncio.to_thread(self._look, warden, growth))
            is_over, memory_bytes = await asyncio.shield(self._looking)
            most = self.limits.memory_bytes
            if not is_calm and (memory_bytes > most // 2 or memory_bytes - before_bytes > most // 16):
                pause_s = CLOSE_LOOK_S
            before_bytes = memory_bytes
            if is_over:
                pause_s = CLOSE_LOOK_S
                try:
                    await clear()
                except HutchError:
                    return  # the jail is gone
                finally:
                    self._clearing = False

    async def _pause(self, pause_s: float) -> None:
        """Until the next look; a long one is cut short when a command is about to run."""
        if pause_s > LOOK_S:
            loop = asyncio.get_running_loop()
            self._waking = loop.create_future()
            timer = loop.call_later(pause_s, _resolve, self._waking, False)
            try:
                if not await self._waking:
                    return
            finally:
                timer.cancel()
            pause_s = CLOSE_LOOK_S
        await asyncio.sleep(pause_s)

    def _stir(self) -> None:
        if self._waking is not None:
            _resolve(self._waking, True)

    def _look(self, warden: int, growth: Growth) -> tuple[bool, int]:
        """Whether the jail must be cleared, and the memory it uses. Notes which limits were hit. Blocks."""
        self._members = members(warden)
        self._pulse.follow(
            [(warden, warden), *((each.pid, thread) for each in self._members for thread in each.threads)]
        )
        is_over, memory_bytes = self._watch_group() if self.counted else self._watch_processes(warden)
        over = [*self._over_in_tmpfs(), *self._over_in_terminals(), *self._over(growth.grown())]
        self._clearing = is_over or bool(over)
        self._hits += over
        return self._clearing, memory_bytes

    def _watch_group(self) -> tuple[bool, int]:
        used = self._group.uncounted_bytes() if self._group is not None else 0
        if is_over := used > self.limits.memory_bytes // 2:
            self._hits.append(LimitHit("memory_bytes", size(self.limits.memory_bytes)))
        return is_over, used

    def _watch_processes(self, warden: int) -> tuple[bool, int]:
        limits = self.limits
        in_files = sum(tmpfs_use(fd)[0] for fd in self._tmpfs.values())
        held = usage(
            warden,
            self._members,
            most_bytes=limits.memory_bytes - in_files,
            most_descriptors=limits.descriptors,
        )
        total = held.memory_bytes + in_files
        if held.descriptors > limits.descriptors:
            self._hits.append(LimitHit("descriptors", f"{limits.descriptors}"))
            return True, total
        if total > limits.memory_bytes:
            self._hits.append(LimitHit("memory_bytes", size(limits.memory_bytes)))
            # The biggest goes alone if that is enough; it may have gone already, to come back as another.
            if total - held.biggest_bytes <= limits.memory_bytes:
                return not kill_if_inside(held.biggest, warden=warden), total
            self._clearing = True
            for each in self._members:  # at once: the warden has to find its turn among them first
                if not each.trusted:
                    kill_if_inside(each.pid, warden=warden)
            return True, total
        if held.processes + 1 >= limits.processes:  # with the warden
            self._note_once(LimitHit("processes", f"{limits.processes}"))
        return False, total

    def _nameless(self) -> Nameless:
        memory = {os.fstat(fd).st_dev for fd in self._tmpfs.values()} | {shared_memory_device()}
        return nameless(self._members, skip=memory)

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

    def _over_in_terminals(self) -> list[LimitHit]:
        most = self.limits.terminals
        there = len(os.listdir(self._terminals)) - 1  # without ptmx  # noqa: PTH208
        return [LimitHit("terminals", f"{most}")] if there > most else []

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


def _resolve(future: asyncio.Future[bool], value: bool) -> None:
    if not future.done():
        future.set_result(value)


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
