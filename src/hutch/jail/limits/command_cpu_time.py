"""The processor time of each command, with all processes that it starts.

The kernel adds the time of a process to its parent's when the parent waits for it, so the sum over
the living processes below a reaper is the time of its command. A parent that ignores its children
evades that: the kernel forgets their time. A command that starts thousands of short processes this
way would cost nothing.

So the time is also estimated by sampling. A process that was not there at the last inspection, and
is running now, stands for all short ones in between: it counts for the whole time since then, as
far as it got the processor. For honest commands both numbers agree. The larger one counts.
"""

import os
import time
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import field

from hutch.jail.jail_processes import TICKS, Member, number_inside, read
from hutch.system.lazy_dataclass import dataclass


@dataclass(slots=True)
class Budget:
    """The time of one command."""

    max_s: float
    began_at: float
    waited_before_s: float  # the kernel's sum below its reaper when it began
    sampled_s: float = 0.0
    waited_s: float = 0.0

    @property
    def used_s(self) -> float:
        return max(self.waited_s - self.waited_before_s, self.sampled_s)


@dataclass(slots=True)
class CpuTimes:
    """Counts the processor time of the commands that have a limit, by the pid of their reaper inside."""

    default_s: float | None = None  # of commands whose start was not announced
    _budgets: dict[int, Budget] = field(default_factory=dict)
    _own_s: dict[tuple[int, int], float] = field(default_factory=dict)  # (pid, start): time of its own
    _inspected_at: float = 0.0

    def __bool__(self) -> bool:
        return self.default_s is not None or bool(self._budgets)

    def begin(self, reaper: int, max_s: float | None, jail: Iterable[Member]) -> None:
        """Start to count for the next command of a reaper; None: it has no limit."""
        self._budgets.pop(reaper, None)
        if max_s is not None:
            waited_s = sum(_times(each.pid)[1] for each in jail if number_inside(each.reaper) == reaper)
            self._budgets[reaper] = Budget(max_s, time.monotonic(), waited_s)

    def exceeded(self, jail: Iterable[Member]) -> dict[int, Budget]:
        """The commands over their limits: budgets by the pid of the reaper on this side. Blocks briefly."""
        now, before = time.monotonic(), self._inspected_at
        own_before_s, self._inspected_at, self._own_s = self._own_s, now, {}
        waited_s: dict[int, float] = defaultdict(float)
        sampled_s: dict[int, float] = defaultdict(float)
        reapers: dict[int, int] = {}  # of commands with processes: the pid inside, and on this side
        for each in jail:
            number = number_inside(each.reaper)
            own, tree, start = _times(each.pid)
            waited_s[number] += tree
            if each.trusted:
                continue
            reapers[number] = each.reaper
            key = (each.pid, start)
            self._own_s[key] = own
            if key in own_before_s:
                sampled_s[number] += own - own_before_s[key]
            elif budget := self._budgets.get(number):
                sampled_s[number] += _running_share(each) * (now - max(before, budget.began_at))
        if self.default_s is not None:
            for number in reapers.keys() - self._budgets.keys():
                self._budgets[number] = Budget(self.default_s, now, waited_s[number])
        for number in self._budgets.keys() - waited_s.keys():
            del self._budgets[number]  # its reaper is gone
        for number, budget in self._budgets.items():
            most_s = (os.cpu_count() or 1) * (now - max(before, budget.began_at))
            budget.sampled_s += min(sampled_s[number], most_s)
            budget.waited_s = max(budget.waited_s, waited_s[number])
        return {
            reapers[number]: budget
            for number, budget in self._budgets.items()
            if number in reapers and budget.used_s > budget.max_s
        }


def _times(pid: int) -> tuple[float, float, int]:
    """The time of a process alone, that with the children it waited for, and its start."""
    fields = read(f"/proc/{pid}/stat").rpartition(b")")[2].split()
    if len(fields) < 20:  # it has ended
        return 0.0, 0.0, 0
    user, system, children_user, children_system = map(int, fields[11:15])
    own = (user + system) / TICKS
    return own, own + (children_user + children_system) / TICKS, int(fields[19])


def _running_share(member: Member) -> float:
    """How much of a processor its running threads get: 1 for each that never had to wait."""
    share = 0.0
    for thread in member.threads:
        directory = f"/proc/{member.pid}/task/{thread}"
        if read(f"{directory}/stat").rpartition(b") ")[2][:1] == b"R":
            ran_ns, waited_ns = (int(part) for part in read(f"{directory}/schedstat").split()[:2] or (0, 0))
            share += (ran_ns / (ran_ns + waited_ns)) if ran_ns else 0.0
    return share
