"""Files on disk that a jail holds and that no walk of its workspace finds.

They were deleted, but a process has them open or mapped, or they are in flight in a
socket.
"""

import os
import re
import socket
import stat
import time
from collections.abc import Collection, Sequence
from functools import cache

from hutch.jail.jail_processes import Member, read, tables
from hutch.jail.limits.shared_memory_mappings import READ_CPU_S, read_mappings, run_in_thread
from hutch.system.lazy_dataclass import dataclass

SEARCH_TIMEOUT_S = 0.5  # of real time, however busy the machine is
IN_FLIGHT = re.compile(rb"^scm_fds:\s+(\d+)$", re.MULTILINE)
DELETED = re.compile(rb"^(\w+)-(\w+) \S+ (\w+) (\w+:\w+) ([1-9]\d*) .*\(deleted\)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class UnlinkedFiles:
    """Unnamed files that a jail holds on disk."""

    bytes: int
    maybe_more: bool  # something could not be inspected


def find_unlinked_files(jail: Sequence[Member], *, skip: Collection[int]) -> UnlinkedFiles:
    """Find files that were deleted, or never had a name, but are open; not those on the devices in `skip`."""
    search = _Search(skip)
    in_time = run_in_thread(lambda: search.inspect(jail), SEARCH_TIMEOUT_S)
    return UnlinkedFiles(sum(dict(search.sizes).values()), search.maybe_more or not in_time)


class _Search:
    """The files found so far."""

    def __init__(self, skip: Collection[int]) -> None:
        self.sizes: dict[tuple[int, int], int] = {}
        self.maybe_more = False
        self._skip = skip

    def inspect(self, jail: Sequence[Member]) -> None:
        cpu_deadline = time.thread_time() + READ_CPU_S
        for member in jail:
            for thread in () if member.trusted else tables(member):
                task = f"/proc/{member.pid}/task/{thread}"
                try:
                    for name in os.listdir(f"{task}/fd"):  # noqa: PTH208
                        self._inspect_descriptor(task, name)
                    for part in read_mappings(task):
                        self._inspect_mappings(member.pid, part)
                        if time.thread_time() > cpu_deadline:
                            self.maybe_more = True
                            return
                except PermissionError:
                    self.maybe_more = True
                except OSError:
                    continue

    def _inspect_descriptor(self, task: str, name: str) -> None:
        try:
            status = os.stat(f"{task}/fd/{name}")  # noqa: PTH116
        except OSError:
            return
        if stat.S_ISSOCK(status.st_mode):
            self.maybe_more |= may_hold_files(read(f"{task}/fdinfo/{name}"))
        elif stat.S_ISREG(status.st_mode) and not status.st_nlink and status.st_dev not in self._skip:
            self.sizes[status.st_dev, status.st_ino] = status.st_blocks * 512

    def _inspect_mappings(self, pid: int, lines: bytes) -> None:
        for start, end, _, device, inode in DELETED.findall(lines) if b"(deleted)" in lines else ():
            key = (os.makedev(*(int(part, 16) for part in device.split(b":"))), int(inode))
            if key[0] in self._skip or key in self.sizes:
                continue
            try:
                mapped = f"/proc/{pid}/map_files/{int(start, 16):x}-{int(end, 16):x}"
                self.sizes[key] = os.stat(mapped).st_blocks * 512  # noqa: PTH116
            except PermissionError:  # only root may; the file may be larger than its mapping
                self.maybe_more = True
            except OSError:
                continue


def may_hold_files(fdinfo: bytes) -> bool:
    """True if files may be in flight in a socket, given its text in /proc. Only Unix sockets carry files."""
    count = IN_FLIGHT.search(fdinfo)
    if count is not None:
        return int(count[1]) > 0
    return not fdinfo or not is_count_of_files_shown()


@cache
def is_count_of_files_shown() -> bool:
    """True if the kernel shows for Unix sockets how many files are in flight; others have no such line."""
    one, other = socket.socketpair()
    with one, other:
        return IN_FLIGHT.search(read(f"/proc/self/fdinfo/{one.fileno()}")) is not None
