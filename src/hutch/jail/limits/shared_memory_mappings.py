"""Memory mappings of a jail's processes, read within a bounded time.

The kernel generates the list anew for each reader, at about a microsecond per line, and
the reader waits while the process changes its mappings. A process can have a million
lines, and can be slow on purpose. So a thread reads them. A process whose mappings were not
read in time counts with the upper bound of its memory, unless it has ended meanwhile: builds
start hundreds of short processes that reserve a gigabyte each.
"""

import os
import re
import threading
import time
from collections.abc import Callable, Iterator, Sequence

from hutch.jail.jail_processes import Member, has_ended, is_dying
from hutch.system.lazy_dataclass import dataclass

READ_CPU_S = 0.25  # of processor time
READ_TIMEOUT_S = 1.0  # of real time, however busy the machine is
CHUNK_BYTES = 32_768
MAPPING_BYTES = 256  # of kernel memory
ENDING_POLL_S = 0.001
MAPPED = re.compile(rb"^(\w+)-(\w+) \S+ (\w+) (\w+:\w+) (\d+)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class SharedMemory:
    """Unnamed shared memory, and the number of mappings that were counted to find it."""

    bytes: int
    mappings: int


def measure_shared_memory(
    holders: Sequence[tuple[Member, int]], *, device: int, max_mappings: int
) -> SharedMemory:
    """Measure unnamed shared memory by its mappings.

    Its pages use memory even when they are in no page table, so counting resident pages would miss them.
    Each holder comes with an upper bound of its memory; the largest are read first.
    """
    name = b"%02x:%02x" % (os.major(device), os.minor(device))
    sizes: dict[bytes, int] = {}
    lines: dict[int, int] = {}
    unread = {member.pid: maximum for member, maximum in holders}

    def read_all() -> None:
        cpu_deadline = time.thread_time() + READ_CPU_S
        for member, _ in sorted(holders, key=lambda holder: holder[1], reverse=True):
            lines[member.pid] = 0
            for part in _any_thread(member):
                lines[member.pid] += part.count(b"\n")
                if time.thread_time() > cpu_deadline or sum(lines.values()) > max_mappings:
                    return
                if name in part:
                    for start, end, offset, where, inode in MAPPED.findall(part):
                        if where == name:
                            size = int(offset, 16) + int(end, 16) - int(start, 16)
                            sizes[inode] = max(sizes.get(inode, 0), size)
            if lines[member.pid]:
                unread.pop(member.pid, None)
        drop_ended()

    def drop_ended() -> None:
        """Forget processes that have ended, and wait for those that are about to."""
        ending = [member for member, _ in holders if member.pid in unread]
        while ending and time.monotonic() < deadline:
            for member in ending:
                if has_ended(member.pid):
                    unread.pop(member.pid, None)
            ending = [each for each in ending if each.pid in unread and is_dying(each)]
            time.sleep(ENDING_POLL_S if ending else 0)

    deadline = time.monotonic() + READ_TIMEOUT_S
    run_in_thread(read_all, READ_TIMEOUT_S)
    return SharedMemory(sum(dict(sizes).values()) + sum(dict(unread).values()), sum(dict(lines).values()))


def read_mappings(task: str) -> Iterator[bytes]:
    """Yield a process's list of mappings in chunks of whole lines. OSError if it cannot be read."""
    fd = os.open(f"{task}/maps", os.O_RDONLY | os.O_CLOEXEC)
    rest = b""
    try:
        while part := os.read(fd, CHUNK_BYTES):
            rest += part
            if len(rest) >= CHUNK_BYTES:
                whole, end, rest = rest.rpartition(b"\n")
                yield whole + end
        yield rest
    finally:
        os.close(fd)


def run_in_thread(work: Callable[[], object], seconds: float) -> bool:
    """Run `work` in a thread and wait for it at most `seconds`, since a process of the jail can block it."""
    done = threading.Event()

    def do() -> None:
        work()
        done.set()

    threading.Thread(target=do, daemon=True).start()
    return done.wait(seconds)


def _any_thread(member: Member) -> Iterator[bytes]:
    """Yield the mappings from the first thread that has any: the main thread may have exited while others
    still use the memory. Yields nothing if we may not read them."""
    for thread in member.threads:
        try:
            found = False
            for part in read_mappings(f"/proc/{member.pid}/task/{thread}"):
                found |= bool(part)
                yield part
        except OSError:
            continue
        if found:
            return
