"""Decides which command of a jail hit a limit, for the results of commands.

Limits apply to a whole jail, in which several commands may run. A result names a limit
only if its own command hit it. If the watcher saw whose processes hit the limit, that
decides. Otherwise the command must have been alone in the jail, or have failed.
"""

import time
from collections.abc import Iterable

from hutch.domain.byte_size_formatting import readable_size
from hutch.jail.interface import Exit, LimitHit
from hutch.jail.policy import Limits
from hutch.system.lazy_dataclass import dataclass

SIGXCPU, SIGXFSZ = 24, 25
TICK_S = 0.01  # the kernel rounds starts down to this


@dataclass(frozen=True, slots=True)
class HitBy:
    """The commands whose processes hit a limit, as far as the watcher saw them."""

    reapers: frozenset[int] = frozenset()  # of their commands, by pid in the jail; empty if unknown
    started_at: float | None = None  # start of the job whose process was killed, on the clock of `now`


UNKNOWN = HitBy()


@dataclass(frozen=True, slots=True)
class EndedCommand:
    """A command that has ended, to find out whether it hit a limit."""

    reaper: int
    began_at: float  # on the clock of `now`
    has_failed: bool
    was_alone: bool  # in the jail, from its start to its end
    is_lost: bool = False  # the shell ended with its command; its process is older than the command

    def hit(self, by: HitBy) -> bool:
        """True if this command hit the limit."""
        if not by.reapers:
            return self.was_alone or self.has_failed
        is_older = by.started_at is not None and by.started_at < self.began_at - TICK_S
        return self.reaper in by.reapers and (self.is_lost or not is_older)


class LimitHits:
    """The limits hit in one jail, in order. Callers remember the count to find what is new."""

    def __init__(self) -> None:
        self.noted: list[tuple[LimitHit, HitBy]] = []
        self._window_start = 0

    def note(self, hits: Iterable[LimitHit], by: HitBy = UNKNOWN) -> None:
        self.noted += [(hit, by) for hit in hits]

    def note_once(self, hit: LimitHit, by: HitBy = UNKNOWN) -> None:
        """Note a hit that is seen many times only once per caller of `start_window`."""
        if (hit, by) not in self.noted[self._window_start :]:
            self.noted.append((hit, by))

    def start_window(self) -> None:
        """Start a new window for `note_once`: a caller wants to know every hit from here on."""
        self._window_start = len(self.noted)


def now() -> float:
    """The clock on which the kernel gives start times of processes."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def limit_of_signal(ended: Exit, limits: Limits) -> LimitHit | None:
    """The limit that explains how a command ended. Exit codes explain nothing: a shell reports a child's
    signal as 128 and more, but any program can exit with that."""
    if ended.signal == SIGXFSZ:
        return LimitHit("file_bytes", readable_size(limits.file_bytes))
    if ended.signal == SIGXCPU and limits.cpu_time_s is not None:
        return LimitHit("cpu_time_s", f"{limits.cpu_time_s} s")
    return None


def tmpfs_hit(name: str, size_bytes: int, limits: Limits) -> LimitHit:
    """The limit of a tmpfs of this size, with the size that was set if `memory_bytes` has reduced it."""
    as_set = dict(limits.tmpfs_as_set).get(name, 0)
    if as_set <= size_bytes:
        return LimitHit(name, readable_size(size_bytes))
    memory = readable_size(limits.memory_bytes)
    reason = f"instead of {readable_size(as_set)} because of memory_bytes {memory}"
    return LimitHit(name, f"{readable_size(size_bytes)} {reason}", raise_by="memory_bytes")
