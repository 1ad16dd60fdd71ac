"""The limits that were hit, by name, for the results of commands.

Limits apply to a whole jail, in which several commands may run. A result names a limit
only if its own command hit it. If the watcher saw whose processes hit the limit, that
decides. Otherwise the command must have been alone in the jail, or have failed.
"""

import math
import time
from collections.abc import Iterable

from hutch.jail.interface import Exit, LimitHit
from hutch.jail.policy import GIB, KIB, MIB, Limits
from hutch.system.lazy_dataclass import dataclass

SIGXCPU, SIGXFSZ = 24, 25
MEMBERS_TIMEOUT = "members.command_timeout_s"
TICK_S = 0.01  # the kernel rounds starts down to this


@dataclass(frozen=True, slots=True)
class Cause:
    """The commands whose processes hit a limit, as far as the watcher saw them."""

    reapers: frozenset[int] = frozenset()  # of their commands, by pid in the jail; empty if unknown
    started_at: float | None = None  # start of the job whose process was killed, on the clock of `now`


UNKNOWN = Cause()


@dataclass(frozen=True, slots=True)
class Suspect:
    """A command that has ended and may have hit a limit."""

    reaper: int
    began_at: float  # on the clock of `now`
    has_failed: bool
    was_alone: bool  # in the jail, from its start to its end
    is_lost: bool = False  # the shell ended with its command; its process is older than the command

    def hit(self, cause: Cause) -> bool:
        """True if this command hit the limit."""
        if not cause.reapers:
            return self.was_alone or self.has_failed
        is_older = cause.started_at is not None and cause.started_at < self.began_at - TICK_S
        return self.reaper in cause.reapers and (self.is_lost or not is_older)


class LimitHits:
    """The limits hit in one jail, in order. Callers remember the count to find what is new."""

    def __init__(self) -> None:
        self.noted: list[tuple[LimitHit, Cause]] = []
        self._window_start = 0

    def note(self, hits: Iterable[LimitHit], cause: Cause = UNKNOWN) -> None:
        self.noted += [(hit, cause) for hit in hits]

    def note_once(self, hit: LimitHit, cause: Cause = UNKNOWN) -> None:
        """Note a hit that is seen many times only once per caller of `start_window`."""
        if (hit, cause) not in self.noted[self._window_start :]:
            self.noted.append((hit, cause))

    def start_window(self) -> None:
        """Start a new window for `note_once`: a caller wants to know every hit from here on."""
        self._window_start = len(self.noted)


def now() -> float:
    """The clock on which the kernel gives start times of processes."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def hit_by_signal(ended: Exit, limits: Limits) -> LimitHit | None:
    """The limit that explains how a command ended. Exit codes explain nothing: a shell reports a child's
    signal as 128 and more, but any program can exit with that."""
    if ended.signal == SIGXFSZ:
        return LimitHit("file_bytes", size(limits.file_bytes))
    if ended.signal == SIGXCPU and limits.cpu_time_s is not None:
        return LimitHit("cpu_time_s", f"{limits.cpu_time_s} s")
    return None


def capped_timeout(asked_s: float, limits: Limits) -> tuple[float, LimitHit]:
    """The timeout of a command that asks for this one, and the limit that it is: its own, or a lower one of
    the jail or of members."""
    own = (asked_s, "command_timeout_s")
    total = (limits.command_total_s, "command_total_s")
    cap = (limits.max_command_timeout_s or math.inf, MEMBERS_TIMEOUT)
    timeout_s, name = min(cap, own, total, key=lambda each: each[0])  # the first of equal ones
    return timeout_s, LimitHit(name, f"{timeout_s:g} s")


def size(count: int) -> str:
    """Bytes as readable text."""
    for unit, name in ((GIB, "GiB"), (MIB, "MiB"), (KIB, "KiB")):
        if count >= unit:
            return f"{count / unit:.4g} {name}"
    return f"{count} bytes"


def tmpfs_hit(name: str, size_bytes: int, limits: Limits) -> LimitHit:
    """The limit of a tmpfs of this size, with the size that was set if `memory_bytes` has reduced it."""
    as_set = dict(limits.tmpfs_as_set).get(name, 0)
    if as_set <= size_bytes:
        return LimitHit(name, size(size_bytes))
    reason = f"instead of {size(as_set)} because of memory_bytes {size(limits.memory_bytes)}"
    return LimitHit(name, f"{size(size_bytes)} {reason}", raise_by="memory_bytes")
