"""Lowers the limits of processes that run in a jail already.

New processes inherit the limits of their parents. So the limits of the warden are set first, then
those of all others, until no process is left with a higher one. The kernel lets a process set the
limits of another with the same user. A root without CAP_SYS_RESOURCE, as in many containers,
starts a program as the jail's user for that.
"""

import re
import resource
import subprocess
from collections.abc import Collection, Sequence
from contextlib import suppress

from hutch.jail.jail_processes import is_below, members, read
from hutch.jail.launch.jail_uid import Identity
from hutch.jail.launch.visible_system_files import this_system

MAX_PASSES = 20  # a jail that forks faster than we list is stopped by its process limit
HELPER_TIMEOUT_S = 10.0
# Not for the warden, which must be able to fork when its commands cannot.
FOR_COMMANDS = (resource.RLIMIT_NPROC, resource.RLIMIT_DATA)
NAMES = {  # in /proc/PID/limits
    resource.RLIMIT_CORE: b"Max core file size",
    resource.RLIMIT_CPU: b"Max cpu time",
    resource.RLIMIT_DATA: b"Max data size",
    resource.RLIMIT_FSIZE: b"Max file size",
    resource.RLIMIT_NOFILE: b"Max open files",
    resource.RLIMIT_NPROC: b"Max processes",
}
# Sets limits of processes; it runs alone, without this package.
HELPER = """\
import resource, sys
for pid in map(int, sys.argv[1].split()):
    for kind, limit in (map(int, each.split(":")) for each in sys.argv[2].split()):
        try:
            soft, hard = resource.prlimit(pid, kind)
            low = lambda had: limit if had == resource.RLIM_INFINITY else min(had, limit)
            resource.prlimit(pid, kind, (low(soft), low(hard)))
        except ProcessLookupError:
            pass
"""

Rlimit = tuple[int, int]  # kind and hard limit


def lower_rlimits(warden: int, rlimits: str, identity: Identity) -> bool:
    """Lower the limits of a warden and all processes below it; `rlimits` is in the warden's format, and the
    jail has this identity. Limits that are lower already stay. False if some could not be lowered.
    Blocks the thread."""
    wanted = [(int(kind), int(hard)) for kind, _, hard in (each.split(":") for each in rlimits.split())]
    own = [each for each in wanted if each[0] not in FOR_COMMANDS]
    for _ in range(MAX_PASSES):
        if _is_too_high(warden, own):
            _lower([warden], own, identity)
        high = [each.pid for each in members(warden) if _is_too_high(each.pid, wanted)]
        if not high and not _is_too_high(warden, own):
            return True
        _lower([pid for pid in high if is_below(pid, warden)], wanted, identity)
    return False


def _is_too_high(pid: int, wanted: Sequence[Rlimit]) -> bool:
    """True if a process may have more than wanted; False if it has ended."""
    limits = read(f"/proc/{pid}/limits")
    for kind, limit in wanted:
        found = re.search(rb"^%s\s+\S+\s+(\S+)" % re.escape(NAMES[kind]), limits, re.MULTILINE)
        if found and (found[1] == b"unlimited" or int(found[1]) > limit):
            return True
    return False


def _lower(pids: Collection[int], wanted: Sequence[Rlimit], identity: Identity) -> None:
    try:
        for pid in pids:
            for kind, limit in wanted:
                _lower_one(pid, kind, limit)
    except PermissionError:
        _lower_as(pids, wanted, identity)


def _lower_one(pid: int, kind: int, limit: int) -> None:
    with suppress(ProcessLookupError):
        soft, hard = (
            limit if had == resource.RLIM_INFINITY else min(had, limit) for had in resource.prlimit(pid, kind)
        )
        resource.prlimit(pid, kind, (soft, hard))


def _lower_as(pids: Collection[int], wanted: Sequence[Rlimit], identity: Identity) -> None:
    """The same, by a process with the jail's user. The caller checks whether it has worked."""
    limits = " ".join(f"{kind}:{limit}" for kind, limit in wanted)
    words = [this_system().python, "-I", "-S", "-c", HELPER, " ".join(map(str, pids)), limits]
    null = subprocess.DEVNULL
    with suppress(subprocess.SubprocessError, OSError):
        subprocess.run(
            words,
            user=identity.uid,
            group=identity.gid,
            extra_groups=[],
            env={},
            cwd="/",
            check=False,
            timeout=HELPER_TIMEOUT_S,
            stdin=null,
            stdout=null,
            stderr=null,
        )
