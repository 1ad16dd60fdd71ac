"""The memory of commands that may use less than their jail, such as tests.

A cgroup below the jail's counts all processes of such a command together, from before its first
instruction, and the kernel kills it there. Without cgroups the watcher adds up its processes and ends it,
and RLIMIT_DATA limits each process, which is faster than the watcher.
"""

from collections.abc import Callable, Sequence

from hutch.domain.byte_size_formatting import readable_size
from hutch.jail.interface import LimitHit
from hutch.jail.jail_processes import Member, kill_if_inside, members, number_inside
from hutch.jail.limits.cgroup import Cgroup
from hutch.jail.limits.limit_hit_attribution import HitBy, LimitHits

Measure = Callable[[Sequence[Member], int], int]  # the memory of processes, exact if above a maximum


class CommandMemory:
    """The limits of single commands in one jail."""

    def __init__(self, group: Cgroup | None, *, warden: int, hits: LimitHits) -> None:
        self._group = group
        self._warden = warden
        self._hits = hits
        self._watched: dict[int, int] = {}  # reaper on the host: bytes; where no cgroup could be made
        self._counted: dict[int, int] = {}  # kills by the kernel, by the reaper's pid inside

    def begin(self, reaper: int, memory_bytes: int) -> None:
        """Limit the next command of a reaper, given by its pid inside. It has no processes yet."""
        pid = next((each.pid for each in members(self._warden) if number_inside(each.pid) == reaper), 0)
        self._counted.pop(reaper, None)
        if pid and not (self._group and self._group.limit_command(reaper, pid, memory_bytes)):
            self._watched[pid] = memory_bytes

    def has_counted(self) -> bool:
        """True when the kernel has killed processes that are not noted yet."""
        return any(count > self._counted.get(reaper, 0) for reaper, (_, count) in self._kills().items())

    def count(self) -> None:
        """Note the commands of which the kernel has killed processes since the last call."""
        for reaper, (memory_bytes, count) in self._kills().items():
            if count > self._counted.get(reaper, 0):
                self._counted[reaper] = count
                self._hits.note([memory_hit(memory_bytes)], HitBy(frozenset({reaper})))

    def kill_exceeding(self, jail: Sequence[Member], measure: Measure) -> dict[int, LimitHit]:
        """Kill the watched commands that use more than they may; returns their reapers."""
        living = {each.reaper for each in jail}
        exceeded: dict[int, LimitHit] = {}
        for reaper, memory_bytes in list(self._watched.items()):
            own = [each for each in jail if each.reaper == reaper and not each.trusted]
            if reaper not in living:
                del self._watched[reaper]
            elif measure(own, memory_bytes) > memory_bytes:
                exceeded[reaper] = memory_hit(memory_bytes)
                self._hits.note_once(exceeded[reaper], HitBy(frozenset({number_inside(reaper)} - {0})))
                for each in own:  # immediately: the warden competes with them for the processor
                    kill_if_inside(each.pid, warden=self._warden)
        return exceeded

    def _kills(self) -> dict[int, tuple[int, int]]:
        return self._group.command_kills() if self._group is not None else {}


def memory_hit(memory_bytes: int) -> LimitHit:
    return LimitHit("memory_bytes", readable_size(memory_bytes))
