"""Looks into a jail from outside, for what no kernel limit covers.

Only while commands run, a few times a second, and only at this jail's own
processes. It counts files in the jail's tmpfs, the workspace's growth, and,
where no cgroup does, memory and processes.
"""

import os
import signal
from dataclasses import dataclass
from pathlib import Path

PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True, slots=True)
class Usage:
    """What a jail's processes hold now."""

    processes: int  # and threads, as the kernel counts them
    memory_bytes: int  # not shared with any file
    biggest: int  # pid of the one that holds most


def usage(warden: int) -> Usage:
    """Add up the processes below the warden, who is not counted: nobody gains by killing it."""
    count, total, biggest, most = 0, 0, 0, 0
    for pid in below(warden):
        try:
            count += Path(f"/proc/{pid}/task").stat().st_nlink - 2  # a directory for each thread
            resident, shared = map(int, Path(f"/proc/{pid}/statm").read_text().split()[1:3])
        except (OSError, ValueError):
            continue
        own = (resident - shared) * PAGE_BYTES
        total += own
        if own > most:
            biggest, most = pid, own
    return Usage(count, total, biggest)


def kill_if_inside(pid: int, *, namespace: str) -> bool:
    """Kill a process, but only if it lives in the pid namespace: the number may be another's by now."""
    try:
        fd = os.pidfd_open(pid)
    except OSError:
        return False
    try:
        if os.readlink(f"/proc/{pid}/ns/pid") != namespace:  # noqa: PTH115
            return False
        signal.pidfd_send_signal(fd, signal.SIGKILL)
        return True
    except OSError:
        return False
    finally:
        os.close(fd)


def tmpfs_use(directory: int) -> tuple[int, int]:
    """Bytes and files in the tmpfs that a descriptor is on."""
    about = os.fstatvfs(directory)
    return (about.f_blocks - about.f_bfree) * about.f_frsize, about.f_files - about.f_ffree


def below(root: int) -> list[int]:
    """The descendants of a process."""
    found: list[int] = []
    queue = [root]
    while queue:
        parent = queue.pop()
        try:
            tasks = list(Path(f"/proc/{parent}/task").iterdir())
        except OSError:
            continue
        for task in tasks:
            try:
                children = (task / "children").read_text().split()
            except OSError:
                continue
            queue.extend(map(int, children))
            found.extend(map(int, children))
    return found
