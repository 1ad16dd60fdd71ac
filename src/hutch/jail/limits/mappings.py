"""What the processes of a jail have mapped, for as long as it takes to read a bounded part of it.

The kernel writes these lists anew for each reader, a microsecond a line, and waits
for whoever changes them. A process may have a million lines, and be slow on
purpose. So they are read aside, and what was not read in time counts in full.
"""

import os
import re
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from hutch.jail.jail_processes import Member

READ_S = 0.25  # of a processor
WAIT_S = 1.0  # by the clock on the wall, however busy the machine
CHUNK = 32_768
MAPPING_BYTES = 256  # of kernel memory
MAPPED = re.compile(rb"^(\w+)-(\w+) \S+ (\w+) (\w+:\w+) (\d+)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Shared:
    """Shared memory without a name, and how many mappings were counted on the way."""

    bytes: int
    mappings: int


def shared(holders: Sequence[tuple[Member, int]], *, device: int, most_mappings: int) -> Shared:
    """By what is mapped of it: its pages stay when no table shows them. Each holder comes with the most it
    could have; those with the most are read first."""
    name = b"%02x:%02x" % (os.major(device), os.minor(device))
    sizes: dict[bytes, int] = {}
    lines: dict[int, int] = {}
    unread = {member.pid: most for member, most in holders}

    def look() -> None:
        until = time.thread_time() + READ_S
        for member, _ in sorted(holders, key=lambda holder: holder[1], reverse=True):
            lines[member.pid] = 0
            for part in _any_thread(member):
                lines[member.pid] += part.count(b"\n")
                if time.thread_time() > until or sum(lines.values()) > most_mappings:
                    return
                if name in part:
                    for start, end, offset, where, inode in MAPPED.findall(part):
                        if where == name:
                            size = int(offset, 16) + int(end, 16) - int(start, 16)
                            sizes[inode] = max(sizes.get(inode, 0), size)
            if lines[member.pid]:
                unread.pop(member.pid, None)

    aside(look, WAIT_S)
    return Shared(sum(dict(sizes).values()) + sum(dict(unread).values()), sum(dict(lines).values()))


def parts(place: str) -> Iterator[bytes]:
    """The list of a process, some whole lines at a time. OSError if it cannot be had."""
    fd = os.open(f"{place}/maps", os.O_RDONLY | os.O_CLOEXEC)
    rest = b""
    try:
        while part := os.read(fd, CHUNK):
            rest += part
            if len(rest) >= CHUNK:
                whole, end, rest = rest.rpartition(b"\n")
                yield whole + end
        yield rest
    finally:
        os.close(fd)


def aside(work: Callable[[], object], seconds: float) -> bool:
    """Do it in a thread, and wait no longer than that: it may depend on a process of the jail."""
    done = threading.Event()

    def do() -> None:
        work()
        done.set()

    threading.Thread(target=do, daemon=True).start()
    return done.wait(seconds)


def _any_thread(member: Member) -> Iterator[bytes]:
    """The first may have exited and left the memory to the others. Nothing, if we may not read it."""
    for thread in member.threads:
        try:
            found = False
            for part in parts(f"/proc/{member.pid}/task/{thread}"):
                found |= bool(part)
                yield part
        except OSError:
            continue
        if found:
            return
