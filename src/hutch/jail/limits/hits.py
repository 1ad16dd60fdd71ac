"""Which limits were hit, by name, so that a command's result can tell."""

from collections.abc import Iterable

from hutch.jail.policy import GIB, KIB, MIB, Limits
from hutch.jail.seam import Exit, LimitHit

SIGXCPU, SIGXFSZ = 24, 25


class Hits:
    """Those of one jail, in their order. Who remembers how many there were can tell what is new."""

    def __init__(self) -> None:
        self.noted: list[LimitHit] = []
        self._asked = 0

    def note(self, hits: Iterable[LimitHit]) -> None:
        self.noted += hits

    def note_once(self, hit: LimitHit) -> None:
        """What is seen many times is noted once for each who asks."""
        if hit not in self.noted[self._asked :]:
            self.noted.append(hit)

    def ask(self) -> None:
        """Somebody wants to know what comes from here on."""
        self._asked = len(self.noted)


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
