"""Which limits were hit, by name, so that a command's result can tell.

Limits are those of a whole jail, and several commands may run in it. A result names
a limit only if it was hit by that command: if the watcher saw whose processes hit it,
that decides. Otherwise the command must have been alone in the jail, or have failed.
"""

import time
from collections.abc import Iterable
from dataclasses import dataclass

from hutch.jail.interface import Exit, LimitHit
from hutch.jail.policy import GIB, KIB, MIB, Limits

SIGXCPU, SIGXFSZ = 24, 25
TICK_S = 0.01  # the kernel rounds starts down to this


@dataclass(frozen=True, slots=True)
class Cause:
    """Whose processes hit a limit, as far as the watcher saw it."""

    reapers: frozenset[int] = frozenset()  # of their commands, numbered as in the jail; empty: not known
    started_at: float | None = None  # when the job that a process was killed of had started, by `now`


UNKNOWN = Cause()


@dataclass(frozen=True, slots=True)
class Suspect:
    """A command that has ended, and may have hit a limit."""

    reaper: int
    began_at: float  # on the clock of `now`
    has_failed: bool
    was_alone: bool  # in the jail, from its start to its end
    is_lost: bool = False  # a shell that ended with its command: its own process is older than that

    def hit(self, cause: Cause) -> bool:
        """Whether the hit was this command's."""
        if not cause.reapers:
            return self.was_alone or self.has_failed
        is_older = cause.started_at is not None and cause.started_at < self.began_at - TICK_S
        return self.reaper in cause.reapers and (self.is_lost or not is_older)


class Hits:
    """Those of one jail, in their order. Who remembers how many there were can tell what is new."""

    def __init__(self) -> None:
        self.noted: list[tuple[LimitHit, Cause]] = []
        self._asked = 0

    def note(self, hits: Iterable[LimitHit], cause: Cause = UNKNOWN) -> None:
        self.noted += [(hit, cause) for hit in hits]

    def note_once(self, hit: LimitHit, cause: Cause = UNKNOWN) -> None:
        """What is seen many times is noted once for each who asks."""
        if (hit, cause) not in self.noted[self._asked :]:
            self.noted.append((hit, cause))

    def ask(self) -> None:
        """Somebody wants to know what comes from here on."""
        self._asked = len(self.noted)


def now() -> float:
    """The clock by which the kernel says when a process started."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def hit_by_signal(ended: Exit, limits: Limits) -> LimitHit | None:
    """The limit that a command's own end tells of. An exit code tells none: a shell reports a child's signal
    as 128 and more, but so can anybody."""
    if ended.signal == SIGXFSZ:
        return LimitHit("file_bytes", size(limits.file_bytes))
    if ended.signal == SIGXCPU and limits.cpu_s is not None:
        return LimitHit("cpu_s", f"{limits.cpu_s} s")
    return None


def size(count: int) -> str:
    """Bytes, for people."""
    for unit, name in ((GIB, "GiB"), (MIB, "MiB"), (KIB, "KiB")):
        if count >= unit:
            return f"{count / unit:.4g} {name}"
    return f"{count} bytes"
