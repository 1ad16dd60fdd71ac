"""Jails that began and never became any, since whoever started them was killed in that very moment.

Bubblewrap forks before its child has asked to die with it. If it is killed in between, the child waits
for it for ever: nothing runs in it, and it is in no cgroup yet.
"""

import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from hutch.jail.policy import WARDEN, WARDEN_PROGRAM


def end_orphans() -> list[int]:
    """Kill those of ours, and of the users that we lend to jails; which they were."""
    found = list(_orphans())
    for pid in found:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return found


def _orphans() -> Iterator[int]:
    words = b"\0".join(word.encode() for word in ("", WARDEN_PROGRAM, "-I", "-S", WARDEN, ""))
    for directory in Path("/proc").glob("[1-9]*"):
        with suppress(OSError):  # it has ended meanwhile, or is none of ours
            if (directory / "comm").read_bytes() != b"bwrap\n" or not _is_in_reach(directory):
                continue
            if words in (directory / "cmdline").read_bytes() and _is_alone(directory):
                yield int(directory.name)


def _is_in_reach(directory: Path) -> bool:
    return os.geteuid() in (0, directory.stat().st_uid)


def _is_alone(directory: Path) -> bool:
    """Whether the bubblewrap that forked it is gone, which had begun a session of its own."""
    session = (directory / "stat").read_text().rpartition(")")[2].split()[3]
    return session not in ("0", directory.name) and not Path("/proc", session).exists()
