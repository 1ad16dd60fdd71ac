"""The processes of a jail, as seen from outside.

Only this jail's own processes count, and only what the kernel says about them. A
process can end its main thread or give each thread its own descriptor table, so
resources must be added up by threads and by tables.
"""

import ctypes
import os
import re
import signal
from collections.abc import Iterator

from hutch.jail.launch.seccomp import Machine, this_machine
from hutch.system.lazy_dataclass import dataclass

KCMP: dict[Machine, int] = {"x86_64": 312, "aarch64": 272}
KCMP_FILES = 2
PF_EXITING = 4
TICKS = os.sysconf("SC_CLK_TCK")
KILLED = 1 << 8  # the bit of SIGKILL

_libc = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True, slots=True)
class Member:
    """A process of a jail."""

    pid: int
    threads: tuple[int, ...]
    trusted: bool  # a child of the warden: a reaper
    reaper: int  # the warden's child that it is or is below: one for each command


def members(warden: int) -> list[Member]:
    """The processes below the warden. The warden itself is not included, since killing it gains nothing."""
    found: list[Member] = []
    queue = [(warden, 0)]
    while queue:
        parent, reaper = queue.pop()
        for task in _tasks(parent):
            for pid in map(int, read(f"/proc/{parent}/task/{task}/children").split()):
                queue.append((pid, reaper or pid))
                found.append(Member(pid, tuple(_tasks(pid)), trusted=parent == warden, reaper=reaper or pid))
    return found


def below(root: int) -> list[int]:
    """The descendants of a process."""
    return [member.pid for member in members(root)]


def is_dying(member: Member) -> bool:
    """True if all its threads were killed or are exiting: it runs no more, and its resources will soon be
    free. A living process cannot look like this."""
    for thread in member.threads:
        directory = f"/proc/{member.pid}/task/{thread}"
        fields = read(f"{directory}/stat").rpartition(b")")[2].split()
        pending = re.findall(rb"^(?:Sig|Shd)Pnd:\s+([0-9a-f]+)", read(f"{directory}/status"), re.MULTILINE)
        is_leaving = not fields or int(fields[6]) & PF_EXITING
        if not is_leaving and not any(int(mask, 16) & KILLED for mask in pending):
            return False
    return True


def has_ended(pid: int) -> bool:
    """True if a process is gone, or its only thread is exiting: then nothing can use its memory again."""
    try:
        fields = read(f"/proc/{pid}/stat", strict=True).rpartition(b")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return True
    return len(fields) > 17 and int(fields[17]) == 1 and bool(int(fields[6]) & PF_EXITING)


def number_inside(pid: int) -> int:
    """The pid of a process in the innermost of its pid namespaces; 0 when it has ended."""
    numbers = re.search(rb"^NSpid:.*\s(\d+)$", read(f"/proc/{pid}/status"), re.MULTILINE)
    return int(numbers[1]) if numbers else 0


def job_started_at(pid: int, *, warden: int) -> float:
    """When the job of a process started, in seconds since boot: the start of its topmost parent below the
    shell, as a job left running may start processes at any time. 0 when it has ended."""
    line = [pid]
    while (parent := _parent(line[-1])) not in (0, warden):
        line.append(parent)
    if len(line) < 3:
        return _started_at(pid)
    *jobs, first, reaper = line
    leader = read(f"/proc/{reaper}/task/{reaper}/children").split()[:1]
    return _started_at(jobs[-1] if leader == [b"%d" % first] else first)


def _started_at(pid: int) -> float:
    fields = read(f"/proc/{pid}/stat").rpartition(b")")[2].split()
    return int(fields[19]) / TICKS if fields else 0.0


def _parent(pid: int) -> int:
    """The parent of a process, from a file that every user can read."""
    fields = re.search(rb"^PPid:\s+(\d+)", read(f"/proc/{pid}/status"), re.MULTILINE)
    return int(fields[1]) if fields else 0


def resident_pages(pid: int) -> int:
    """The number of memory pages of a process; 0 when it has ended."""
    fields = read(f"/proc/{pid}/statm").split()
    return int(fields[1]) if fields else 0


def kill_if_inside(pid: int, *, warden: int) -> bool:
    """Kill a process, but only if it is below the warden, since its pid may have been reused."""
    try:
        fd = os.pidfd_open(pid)
    except OSError:
        return False
    try:
        if not is_below(pid, warden):
            return False
        signal.pidfd_send_signal(fd, signal.SIGKILL)
        return True
    except OSError:
        return False
    finally:
        os.close(fd)


def is_below(pid: int, root: int) -> bool:
    """True if `root` is among the parents of a process."""
    while pid > 1:
        pid = _parent(pid)
        if pid == root:
            return True
    return False


def tables(member: Member) -> Iterator[int]:
    """Yield one thread for each descriptor table; only one thread where the kernel cannot compare tables."""
    first, *others = member.threads or (member.pid,)
    yield first
    number = KCMP[this_machine()]
    known = first
    for thread in others:
        if _libc.syscall(number, known, thread, KCMP_FILES, 0, 0) > 0:
            known = thread
            yield thread


def _tasks(pid: int) -> list[int]:
    try:
        return sorted(map(int, os.listdir(f"/proc/{pid}/task")))  # noqa: PTH208
    except OSError:
        return []


def read(path: str, *, strict: bool = False, dir_fd: int | None = None) -> bytes:
    """The content of a file in /proc, b"" when it cannot be read; `strict` raises instead."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC, dir_fd=dir_fd)
    except OSError:
        if strict:
            raise
        return b""
    parts = []
    try:
        while part := os.read(fd, 262_144):
            parts.append(part)
    except OSError:
        if strict:
            raise
    finally:
        os.close(fd)
    return b"".join(parts)
