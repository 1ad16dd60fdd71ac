"""Resources that the processes of a jail use, where no cgroup counts them.

Each figure is an upper bound: first a cheap one from what any user can read in /proc,
and a closer one only when the first exceeds the limit. A process can hide its pages,
its main thread or its descriptors, but it cannot lower the bound.
"""

import contextlib
import os
import re
import threading
import time
from collections.abc import Mapping, Sequence

from hutch.jail.jail_processes import Member, read, tables
from hutch.jail.limits.shared_memory_mappings import MAPPING_BYTES, measure_shared_memory
from hutch.system.lazy_dataclass import dataclass

DESCRIPTOR_BYTES = 8 * 1024  # a pipe's smallest buffer; the first 64 MiB of a user's pipes may be larger
TCP_BYTES = 10 * 1024 * 1024  # a connection's largest buffers, both ways
TCP_SOCKET_BYTES = 4096
PAGE_KIB = os.sysconf("SC_PAGE_SIZE") // 1024
ROLLUP_INTERVAL_S, MAX_ROLLUP_S = 0.1, 2.0  # for finding out which pages processes share
STATUS = re.compile(rb"^(FDSize|VmSize|VmData|VmStk|VmPTE|VmSwap|RssAnon):\s+(\d+)", re.MULTILINE)
ROLLUP = re.compile(rb"^(Anonymous|Pss_Anon):\s+(\d+)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Usage:
    """The resources that a jail's processes use now."""

    processes: int  # including threads, as the kernel counts them
    memory_bytes: int
    biggest: int  # pid of the largest process, reapers excluded
    biggest_bytes: int
    by_command: Mapping[int, int]  # reaper: bytes used by the processes below it
    descriptors: int
    mappings: int  # 0 while memory use is certainly below the limit
    is_bound: bool = False  # pages that processes share may be counted several times: they could not be read


@dataclass(slots=True)
class _MemoryUse:
    member: Member
    own_bytes: int  # its pages and page tables, including pages shared by fork
    mapped_bytes: int  # possible shared memory, and the kernel's list of mappings


def usage(
    warden: int,
    jail: Sequence[Member],
    *,
    max_bytes: int,
    max_descriptors: int,
    max_mappings: int,
    frozen: bool = False,
) -> Usage:
    """Add up the resources of the processes. Sums above a limit are exact, unless `is_bound`; sums below it
    are upper bounds. There is more time to read processes that are `frozen`."""
    is_bound = False
    uses = [_memory_use(member) for member in jail]
    descriptors = sum(_descriptors(member) for member in jail)
    if descriptors > max_descriptors:
        descriptors = sum(_descriptors(member, shared=True) for member in jail)
    unix, tcp = _sockets(warden)
    known = descriptors * DESCRIPTOR_BYTES + unix * _unix_bytes() + tcp * TCP_SOCKET_BYTES
    total, mappings = known + sum(held.own_bytes for held in uses), 0
    if total + sum(held.mapped_bytes for held in uses) + tcp * TCP_BYTES > max_bytes:
        holders = [(held.member, held.mapped_bytes) for held in uses if held.mapped_bytes]
        found = measure_shared_memory(holders, device=shared_memory_device(), max_mappings=max_mappings)
        mappings = found.mappings
        known += found.bytes + mappings * MAPPING_BYTES + (_tcp_bytes(warden) if tcp else 0)
        if mappings <= max_mappings and known + sum(held.own_bytes for held in uses) > max_bytes:
            is_bound = not _subtract_shared_pages(uses, max_bytes=max_bytes - known, frozen=frozen)
        total = known + sum(held.own_bytes for held in uses)
    commands = [held for held in uses if not held.member.trusted]
    biggest = max(commands, key=lambda held: held.own_bytes, default=None)
    return Usage(
        processes=sum(max(1, len(member.threads)) for member in jail),
        memory_bytes=total,
        biggest=biggest.member.pid if biggest else 0,
        biggest_bytes=biggest.own_bytes if biggest else 0,
        by_command=_by_command(commands),
        descriptors=descriptors,
        mappings=mappings,
        is_bound=is_bound,
    )


def tmpfs_use(directory: int) -> tuple[int, int]:
    """The bytes and files in the tmpfs of a descriptor."""
    status = os.fstatvfs(directory)
    return (status.f_blocks - status.f_bfree) * status.f_frsize, status.f_files - status.f_ffree


def shared_memory_device() -> int:
    """The kernel's own tmpfs, which holds unnamed shared memory."""
    fd = os.memfd_create("look", os.MFD_CLOEXEC)
    try:
        return os.fstat(fd).st_dev
    finally:
        os.close(fd)


def _memory_use(member: Member) -> _MemoryUse:
    for thread in member.threads:  # the first thread may have exited while others still use the memory
        fields = {
            key: int(value) for key, value in STATUS.findall(read(f"/proc/{member.pid}/task/{thread}/status"))
        }
        if b"VmSize" in fields:
            own = fields.get(b"RssAnon", 0) + fields.get(b"VmPTE", 0) + fields.get(b"VmSwap", 0)
            mapped = max(0, fields[b"VmSize"] - fields.get(b"VmData", 0) - fields.get(b"VmStk", 0))
            listed = min(_max_mappings(), fields[b"VmSize"] // PAGE_KIB) * MAPPING_BYTES
            return _MemoryUse(member, own * 1024, 0 if member.trusted else mapped * 1024 + listed)
    return _MemoryUse(member, 0, 0)


def _by_command(commands: Sequence[_MemoryUse]) -> dict[int, int]:
    """Bytes by reaper. Pages shared by fork are shared below one reaper only, so they are free when that
    command ends."""
    total: dict[int, int] = {}
    for held in commands:
        total[held.member.reaper] = total.get(held.member.reaper, 0) + held.own_bytes
    return total


def _subtract_shared_pages(uses: Sequence[_MemoryUse], *, max_bytes: int, frozen: bool) -> bool:
    """Count pages only once that processes share by fork, largest process first. False if some processes
    could not be read in time.

    Reading may block on a process, so a thread does it for a short time. On a busy machine it may take
    longer, while it makes progress and the known sum is within the limit. Processes that were not read
    keep their upper bound.
    """
    shared_bytes: dict[int, int] = {}
    own = {held.member.pid: held.own_bytes for held in uses}
    done = threading.Event()
    started_at = time.monotonic()

    def read_rollups() -> None:
        for pid in sorted(own, key=own.__getitem__, reverse=True):
            rollup = read(f"/proc/{pid}/smaps_rollup")
            fields = {key: 1024 * int(value) for key, value in ROLLUP.findall(rollup)}
            shared_bytes[pid] = min(
                own[pid], max(0, fields.get(b"Anonymous", 0) - fields.get(b"Pss_Anon", 0))
            )
            if time.monotonic() - started_at > MAX_ROLLUP_S:
                return
        done.set()

    reader = threading.Thread(target=read_rollups, daemon=True)
    reader.start()
    before = 0
    while not done.wait(ROLLUP_INTERVAL_S) and time.monotonic() - started_at < MAX_ROLLUP_S:
        known = dict(shared_bytes)
        waits = not frozen and len(known) == before and not _is_runnable(reader)
        if waits or sum(own[pid] - shared for pid, shared in known.items()) > max_bytes:
            break
        before = len(known)
    known = dict(shared_bytes)
    for held in uses:
        held.own_bytes -= known.get(held.member.pid, 0)
    return len(known) == len(own)


def _is_runnable(thread: threading.Thread) -> bool:
    """True if one of our threads runs or waits for a processor, and not for another process."""
    return b") R " in read(f"/proc/self/task/{thread.native_id}/stat")


def _descriptors(member: Member, *, shared: bool = False) -> int:
    """Descriptors of all threads of a process. Threads mostly share one table; `shared` detects that and
    counts a shared table once."""
    count = 0
    for thread in tables(member) if shared else member.threads:
        task = f"/proc/{member.pid}/task/{thread}"
        with contextlib.suppress(OSError):
            listed = os.stat(f"{task}/fd").st_size  # noqa: PTH116
            if not listed:  # before Linux 6.2
                try:
                    listed = len(os.listdir(f"{task}/fd"))  # noqa: PTH208
                except PermissionError:
                    listed = dict(STATUS.findall(read(f"{task}/status"))).get(b"FDSize", 0)
            count += int(listed)
    return count


def _sockets(warden: int) -> tuple[int, int]:
    """Numbers of sockets in the jail's network namespace, including those without an owner: non-TCP, TCP."""
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
    """Bytes queued in TCP connections, doubled because packets take more memory than their content."""
    total = 0
    for name in ("tcp", "tcp6"):
        for line in read(f"/proc/{warden}/net/{name}").splitlines()[1:]:
            waiting, _, received = line.split()[4].partition(b":")
            total += 2 * (int(waiting, 16) + int(received, 16))
    return total


def _max_mappings() -> int:
    """The maximum number of mappings of one process."""
    return int(read("/proc/sys/vm/max_map_count") or 65_530)


def _unix_bytes() -> int:
    """The maximum that one socket can queue: a sender's largest buffer, which the kernel doubles."""
    return min(2 * int(read("/proc/sys/net/core/wmem_max") or 212_992), 1024 * 1024)
