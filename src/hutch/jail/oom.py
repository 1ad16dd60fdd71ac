"""Whom the kernel kills when memory runs out: commands first, the warden last.

In a group full of small processes the warden would be the biggest, and the jail
would end with it. So commands have a higher score. The warden writes its own
to and fro around each fork, since a fork inherits it; it needs the descriptor
from out here, because /proc is read-only in the jail and the warden's files in
it are root's. Where we are not root either, the kernel chooses by size alone.
"""

import contextlib
import os
from dataclasses import dataclass
from pathlib import Path

from hutch.jail.policy import MIB

WARDEN_BYTES = 32 * MIB  # more than it ever has
MOST_HIGHER, MOST = 500, 1000


@dataclass(frozen=True, slots=True)
class Scores:
    """The warden's score and that of commands, and where the warden's is written. The owner closes it."""

    fd: int
    warden: int
    commands: int


def higher(memory_bytes: int) -> int:
    """By how much: as if a command had a warden's memory on top of its own, and no more than that. A score
    is a thousandth of the group's memory, or of the machine's when that runs out: with a high one, small
    commands would be killed for what somebody big outside has taken."""
    return min(-(-1000 * WARDEN_BYTES // memory_bytes), MOST_HIGHER)


def prefer_commands(warden: int, *, memory_bytes: int) -> Scores | None:
    """Raise the score of those who wait for the first commands; None if we may not."""
    try:
        fd = os.open(f"/proc/{warden}/oom_score_adj", os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return None
    own = int(os.read(fd, 16))
    commands = min(max(own, 0) + higher(memory_bytes), MOST)
    with contextlib.suppress(OSError):
        for pid in Path(f"/proc/{warden}/task/{warden}/children").read_text().split():
            Path(f"/proc/{pid}/oom_score_adj").write_text(str(commands))
    return Scores(fd, own, commands)
