"""The order in which the kernel kills when memory runs out: commands first, the warden
last.

In a group full of small processes the warden would be the largest, and the jail would
end with it. So commands have a higher score. A fork inherits the score, so the warden
changes its own before and after each fork. It needs the descriptor from the host,
because /proc is read-only in the jail and the warden's files there belong to root.

While it forks, the warden is as likely a victim as a command of its size, and the
reapers always are. So the host raises commands once more as soon as it sees them. Where
we are not root, the kernel chooses by size alone.
"""

import contextlib
import os
from collections.abc import Iterable
from pathlib import Path

from hutch.jail.jail_processes import is_below
from hutch.jail.policy import MIB
from hutch.system.lazy_dataclass import dataclass

WARDEN_BYTES = 32 * MIB  # more than the warden ever uses
MAX_INCREASE, MAX_SCORE = 500, 1000


@dataclass(frozen=True, slots=True)
class Scores:
    """The scores of the warden and of commands, and the descriptor to write the warden's to. The owner
    closes it."""

    fd: int
    warden: int
    commands: int


def score_increase(memory_bytes: int) -> int:
    """How much higher the score of commands is.

    As if a command had a warden's memory on top of its own, and no more. A score is a thousandth of the
    group's memory, or of the machine's when that runs out: with a high score, small commands would be
    killed for memory that a large process outside has taken.
    """
    return min(-(-1000 * WARDEN_BYTES // memory_bytes), MAX_INCREASE)


def prefer_commands(warden: int, *, memory_bytes: int) -> Scores | None:
    """Raise the score of the reapers that wait for the first commands; None if we may not."""
    try:
        fd = os.open(f"/proc/{warden}/oom_score_adj", os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return None
    own = int(os.read(fd, 16))
    commands = min(max(own, 0) + score_increase(memory_bytes), MAX_SCORE)
    with contextlib.suppress(OSError):
        for pid in Path(f"/proc/{warden}/task/{warden}/children").read_text().split():
            Path(f"/proc/{pid}/oom_score_adj").write_text(str(commands))
    return Scores(fd, own, commands)


class ScoreRaiser:
    """Raises the score of a jail's commands above that of its reapers, which are as large as many
    commands."""

    def __init__(self, warden: int, *, memory_bytes: int) -> None:
        self._warden = warden
        own = int(Path(f"/proc/{warden}/oom_score_adj").read_text())
        self._score = b"%d" % min(max(own, 0) + 2 * score_increase(memory_bytes), MAX_SCORE)
        self._raised: set[int] = set()

    def follow(self, commands: Iterable[int]) -> None:
        """Raise the commands that are new since the last call. Blocks the thread."""
        now = set(commands)
        for pid in now - self._raised:
            with contextlib.suppress(OSError):  # it has ended, or we may not
                fd = os.open(f"/proc/{pid}/oom_score_adj", os.O_WRONLY | os.O_CLOEXEC)
                try:
                    if is_below(pid, self._warden):  # the pid may have been reused; the open file has not
                        os.write(fd, self._score)
                finally:
                    os.close(fd)
        self._raised = now
