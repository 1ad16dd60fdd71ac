"""Jails that never finished starting, because Hutch was killed in that moment.

Bubblewrap starts a child; only then does the child ask the kernel to be killed when
bubblewrap ends. If bubblewrap is killed in between, the child waits for ever. No program of
the jail runs yet, and the child is in no cgroup, so nothing else would find it.
"""

import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from hutch.jail.policy import WARDEN, WARDEN_PROGRAM


def end_orphans() -> list[int]:
    """Kill orphans that run as our user or, if we are root, as the user of a jail. Returns their pids."""
    return [pid for pid in _processes() if _end(pid)]


def _processes() -> Iterator[int]:
    for directory in Path("/proc").glob("[1-9]*"):
        with suppress(OSError):  # it has ended meanwhile
            if (directory / "comm").read_bytes() == b"bwrap\n":
                yield int(directory.name)


def _end(pid: int) -> bool:
    """Kill a process if it is an orphan. The pidfd never means a later process with the same pid."""
    with suppress(OSError):  # it has ended meanwhile, or is not ours
        process = os.pidfd_open(pid)
        try:
            if _is_orphan(Path("/proc", str(pid))):
                signal.pidfd_send_signal(process, signal.SIGKILL)
                return True
        finally:
            os.close(process)
    return False


def _is_orphan(directory: Path) -> bool:
    """True if a bubblewrap of ours started this process and has ended. Its pid was the id of the session."""
    if os.geteuid() not in (0, directory.stat().st_uid):
        return False
    words = b"\0".join(word.encode() for word in ("", WARDEN_PROGRAM, "-I", "-S", WARDEN, ""))
    if words not in (directory / "cmdline").read_bytes():
        return False
    session = (directory / "stat").read_bytes().rpartition(b")")[2].split()[3].decode()
    return session not in ("0", directory.name) and not Path("/proc", session).exists()
