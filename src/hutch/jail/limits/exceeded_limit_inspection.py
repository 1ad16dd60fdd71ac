"""One inspection of a jail for exceeded limits that the kernel does not enforce.

Each stop is noted with the limit's name, for the command's result. An inspection
blocks, so it runs in a thread.
"""

import os
import threading
from collections import Counter
from collections.abc import Mapping, Sequence

from hutch.domain.byte_size_formatting import readable_size
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
from hutch.jail.limits.cgroup import Cgroup
from hutch.jail.limits.command_cpu_time import CpuTimes
from hutch.jail.limits.command_memory_limit import CommandMemory, memory_hit
from hutch.jail.limits.disk_growth import MAX_DEPTH, Growth
from hutch.jail.limits.file_lock_count import count_locks, list_locks
from hutch.jail.limits.freeze_while_counting import freeze
from hutch.jail.limits.jail_activity_detection import ThreadActivity
from hutch.jail.limits.limit_hit_attribution import UNKNOWN, HitBy, LimitHits, tmpfs_hit
from hutch.jail.limits.oom_scores import ScoreRaiser
from hutch.jail.limits.resource_usage_without_cgroup import Usage, shared_memory_device, tmpfs_use, usage
from hutch.jail.limits.unlinked_files import UnlinkedFiles, find_unlinked_files
from hutch.jail.policy import HOME, Limits
from hutch.system.lazy_dataclass import dataclass

TMPFS = {"/tmp": "tmp_bytes", "/dev/shm": "shm_bytes", HOME: "home_bytes"}
WORKSPACE = ("workspace_growth_bytes", "workspace_growth_files")
TOO_DEEP = LimitHit("workspace_depth", f"{MAX_DEPTH} levels")
SLACK = 20  # a 20th more is allowed after a hit, as space for cleaning up
MAX_HITS, MAX_FACTOR = 3, 2  # after so many hits and so many times over, only cleaning from outside helps


@dataclass(frozen=True, slots=True)
class Leftover:
    """The usage that remained when a limit had been hit, and the number of hits in a row."""

    used: int
    times: int


class Inspector:
    """Inspects one jail and remembers which limits were hit."""

    def __init__(self, limits: Limits, group: Cgroup | None, *, warden: int, workspace: int) -> None:
        self.hits = LimitHits()
        self.members: list[Member] = []
        self.is_clearing = False  # set by an inspection before it kills; reset by the watcher after clearing
        self.reapers_to_end: frozenset[int] = frozenset()  # if empty, all commands must end
        self.activity = ThreadActivity()
        self._limits = limits
        self._group = group
        self._warden = warden
        self._counting = threading.Lock()
        self._counted = (0, 0) if group is None else (group.kills(), group.refused_forks())
        self.command_memory = CommandMemory(group, warden=warden, hits=self.hits)
        self._cpu_times = CpuTimes(limits.cpu_time_s)
        self._measuring = threading.Lock()  # commands end in another thread
        self._timing = threading.Lock()  # commands begin in another thread
        self._ended_for = memory_hit(limits.memory_bytes)  # by the last inspection
        self._biggest: Member | None = None  # in a jail that has used half of its memory
        self._biggest_started_at = 0.0
        self._score_raiser = (
            ScoreRaiser(warden, memory_bytes=limits.memory_bytes) if group is not None else None
        )
        self._leftovers: dict[LimitHit, Leftover] = {}
        self._full: set[LimitHit] = set()  # of each tmpfs that was full when last looked at
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
        self._tmpfs = {path: os.open(f"/proc/{warden}/root{path}", flags) for path in TMPFS}
        self._terminals = os.open(f"/proc/{warden}/root/dev/pts", flags)
        self._workspace = workspace  # ours to close from here on
        self.growth = Growth(
            self._workspace,
            max_bytes=limits.workspace_growth_bytes,
            max_files=limits.workspace_growth_files,
            find_unlinked_files=self._unlinked_files,
            freeze=lambda: freeze(warden),
        )

    def inspect(self) -> tuple[bool, int]:
        """Note the limits that were hit. Returns whether the jail must be cleared, and its memory. Blocks."""
        self.members, self.reapers_to_end = members(self._warden), frozenset()
        self.activity.follow(
            [
                (self._warden, self._warden),
                *((each.pid, thread) for each in self.members for thread in each.threads),
            ]
        )
        if self._score_raiser is not None:
            self._score_raiser.follow(each.pid for each in self.members if not each.trusted)
        is_over, memory_bytes = (
            self._watch_processes() if self._group is None else self._watch_group(self._group)
        )
        with self._measuring:
            over = self._over_in_files(self.growth.grown())
        over += self._over_in_terminals() + self._over_in_locks()
        if not over and not (is_over and not self.reapers_to_end):
            is_over = self._end_for_cpu_time() or is_over
            exceeded = self.command_memory.kill_exceeding(self.members, self._memory_of)
            self._ended_for = next(iter(exceeded.values()), self._ended_for)
            self.reapers_to_end |= exceeded.keys()
            is_over = bool(exceeded) or is_over
        if over:
            self.reapers_to_end = frozenset()
        self.is_clearing = is_over or bool(over)
        self.hits.note(over)
        self.count_full()
        return self.is_clearing, memory_bytes

    def note_growth(self, reaper: int) -> LimitHit | None:
        """Note a limit of the workspace that a command has exceeded which has just ended: a short one writes
        much between two inspections. Blocks the thread."""
        with self._measuring:
            over = self._over_in_files(self.growth.measured())
            self.hits.note(over, HitBy(frozenset({reaper} - {0})))
        return next(iter(over), None)

    def change(self, limits: Limits) -> None:
        """Apply other limits from now on."""
        self._limits = limits
        with self._timing:
            self._cpu_times.default_s = limits.cpu_time_s
        self.growth.change(max_bytes=limits.workspace_growth_bytes, max_files=limits.workspace_growth_files)

    def begin_command(self, reaper: int, cpu_time_s: float | None) -> None:
        """Count the processor time of the next command of a reaper, given by its pid inside. Blocks briefly
        when there is a limit."""
        with self._timing:
            if cpu_time_s is not None or self._cpu_times:
                jail = members(self._warden) if cpu_time_s is not None else []
                self._cpu_times.begin(reaper, cpu_time_s, jail)

    def _end_for_cpu_time(self) -> bool:
        """Note the commands that have used up their processor time, and have them ended."""
        with self._timing:
            exceeded = self._cpu_times.exceeded(self.members) if self._cpu_times else {}
        for reaper, budget in exceeded.items():
            self._ended_for = LimitHit("cpu_time_s", f"{budget.max_s:g} s")
            self.hits.note_once(self._ended_for, HitBy(frozenset({number_inside(reaper)} - {0})))
        self.reapers_to_end |= exceeded.keys()
        return bool(exceeded)

    def has_counted(self) -> bool:
        """True when the kernel has counted hits that are not noted yet."""
        if self._group is None:
            return False
        is_new = (self._group.kills(), self._group.refused_forks()) != self._counted
        return is_new or self.command_memory.has_counted()

    def count(self, *, closely: bool = False) -> None:
        """Note hits of the limits that the kernel enforces, as counted since the last call. `closely`
        lists the processes again to find the forking command, which blocks briefly."""
        self.count_full()
        if self._group is None:
            return
        with self._counting:
            kills, refused_forks = self._counted
            self._counted = self._group.kills(), self._group.refused_forks()
            self.command_memory.count()
            if self._counted[0] > kills:
                self.hits.note([memory_hit(self._limits.memory_bytes)], self._victim())
                self._biggest = None  # the next kill is of another process
            if self._counted[1] > refused_forks:
                jail = members(self._warden) if closely else self.members
                self.hits.note_once(LimitHit("processes", f"{self._limits.processes}"), self._forker(jail))

    def count_full(self) -> None:
        """Note each tmpfs that has become full since the last call. Called at the start and at the end of
        each command, so that no other command is blamed for it."""
        with self._counting:
            full = [hit for hit, is_full in self._tmpfs_full() if is_full]
            self.hits.note([hit for hit in full if hit not in self._full])
            self._full = set(full)

    def full_tmpfs(self) -> LimitHit | None:
        """The limit of a tmpfs that is full now, if there is one."""
        with self._counting:
            return next((hit for hit, is_full in self._tmpfs_full() if is_full), None)

    def used_up(self) -> list[LimitHit]:
        """The limits with nothing left at this moment, from an inspection of its own. Blocks briefly."""
        # 3 more: the warden, the command that has just ended, and a child of it that may have ended before.
        # That child was the last process allowed when a fork was refused.
        processes = sum(max(1, len(each.threads)) for each in members(self._warden)) + 3
        used_up = [hit for hit, full in self._tmpfs_full() if full]
        if self._group is None and processes >= self._limits.processes:  # a cgroup reports it itself
            used_up.append(LimitHit("processes", f"{self._limits.processes}"))
        return used_up

    def note_cleared(self) -> None:
        """Note that every command is ended for a limit, whichever hit it."""
        self.hits.note([self._ended_for])

    def record_leftovers(self) -> None:
        """Record what remains after all were killed, so that the next command is not blamed for it.
        Blocks the thread."""
        with self._measuring:
            for hit, used, maximum in self._persistent_use(self.growth.measured()):
                times = self._leftovers[hit].times if hit in self._leftovers else 1
                self._leftovers.pop(hit, None)
                if used > maximum:
                    self._leftovers[hit] = Leftover(used, times)

    def exhausted_limit(self) -> LimitHit | None:
        """The workspace limit that was hit repeatedly with nothing deleted in between: each time some more
        was written before the hit was seen."""
        for hit, leftover in self._leftovers.items():
            maximum = getattr(self._limits, hit.limit, 0)
            if hit.limit in WORKSPACE and leftover.times >= MAX_HITS and leftover.used > MAX_FACTOR * maximum:
                return hit
        return None

    def close(self) -> None:
        with self._counting:  # results of commands that ended with the jail may still be asked for
            tmpfs, self._tmpfs = self._tmpfs, {}
        for fd in (*tmpfs.values(), self._workspace, self._terminals):
            os.close(fd)
        self.activity.close()

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
            self.hits.note([memory_hit(self._limits.memory_bytes)])
        return is_over, used

    def _watch_processes(self) -> tuple[bool, int]:
        limits = self._limits
        in_files = sum(tmpfs_use(fd)[0] for fd in self._tmpfs.values())
        used_now = self._confirmed_usage(in_files)
        total = used_now.memory_bytes + in_files
        if used_now.descriptors > limits.descriptors:
            self.hits.note([LimitHit("descriptors", f"{limits.descriptors}")])
            return True, total
        if used_now.mappings > limits.mappings:
            self.hits.note([LimitHit("mappings", f"{limits.mappings}")])
            return True, total
        if total > limits.memory_bytes:
            memory = memory_hit(limits.memory_bytes)
            # Kill only the largest process if that is enough; it may have ended and returned as another.
            is_enough = total - used_now.biggest_bytes <= limits.memory_bytes
            victim = self._hit_by(used_now.biggest)
            if is_enough and kill_if_inside(used_now.biggest, warden=self._warden):
                self.hits.note([memory], victim)
                return False, total
            self.is_clearing, self._ended_for = True, memory
            ending = self.reapers_to_end = commands_to_end(used_now.by_command, total - limits.memory_bytes)
            numbers = frozenset(map(number_inside, ending))
            self.hits.note([memory], UNKNOWN if 0 in numbers else HitBy(numbers))
            for each in self.members:  # immediately: the warden competes with them for the processor
                if not each.trusted and (each.reaper in ending or not ending):
                    kill_if_inside(each.pid, warden=self._warden)
            return True, total
        if used_now.processes + 1 >= limits.processes:  # the warden counts too
            self.hits.note_once(LimitHit("processes", f"{limits.processes}"), self._forker(self.members))
        return False, total

    def _victim(self) -> HitBy:
        """The command whose process the kernel has killed: the largest process, if it has ended."""
        biggest = self._biggest
        if biggest is None or not is_dying(biggest):
            return UNKNOWN
        return HitBy(frozenset({number_inside(biggest.reaper)} - {0}), self._biggest_started_at)

    def _hit_by(self, pid: int) -> HitBy:
        reapers = {number_inside(each.reaper) for each in self.members if each.pid == pid}
        return HitBy(frozenset(reapers - {0}), job_started_at(pid, warden=self._warden))

    def _forker(self, jail: list[Member]) -> HitBy:
        """The command that has more than half of the processes that are allowed."""
        threads = Counter[int]()
        for each in jail:
            threads[each.reaper] += 0 if each.trusted else max(1, len(each.threads))
        for reaper, count in threads.most_common(1):
            if count > self._limits.processes // 2 and (number := number_inside(reaper)):
                return HitBy(frozenset({number}))
        return UNKNOWN

    def _confirmed_usage(self, in_files: int) -> Usage:
        """The jail's usage, counted again while all are frozen if it exceeds a limit and may be less.

        Killed processes take time to end, pages shared by a process tree were counted once for each,
        memory passed on must not be missed, and on a busy machine a process is slow to read.
        """
        used_now = self._measure_usage(self.members, in_files)
        is_sure = not used_now.is_bound and not any(map(is_dying, self.members))
        if is_sure or not self._is_too_much(used_now, in_files):
            return used_now
        with freeze(self._warden) as frozen:
            living = [each for each in members(self._warden) if not is_dying(each)]
            return self._measure_usage(living, in_files, frozen=frozen)

    def _memory_of(self, jail: Sequence[Member], max_bytes: int) -> int:
        """The memory of some processes, without files in a tmpfs."""
        return self._measure_usage(jail, self._limits.memory_bytes - max_bytes).memory_bytes

    def _measure_usage(self, jail: Sequence[Member], in_files: int, *, frozen: bool = False) -> Usage:
        limits = self._limits
        return usage(
            self._warden,
            jail,
            max_bytes=limits.memory_bytes - in_files,
            max_descriptors=limits.descriptors,
            max_mappings=limits.mappings,
            frozen=frozen,
        )

    def _is_too_much(self, used_now: Usage, in_files: int) -> bool:
        limits = self._limits
        return (
            used_now.memory_bytes + in_files > limits.memory_bytes
            or used_now.descriptors > limits.descriptors
            or used_now.mappings > limits.mappings
        )

    def _unlinked_files(self) -> UnlinkedFiles:
        memory = {os.fstat(fd).st_dev for fd in self._tmpfs.values()} | {shared_memory_device()}
        return find_unlinked_files(members(self._warden), skip=memory)

    def _persistent_use(self, grown: tuple[int, int]) -> list[tuple[LimitHit, int, int]]:
        """Usage that remains when processes are killed: the limit, the amount used, the maximum."""
        limits = self._limits
        max_bytes, max_files = limits.workspace_growth_bytes, limits.workspace_growth_files
        maximum = limits.tmpfs_files
        return [
            *(
                (LimitHit("tmpfs_files", f"{maximum} in {path}"), tmpfs_use(fd)[1], maximum)
                for path, fd in self._tmpfs.items()
            ),
            (TOO_DEEP, MAX_DEPTH + self.growth.is_too_deep, MAX_DEPTH),
            (LimitHit("workspace_growth_bytes", readable_size(max_bytes)), grown[0], max_bytes),
            (LimitHit("workspace_growth_files", f"{max_files}"), grown[1], max_files),
        ]

    def _over_in_files(self, grown: tuple[int, int]) -> list[LimitHit]:
        return [hit for hit, *used in self._persistent_use(grown) if self._is_over(hit, *used)]

    def _tmpfs_full(self) -> list[tuple[LimitHit, bool]]:
        """The limits of each tmpfs, and whether it is full. Then writes fail, and no process is stopped."""
        found = {path: os.fstatvfs(fd) for path, fd in self._tmpfs.items()}
        return [
            (tmpfs_hit(TMPFS[path], status.f_blocks * status.f_frsize, self._limits), status.f_bfree == 0)
            for path, status in found.items()
        ]

    def _over_in_terminals(self) -> list[LimitHit]:
        maximum = self._limits.terminals
        count = len(os.listdir(self._terminals)) - 1  # without ptmx  # noqa: PTH208
        return [LimitHit("terminals", f"{maximum}")] if count > maximum else []

    def _over_in_locks(self) -> list[LimitHit]:
        maximum = self._limits.locks
        own = {os.fstat(fd).st_dev for fd in self._tmpfs.values()}
        may_hide_files = lambda: self._unlinked_files().maybe_more  # noqa: E731
        count = count_locks(
            self.members, list_locks(), limit=maximum, devices=own, may_hide_files=may_hide_files
        )
        return [LimitHit("locks", f"{maximum}")] if count > maximum else []

    def _is_over(self, hit: LimitHit, used: int, maximum: int) -> bool:
        """True if usage exceeds the limit for the first time, or by more than remained after the last hit:
        a jail over its limit must still be able to delete files."""
        leftover = self._leftovers.get(hit)
        if used <= maximum:
            self._leftovers.pop(hit, None)
        elif leftover is None or used > max(maximum, leftover.used) + maximum // SLACK:
            self._leftovers[hit] = Leftover(used, leftover.times + 1 if leftover else 1)
            return True
        elif used < leftover.used:
            self._leftovers[hit] = Leftover(used, leftover.times)
        return False


def commands_to_end(used_now: Mapping[int, int], excess_bytes: int) -> frozenset[int]:
    """The commands that use the most memory, as many as needed to free that much; none if all are not
    enough."""
    chosen: set[int] = set()
    for reaper in sorted(used_now, key=used_now.__getitem__, reverse=True):
        chosen.add(reaper)
        excess_bytes -= used_now[reaper]
        if excess_bytes <= 0:
            return frozenset(chosen)
    return frozenset()
