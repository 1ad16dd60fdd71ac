"""One inspection of a jail for exceeded limits that the kernel does not enforce.

Each stop is noted with the limit's name, for the command's result. An inspection
blocks, so it runs in a thread.
"""

import os
import threading
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from hutch.jail.interface import LimitHit
from hutch.jail.jail_processes import (
    Member,
    is_dying,
    job_started_at,
    kill_if_inside,
    members,
    number_inside,
    resident_pages,
)
from hutch.jail.limits.activity import Pulse
from hutch.jail.limits.cgroup import Cgroup
from hutch.jail.limits.freeze import standstill
from hutch.jail.limits.growth import Growth
from hutch.jail.limits.limit_hits import UNKNOWN, Cause, Hits, size
from hutch.jail.limits.locks import listed, locks
from hutch.jail.limits.oom import Raising
from hutch.jail.limits.unlinked_files import UnlinkedFiles, find_unlinked_files
from hutch.jail.limits.usage import Usage, shared_memory_device, tmpfs_use, usage
from hutch.jail.policy import HOME, Limits

TMPFS = {"/tmp": "tmp_bytes", "/dev/shm": "shm_bytes", HOME: "home_bytes"}
WORKSPACE = ("workspace_growth_bytes", "workspace_growth_files")
SLACK = 20  # a 20th more is allowed after a hit, as space for cleaning up
PATIENCE, FAR = 3, 2  # after so many hits, and so many times over, the workspace must be cleaned from outside


@dataclass(frozen=True, slots=True)
class Left:
    """The usage that remained when a limit had been hit, and the number of hits in a row."""

    used: int
    times: int


class Look:
    """Inspects one jail and remembers which limits were hit."""

    def __init__(self, limits: Limits, group: Cgroup | None, *, warden: int, workspace: int) -> None:
        self.hits = Hits()
        self.members: list[Member] = []
        self.is_clearing = False  # set by an inspection before it kills; reset by the watcher after clearing
        self.reapers_to_end: frozenset[int] = frozenset()  # if empty, all commands must end
        self.pulse = Pulse()
        self._limits = limits
        self._group = group
        self._warden = warden
        self._counting = threading.Lock()
        self._counted = (0, 0) if group is None else (group.kills(), group.refused_forks())
        self._biggest: Member | None = None  # in a jail that has used half of its memory
        self._biggest_started_at = 0.0
        self._raising = Raising(warden, memory_bytes=limits.memory_bytes) if group is not None else None
        self._left: dict[LimitHit, Left] = {}
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
        self._tmpfs = {path: os.open(f"/proc/{warden}/root{path}", flags) for path in TMPFS}
        self._terminals = os.open(f"/proc/{warden}/root/dev/pts", flags)
        self._workspace = workspace  # ours to close from here on
        self.growth = Growth(
            self._workspace,
            most_bytes=limits.workspace_growth_bytes,
            most_files=limits.workspace_growth_files,
            find_unlinked_files=self._unlinked_files,
            standstill=lambda: standstill(warden),
        )

    def look(self) -> tuple[bool, int]:
        """Returns whether the jail must be cleared, and the memory it uses. Notes the limits that were
        hit. Blocks."""
        self.members, self.reapers_to_end = members(self._warden), frozenset()
        self.pulse.follow(
            [
                (self._warden, self._warden),
                *((each.pid, thread) for each in self.members for thread in each.threads),
            ]
        )
        if self._raising is not None:
            self._raising.follow(each.pid for each in self.members if not each.trusted)
        is_over, memory_bytes = (
            self._watch_processes() if self._group is None else self._watch_group(self._group)
        )
        over = [hit for hit, used, most in self._kept(self.growth.grown()) if self._is_over(hit, used, most)]
        over += self._over_in_terminals() + self._over_in_locks()
        if over:
            self.reapers_to_end = frozenset()
        self.is_clearing = is_over or bool(over)
        self.hits.note(over)
        self.hits.note(hit for hit, full in self._full() if self._is_over(hit, full, 0))
        return self.is_clearing, memory_bytes

    def has_counted(self) -> bool:
        """True when the kernel has counted hits that are not noted yet."""
        if self._group is None:
            return False
        return (self._group.kills(), self._group.refused_forks()) != self._counted

    def count(self, *, closely: bool = False) -> None:
        """Note hits of the limits that the kernel enforces, as counted since the last call. `closely`
        lists the processes again to find the forking command, which blocks briefly."""
        if self._group is None:
            return
        with self._counting:
            kills, refused_forks = self._counted
            self._counted = self._group.kills(), self._group.refused_forks()
            if self._counted[0] > kills:
                self.hits.note([LimitHit("memory_bytes", size(self._limits.memory_bytes))], self._victim())
            if self._counted[1] > refused_forks:
                jail = members(self._warden) if closely else self.members
                self.hits.note_once(LimitHit("processes", f"{self._limits.processes}"), self._forker(jail))

    def used_up(self) -> list[LimitHit]:
        """The limits with nothing left at this moment, from an inspection of its own. Blocks briefly."""
        # 3 more: the warden, the command that has just ended, and a child of it that may have ended before.
        # That child was the last process allowed when a fork was refused.
        processes = sum(max(1, len(each.threads)) for each in members(self._warden)) + 3
        used_up = [hit for hit, full in self._full() if full]
        if self._group is None and processes >= self._limits.processes:  # a cgroup reports it itself
            used_up.append(LimitHit("processes", f"{self._limits.processes}"))
        return used_up

    def note_memory(self) -> None:
        """Note that memory ran out and every command is ended, whichever took too much."""
        self.hits.note([LimitHit("memory_bytes", size(self._limits.memory_bytes))])

    def settle(self) -> None:
        """Record what remains after all were killed, so that the next command is not blamed for it.
        Blocks."""
        for hit, used, most in self._kept(self.growth.measured()):
            times = self._left[hit].times if hit in self._left else 1
            self._left.pop(hit, None)
            if used > most:
                self._left[hit] = Left(used, times)

    def is_beyond(self) -> LimitHit | None:
        """The workspace limit that was hit repeatedly with nothing deleted in between: each time some more
        was written before the hit was seen."""
        for hit, left in self._left.items():
            most = getattr(self._limits, hit.limit, 0)
            if hit.limit in WORKSPACE and left.times >= PATIENCE and left.used > FAR * most:
                return hit
        return None

    def close(self) -> None:
        for fd in (*self._tmpfs.values(), self._workspace, self._terminals):
            os.close(fd)
        self.pulse.close()

    def _watch_group(self, group: Cgroup) -> tuple[bool, int]:
        self.count(closely=True)
        self._biggest = None
        if group.used_bytes() > self._limits.memory_bytes // 2:
            commands = [each for each in self.members if not each.trusted]
            self._biggest = max(commands, key=lambda each: resident_pages(each.pid), default=None)
            self._biggest_started_at = (
                job_started_at(self._biggest.pid, warden=self._warden) if self._biggest else 0.0
            )
        used = group.uncounted_bytes()
        if is_over := used > self._limits.memory_bytes // 2:
            self.hits.note([LimitHit("memory_bytes", size(self._limits.memory_bytes))])
        return is_over, used

    def _watch_processes(self) -> tuple[bool, int]:
        limits = self._limits
        in_files = sum(tmpfs_use(fd)[0] for fd in self._tmpfs.values())
        held = self._held_for_sure(in_files)
        total = held.memory_bytes + in_files
        if held.descriptors > limits.descriptors:
            self.hits.note([LimitHit("descriptors", f"{limits.descriptors}")])
            return True, total
        if held.mappings > limits.mappings:
            self.hits.note([LimitHit("mappings", f"{limits.mappings}")])
            return True, total
        if total > limits.memory_bytes:
            memory = LimitHit("memory_bytes", size(limits.memory_bytes))
            # Kill only the largest process if that is enough; it may have ended and returned as another.
            is_enough = total - held.biggest_bytes <= limits.memory_bytes
            victim = self._cause(held.biggest)
            if is_enough and kill_if_inside(held.biggest, warden=self._warden):
                self.hits.note([memory], victim)
                return False, total
            self.is_clearing = True
            ending = self.reapers_to_end = commands_to_end(held.by_command, total - limits.memory_bytes)
            numbers = frozenset(map(number_inside, ending))
            self.hits.note([memory], UNKNOWN if 0 in numbers else Cause(numbers))
            for each in self.members:  # immediately: the warden competes with them for the processor
                if not each.trusted and (each.reaper in ending or not ending):
                    kill_if_inside(each.pid, warden=self._warden)
            return True, total
        if held.processes + 1 >= limits.processes:  # the warden counts too
            self.hits.note_once(LimitHit("processes", f"{limits.processes}"), self._forker(self.members))
        return False, total

    def _victim(self) -> Cause:
        """The command whose process the kernel has killed: the largest process, if it has ended."""
        biggest = self._biggest
        if biggest is None or not is_dying(biggest):
            return UNKNOWN
        return Cause(frozenset({number_inside(biggest.reaper)} - {0}), self._biggest_started_at)

    def _cause(self, pid: int) -> Cause:
        reapers = {number_inside(each.reaper) for each in self.members if each.pid == pid}
        return Cause(frozenset(reapers - {0}), job_started_at(pid, warden=self._warden))

    def _forker(self, jail: list[Member]) -> Cause:
        """The command that has more than half of the processes that are allowed."""
        threads = Counter[int]()
        for each in jail:
            threads[each.reaper] += 0 if each.trusted else max(1, len(each.threads))
        for reaper, count in threads.most_common(1):
            if count > self._limits.processes // 2 and (number := number_inside(reaper)):
                return Cause(frozenset({number}))
        return UNKNOWN

    def _held_for_sure(self, in_files: int) -> Usage:
        """The jail's usage. If it exceeds a limit and a process has ended or is ending, count again while
        all are frozen.

        Killed processes take time to end, pages shared by a process tree were counted once for each, and
        memory passed from process to process must not be missed.
        """
        held = self._held(self.members, in_files)
        if not self._is_too_much(held, in_files) or not any(map(is_dying, self.members)):
            return held
        with standstill(self._warden):
            return self._held([each for each in members(self._warden) if not is_dying(each)], in_files)

    def _held(self, jail: list[Member], in_files: int) -> Usage:
        limits = self._limits
        return usage(
            self._warden,
            jail,
            most_bytes=limits.memory_bytes - in_files,
            most_descriptors=limits.descriptors,
            most_mappings=limits.mappings,
        )

    def _is_too_much(self, held: Usage, in_files: int) -> bool:
        limits = self._limits
        return (
            held.memory_bytes + in_files > limits.memory_bytes
            or held.descriptors > limits.descriptors
            or held.mappings > limits.mappings
        )

    def _unlinked_files(self) -> UnlinkedFiles:
        memory = {os.fstat(fd).st_dev for fd in self._tmpfs.values()} | {shared_memory_device()}
        return find_unlinked_files(members(self._warden), skip=memory)

    def _kept(self, grown: tuple[int, int]) -> list[tuple[LimitHit, int, int]]:
        """Usage that remains when processes are killed: the limit, the amount used, the maximum."""
        limits = self._limits
        most_bytes, most_files = limits.workspace_growth_bytes, limits.workspace_growth_files
        most = limits.tmpfs_files
        return [
            *(
                (LimitHit("tmpfs_files", f"{most} in {path}"), tmpfs_use(fd)[1], most)
                for path, fd in self._tmpfs.items()
            ),
            (LimitHit("workspace_growth_bytes", size(most_bytes)), grown[0], most_bytes),
            (LimitHit("workspace_growth_files", f"{most_files}"), grown[1], most_files),
        ]

    def _full(self) -> list[tuple[LimitHit, bool]]:
        """The limits of each tmpfs, and whether it is full. Then writes fail, and no process is stopped."""
        sizes = {name: getattr(self._limits, name) for name in TMPFS.values()}
        return [
            (LimitHit(name, size(sizes[name])), os.fstatvfs(self._tmpfs[path]).f_bfree == 0)
            for path, name in TMPFS.items()
        ]

    def _over_in_terminals(self) -> list[LimitHit]:
        most = self._limits.terminals
        there = len(os.listdir(self._terminals)) - 1  # without ptmx  # noqa: PTH208
        return [LimitHit("terminals", f"{most}")] if there > most else []

    def _over_in_locks(self) -> list[LimitHit]:
        most = self._limits.locks
        own = {os.fstat(fd).st_dev for fd in self._tmpfs.values()}
        hides = lambda: self._unlinked_files().maybe_more  # noqa: E731
        there = locks(self.members, listed(), most=most, devices=own, hides=hides)
        return [LimitHit("locks", f"{most}")] if there > most else []

    def _is_over(self, hit: LimitHit, used: int, most: int) -> bool:
        """Whether usage exceeds the limit for the first time, or by more than remained after the last hit:
        a jail over its limit must still be able to delete files."""
        left = self._left.get(hit)
        if used <= most:
            self._left.pop(hit, None)
        elif left is None or used > max(most, left.used) + most // SLACK:
            self._left[hit] = Left(used, left.times + 1 if left else 1)
            return True
        elif used < left.used:
            self._left[hit] = Left(used, left.times)
        return False


def commands_to_end(held: Mapping[int, int], excess_bytes: int) -> frozenset[int]:
    """The commands that use the most memory, as many as needed to free that much; none if all are not
    enough."""
    chosen: set[int] = set()
    for reaper in sorted(held, key=held.__getitem__, reverse=True):
        chosen.add(reaper)
        excess_bytes -= held[reaper]
        if excess_bytes <= 0:
            return frozenset(chosen)
    return frozenset()
