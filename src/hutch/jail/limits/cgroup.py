"""A control group for each jail, where the machine allows one.

The kernel then counts all memory of the jail together, including files in tmpfs and
kernel memory, and refuses or kills immediately. Version 2 is used when our group was
delegated to us, version 1 as root. Without either, only the watcher enforces the
limits.

A busy jail gets as much of the processor as one ordinary program. A server that runs
many jails takes a larger share for itself (`prefer_self`), so that it responds however
many are busy.
"""

import errno
import itertools
import os
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from hutch.jail.policy import Limits
from hutch.jail.process_owned_names import is_left_over, own_mark

PREFIX = "hutch"
LEAF = "hutch-self"  # for this process in version 2: a group whose children have limits has no processes
NEEDED = frozenset({"memory", "pids"})
PERIOD_US = 100_000
DEFAULT_WEIGHT = {1: 1024, 2: 100}  # an ordinary program's, by version
SERVER_WEIGHT_FACTOR = 16  # a server's weight, in ordinary programs
WEIGHT_FILE = {1: "cpu.shares", 2: "cpu.weight"}
OUR_PROCESSES = 2  # bubblewrap's outer process and the warden
REMOVE_TIMEOUT_S = 10.0  # killed processes of a starved jail may take long to end

_numbers = itertools.count()


@dataclass(frozen=True, slots=True)
class ParentGroups:
    """The groups in which groups for jails can be made: one directory for all controllers, or one for
    each."""

    version: int
    directories: Mapping[str, Path]  # controller: our own group


class Cgroup:
    """The group of one jail."""

    def __init__(self, version: int, directories: Mapping[str, Path]) -> None:
        self._directories = directories
        events = "memory.oom_control" if version == 1 else "memory.events"
        self._memory = os.open(directories["memory"] / events, os.O_RDONLY | os.O_CLOEXEC)
        self._pids = os.open(directories["pids"] / "pids.events", os.O_RDONLY | os.O_CLOEXEC)
        usage = "memory.usage_in_bytes" if version == 1 else "memory.current"
        self._usage = os.open(directories["memory"] / usage, os.O_RDONLY | os.O_CLOEXEC)
        self._tcp = directories["memory"] / "memory.kmem.tcp.usage_in_bytes"  # in version 1 only
        self._removing = threading.Lock()  # other threads may read counters while the jail closes
        self._final: dict[bytes, int] | None = None  # the counters, once the group is removed

    def add(self, pids: Sequence[int]) -> None:
        for directory in set(self._directories.values()):
            for pid in pids:
                (directory / "cgroup.procs").write_text(str(pid))

    def kills(self) -> int:
        """How many processes the kernel has killed because memory ran out."""
        return self._count(self._memory, b"oom_kill")

    def used_bytes(self) -> int:
        """All memory that the limit covers, including cached files; 0 after the group was removed."""
        with self._removing:
            return int(os.pread(self._usage, 64, 0)) if self._final is None else 0

    def uncounted_bytes(self) -> int:
        """Memory that the limit does not cover: TCP buffers, in version 1."""
        return int(_read(self._tcp) or 0)

    def refused_forks(self) -> int:
        return self._count(self._pids, b"max")

    def _count(self, fd: int, name: bytes) -> int:
        with self._removing:
            return _counter(fd, name) if self._final is None else self._final[name]

    def remove(self) -> None:
        """Remove the groups. Their processes have been killed and may take a moment to end."""
        with self._removing:
            self._final = {
                b"oom_kill": _counter(self._memory, b"oom_kill"),
                b"max": _counter(self._pids, b"max"),
            }
            os.close(self._memory)
            os.close(self._pids)
            os.close(self._usage)
        for directory in set(self._directories.values()):
            _remove(directory, timeout_s=REMOVE_TIMEOUT_S)


def find_parent_groups(root: Path = Path("/")) -> ParentGroups | None:
    """Our own group, if we may make groups below it."""
    version1: dict[str, Path] = {}
    version2: Path | None = None
    own = [line.split(":", 2) for line in _read(root / "proc/self/cgroup").splitlines()]
    for line in _read(root / "proc/self/mountinfo").splitlines():
        before, _, after = line.partition(" - ")
        top, mount = before.split()[3:5]
        kind, _, options = after.split()[:3]
        if kind not in ("cgroup", "cgroup2"):  # we may not be able to read others
            continue
        for number, controllers, path in own:
            inside = os.path.relpath(path, top)
            group_path = root / mount.lstrip("/") / inside
            if inside.startswith("..") or not group_path.is_dir():
                continue
            if kind == "cgroup2" and number == "0":
                version2 = group_path
            elif kind == "cgroup" and controllers:
                for name in set(controllers.split(",")) & set(options.split(",")):
                    version1[name] = group_path
    if version2 is not None and set(_read(version2 / "cgroup.controllers").split()) >= NEEDED:
        return (
            ParentGroups(2, dict.fromkeys(("memory", "pids", "cpu"), version2))
            if _is_writable(version2)
            else None
        )
    if version1.keys() >= NEEDED and all(_is_writable(version1[name]) for name in NEEDED):
        controllers_needed = {
            name: path for name, path in version1.items() if name in ("memory", "pids", "cpu")
        }
        return ParentGroups(
            1, {name: path for name, path in controllers_needed.items() if _is_writable(path)}
        )
    return None


def make(parents: ParentGroups, limits: Limits) -> Cgroup | None:
    """Make a group with the jail's limits; None when the kernel refuses."""
    name = f"{PREFIX}.{own_mark()}.{next(_numbers)}"
    directories = {controller: path / name for controller, path in parents.directories.items()}
    try:
        if parents.version == 2:
            _delegate(parents.directories["memory"])
        for directory in set(directories.values()):
            directory.mkdir()
        for controller, values in settings(parents.version, limits).items():
            for key, value in values.items():
                if controller in directories and (directories[controller] / key).exists():
                    (directories[controller] / key).write_text(value)
        return Cgroup(parents.version, directories)
    except OSError:
        for directory in set(directories.values()):
            _remove(directory, timeout_s=0)
        return None


def prefer_self(parents: ParentGroups) -> Path | None:
    """Give this process, and all it starts outside of jails, a larger share of the processor than a jail
    has.

    Returns the group that it is in then, or None when that is not possible.
    """
    own = parents.directories.get("cpu")
    if own is None:
        return None
    try:
        if parents.version == 2:
            _delegate(own)
            group = own / LEAF
        else:
            group = own / f"{PREFIX}.{own_mark()}.self"
            group.mkdir(exist_ok=True)
        weight = DEFAULT_WEIGHT[parents.version] * SERVER_WEIGHT_FACTOR
        (group / WEIGHT_FILE[parents.version]).write_text(str(weight))
        (group / "cgroup.procs").write_text(str(os.getpid()))
    except OSError:
        return None
    return group


def stop_preferring(parents: ParentGroups, group: Path) -> None:
    """Undo `prefer_self`. In version 2 the process stays in its group, as every process of ours does."""
    try:
        if parents.version == 2:
            (group / WEIGHT_FILE[2]).write_text(str(DEFAULT_WEIGHT[2]))
        else:
            (group.parent / "cgroup.procs").write_text(str(os.getpid()))
            _remove(group, timeout_s=0)
    except OSError:
        return  # the next start removes it


def sweep(parents: ParentGroups) -> None:
    """Remove groups left behind by Hutch processes that crashed; their jails died with them."""
    for parent in set(parents.directories.values()):
        for directory in parent.glob(f"{PREFIX}.*"):
            mark = directory.name.removeprefix(f"{PREFIX}.").rpartition(".")[0]
            if is_left_over(mark):
                _remove(directory, timeout_s=0)


def settings(version: int, limits: Limits) -> dict[str, dict[str, str]]:
    """The values to write to the files of a jail's group, by controller."""
    memory, pids = str(limits.memory_bytes), {"pids.max": str(limits.processes + OUR_PROCESSES)}
    quota = None if limits.cpus is None else str(int(limits.cpus * PERIOD_US))
    weight = {WEIGHT_FILE[version]: str(DEFAULT_WEIGHT[version])}
    if version == 2:
        cpu = weight | ({} if quota is None else {"cpu.max": f"{quota} {PERIOD_US}"})
        return {"memory": {"memory.max": memory, "memory.swap.max": "0"}, "pids": pids, "cpu": cpu}
    cpu = weight | ({} if quota is None else {"cpu.cfs_quota_us": quota})
    own = {"memory.limit_in_bytes": memory, "memory.memsw.limit_in_bytes": memory}
    tcp = {"memory.kmem.tcp.limit_in_bytes": memory}  # not enforced, but without it the kernel does not count
    return {"memory": own | tcp, "pids": pids, "cpu": cpu}


def _delegate(own: Path) -> None:
    """Allow groups below ours to have limits; for that, ours must contain no process."""
    controllers_needed = NEEDED | ({"cpu"} & set(_read(own / "cgroup.controllers").split()))
    if set(_read(own / "cgroup.subtree_control").split()) >= controllers_needed:
        return
    leaf = own / LEAF
    leaf.mkdir(exist_ok=True)
    for pid in _read(own / "cgroup.procs").split():
        (leaf / "cgroup.procs").write_text(pid)
    (own / "cgroup.subtree_control").write_text(" ".join(f"+{name}" for name in sorted(controllers_needed)))


def _remove(directory: Path, *, timeout_s: float) -> None:
    deadline = time.monotonic() + timeout_s
    while True:
        try:
            directory.rmdir()
            return
        except OSError as error:
            if error.errno != errno.EBUSY or time.monotonic() > deadline:
                return
            time.sleep(0.002)


def _is_writable(directory: Path) -> bool:
    return os.access(directory, os.W_OK) and os.access(directory / "cgroup.procs", os.W_OK)


def _counter(fd: int, name: bytes) -> int:
    for line in os.pread(fd, 4096, 0).splitlines():
        key, _, value = line.partition(b" ")
        if key == name:
            return int(value)
    return 0


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""
