"""What the processes of a jail hold, where no cgroup counts it.

Each figure is an upper bound: first a cheap one from what /proc shows to everybody,
and only when that is too much a closer look. A process may hide its pages, its
leading thread or its descriptors, but not make the bound smaller.
"""

import contextlib
import os
import re
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hutch.jail.jail_processes import Member, read, tables
from hutch.jail.limits.mappings import MAPPING_BYTES, shared

DESCRIPTOR_BYTES = 8 * 1024  # a pipe's least buffer; the first 64 MiB of a user's pipes may be larger
TCP_BYTES = 10 * 1024 * 1024  # a connection's largest buffers, both ways
TCP_SOCKET_BYTES = 4096
PAGE_KIB = os.sysconf("SC_PAGE_SIZE") // 1024
CLOSER_S, LONGEST_S = 0.1, 2.0  # for a closer look at who shares memory with whom
STATUS = re.compile(rb"^(FDSize|VmSize|VmData|VmStk|VmPTE|VmSwap|RssAnon):\s+(\d+)", re.MULTILINE)
ROLLUP = re.compile(rb"^(Anonymous|Pss_Anon):\s+(\d+)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Usage:
    """What a jail's processes hold now."""

    processes: int  # and threads, as the kernel counts them
    memory_bytes: int
    biggest: int  # pid of the one that holds most, reapers aside
    biggest_bytes: int
    by_command: Mapping[int, int]  # reaper: bytes that the processes below it hold
    descriptors: int
    mappings: int  # 0 as long as there cannot be too much


@dataclass(slots=True)
class _Held:
    member: Member
    own_bytes: int  # its pages and page tables, those shared with a relative by fork included
    mapped_bytes: int  # what could be shared memory, and the kernel's list of it


def usage(
    warden: int, jail: Sequence[Member], *, most_bytes: int, most_descriptors: int, most_mappings: int
) -> Usage:
    """Add up what they hold. Beyond the limits the sums are exact; below they are only low enough."""
    every = [_held(member) for member in jail]
    descriptors = sum(_descriptors(member) for member in jail)
    if descriptors > most_descriptors:
        descriptors = sum(_descriptors(member, shared=True) for member in jail)
    unix, tcp = _sockets(warden)
    known = descriptors * DESCRIPTOR_BYTES + unix * _unix_bytes() + tcp * TCP_SOCKET_BYTES
    total, mappings = known + sum(held.own_bytes for held in every), 0
    if total + sum(held.mapped_bytes for held in every) + tcp * TCP_BYTES > most_bytes:
        holders = [(held.member, held.mapped_bytes) for held in every if held.mapped_bytes]
        found = shared(holders, device=shared_memory_device(), most_mappings=most_mappings)
        mappings = found.mappings
        known += found.bytes + mappings * MAPPING_BYTES + (_tcp_bytes(warden) if tcp else 0)
        if mappings <= most_mappings and known + sum(held.own_bytes for held in every) > most_bytes:
            _look_closer(every, most_bytes=most_bytes - known)
        total = known + sum(held.own_bytes for held in every)
    commands = [held for held in every if not held.member.trusted]
    biggest = max(commands, key=lambda held: held.own_bytes, default=None)
    return Usage(
        processes=sum(max(1, len(member.threads)) for member in jail),
        memory_bytes=total,
        biggest=biggest.member.pid if biggest else 0,
        biggest_bytes=biggest.own_bytes if biggest else 0,
        by_command=_by_command(commands),
        descriptors=descriptors,
        mappings=mappings,
    )


def tmpfs_use(directory: int) -> tuple[int, int]:
    """Bytes and files in the tmpfs that a descriptor is on."""
    about = os.fstatvfs(directory)
    return (about.f_blocks - about.f_bfree) * about.f_frsize, about.f_files - about.f_ffree


def shared_memory_device() -> int:
    """The kernel's own tmpfs, where shared memory without a name lives."""
    fd = os.memfd_create("look", os.MFD_CLOEXEC)
    try:
        return os.fstat(fd).st_dev
    finally:
        os.close(fd)


def _held(member: Member) -> _Held:
    for thread in member.threads:  # the first may have exited and left the memory to the others
        told = {
            key: int(value) for key, value in STATUS.findall(read(f"/proc/{member.pid}/task/{thread}/status"))
        }
        if b"VmSize" in told:
            own = told.get(b"RssAnon", 0) + told.get(b"VmPTE", 0) + told.get(b"VmSwap", 0)
            mapped = max(0, told[b"VmSize"] - told.get(b"VmData", 0) - told.get(b"VmStk", 0))
            listed = min(_max_mappings(), told[b"VmSize"] // PAGE_KIB) * MAPPING_BYTES
            return _Held(member, own * 1024, 0 if member.trusted else mapped * 1024 + listed)
    return _Held(member, 0, 0)


def _by_command(commands: Sequence[_Held]) -> dict[int, int]:
    """Memory that is shared by fork is shared below one reaper only, so it is free when that command ends."""
    total: dict[int, int] = {}
    for held in commands:
        total[held.member.reaper] = total.get(held.member.reaper, 0) + held.own_bytes
    return total


def _look_closer(every: Sequence[_Held], *, most_bytes: int) -> None:
    """Count pages once that processes share by fork, the biggest first. It may have to wait for one of them,
    so this is done aside, and for a short while. On a busy machine it may take longer, as long as it gets on
    and what is known by then is not too much already. What is not known in the end is left as it is."""
    twice: dict[int, int] = {}
    own = {held.member.pid: held.own_bytes for held in every}
    done = threading.Event()
    began = time.monotonic()

    def look() -> None:
        for pid in sorted(own, key=own.__getitem__, reverse=True):
            rollup = read(f"/proc/{pid}/smaps_rollup")
            told = {key: 1024 * int(value) for key, value in ROLLUP.findall(rollup)}
            twice[pid] = min(own[pid], max(0, told.get(b"Anonymous", 0) - told.get(b"Pss_Anon", 0)))
            if time.monotonic() - began > LONGEST_S:
                return
        done.set()

    looking = threading.Thread(target=look, daemon=True)
    looking.start()
    before = 0
    while not done.wait(CLOSER_S) and time.monotonic() - began < LONGEST_S:
        known = dict(twice)
        waits = len(known) == before and not _is_runnable(looking)
        if waits or sum(own[pid] - shared for pid, shared in known.items()) > most_bytes:
            break
        before = len(known)
    known = dict(twice)
    for held in every:
        held.own_bytes -= known.get(held.member.pid, 0)


def _is_runnable(thread: threading.Thread) -> bool:
    """Whether a thread of ours runs or waits for a processor, and not for another process."""
    return b") R " in read(f"/proc/self/task/{thread.native_id}/stat")


def _descriptors(member: Member, *, shared: bool = False) -> int:
    """Of all its threads, which mostly share one table; `shared` finds out, and counts those once."""
    count = 0
    for thread in tables(member) if shared else member.threads:
        place = f"/proc/{member.pid}/task/{thread}"
        with contextlib.suppress(OSError):
            listed = os.stat(f"{place}/fd").st_size  # noqa: PTH116
            if not listed:  # before Linux 6.2
                try:
                    listed = len(os.listdir(f"{place}/fd"))  # noqa: PTH208
                except PermissionError:
                    listed = dict(STATUS.findall(read(f"{place}/status"))).get(b"FDSize", 0)
            count += int(listed)
    return count


def _sockets(warden: int) -> tuple[int, int]:
    """How many the jail's network has, in nobody's hands too: TCP, and all others."""
    used = tcp = 0
    for name in ("sockstat", "sockstat6"):
        for line in read(f"/proc/{warden}/net/{name}").splitlines():
            key, _, rest = line.partition(b":")
            if key == b"sockets":
                used = int(rest.split()[1])
            elif key in (b"TCP", b"TCP6"):
                tcp += int(rest.split()[1])
    return max(0, used - tcp), tcp


def _tcp_bytes(warden: int) -> int:
    """What waits in TCP connections. Twice: packets take more room than their content."""
    total = 0
    for name in ("tcp", "tcp6"):
        for line in read(f"/proc/{warden}/net/{name}").splitlines()[1:]:
            waiting, _, come = line.split()[4].partition(b":")
            total += 2 * (int(waiting, 16) + int(come, 16))
    return total


def _max_mappings() -> int:
    """Of one process."""
    return int(read("/proc/sys/vm/max_map_count") or 65_530)


def _unix_bytes() -> int:
    """What may wait in one socket: a sender's largest buffer, which the kernel doubles."""
    return min(2 * int(read("/proc/sys/net/core/wmem_max") or 212_992), 1024 * 1024)
