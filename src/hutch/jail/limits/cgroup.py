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
from contextlib import suppress
from pathlib import Path

from hutch.jail.pid_stamped_names import is_left_over, own_mark
from hutch.jail.policy import Limits
from hutch.system.lazy_dataclass import dataclass

PREFIX = "hutch"
LEAF = "hutch-self"  # for this process in version 2: a group whose children have limits has no processes
NEEDED = frozenset({"memory", "pids"})
PERIOD_US = 100_000
UNLIMITED = {1: {"cpu.cfs_quota_us": "-1"}, 2: {"cpu.max": f"max {PERIOD_US}"}}  # by version
DEFAULT_WEIGHT = {1: 1024, 2: 100}  # an ordinary program's, by version
SERVER_WEIGHT_FACTOR = 16  # a server's weight, in ordinary programs
EVENTS_FILE = {1: "memory.oom_control", 2: "memory.events"}  # in version 1 without the groups below
WEIGHT_FILE = {1: "cpu.shares", 2: "cpu.weight"}
OUR_PROCESSES = 2  # bubblewrap's outer process and the warden
CHARGED_AT_ONCE_BYTES = 1024**2  # by far more than the kernel charges in one step
MAX_MOVES = 100  # of all processes of a group
REMOVE_TIMEOUT_S = 10.0  # killed processes of a starved jail may take long to end

_numbers = itertools.count()


@dataclass(frozen=True, slots=True)
class ParentGroups:
    """The groups in which groups for jails can be made: one directory for all controllers, or one for
    each."""

    version: int
    directories: Mapping[str, Path]  # controller: our own group


@dataclass(frozen=True, slots=True)
class CommandGroup:
    """A group below the jail's, for a command with less memory."""

    directory: Path
    memory_bytes: int
    version: int

    def kills(self) -> int:
        """How many of its processes the kernel has killed because the memory of any group ran out."""
        return _counter_in(_read(self.directory / EVENTS_FILE[self.version]), "oom_kill")

    def own_kills(self) -> int:
        """The same, if the limit was that of the command and not that of the jail."""
        if self.version == 1:
            # Some kernels do not count failures.
            peak = int(_read(self.directory / "memory.max_usage_in_bytes") or 0)
            is_own = peak > self.memory_bytes - CHARGED_AT_ONCE_BYTES
        else:
            is_own = _counter_in(_read(self.directory / EVENTS_FILE[2]), "oom") > 0
        return self.kills() if is_own else 0


class Cgroup:
    """The group of one jail."""

    def __init__(self, version: int, directories: Mapping[str, Path]) -> None:
        self._version = version
        self._directories = directories
        self.limits_cpus = "cpu" in directories and all(
            (directories["cpu"] / name).exists() for name in UNLIMITED[version]
        )
        self._memory = os.open(directories["memory"] / EVENTS_FILE[version], os.O_RDONLY | os.O_CLOEXEC)
        self._pids = os.open(directories["pids"] / "pids.events", os.O_RDONLY | os.O_CLOEXEC)
        usage = "memory.usage_in_bytes" if version == 1 else "memory.current"
        self._usage = os.open(directories["memory"] / usage, os.O_RDONLY | os.O_CLOEXEC)
        self._tcp = directories["memory"] / "memory.kmem.tcp.usage_in_bytes"  # in version 1 only
        self._commands: dict[int, CommandGroup] = {}  # by the pid inside of their reapers
        self._forgotten = 0  # kills to add to the jail's counter, from groups that were removed
        self._removing = threading.Lock()  # other threads may read counters while the jail closes
        self._final: dict[bytes, int] | None = None  # the counters, once the group is removed

    def add(self, pids: Sequence[int]) -> None:
        for directory in set(self._directories.values()):
            for pid in pids:
                (directory / "cgroup.procs").write_text(str(pid))

    def change(self, limits: Limits) -> bool:
        """Set other limits. False if the jail uses more memory than the new limit, and cannot be made to use
        less (version 1 only): then its memory limit stays."""
        values = settings(self._version, limits)
        values["cpu"] = UNLIMITED[self._version] | values["cpu"]
        with self._removing:
            if self._final is not None:
                return True
            is_set = all(self._write(name, values[name]) for name in ("pids", "cpu"))
            return self._set_memory(values["memory"]) and is_set

    def _set_memory(self, values: Mapping[str, str]) -> bool:
        """In version 1 the limit with swap is never the lower one, so the order depends on the direction."""
        if self._write("memory", values):
            return True
        return self._write("memory", dict(reversed(list(values.items()))))

    def _write(self, controller: str, values: Mapping[str, str]) -> bool:
        try:
            for key, value in values.items():
                file = self._directories.get(controller, Path()) / key
                if controller in self._directories and file.exists():
                    file.write_text(value)
        except OSError:
            return False
        return True

    def limit_command(self, reaper: int, pid: int, memory_bytes: int) -> bool:
        """Move a reaper (its pid inside, and on the host) to a group of its own, before its command starts.
        False if that is not possible. The groups of commands that have ended are removed."""
        memory = self._directories["memory"]
        directory = memory / f"command.{next(_numbers)}"
        with self._removing:
            if self._final is not None or _read(memory / "memory.use_hierarchy").strip() == "0":
                return False
            self._forget_ended()
            try:
                if self._version == 2:
                    delegate(memory, frozenset({"memory"}))
                directory.mkdir()
                for key, value in _memory_settings(self._version, memory_bytes).items():
                    if (directory / key).exists():
                        (directory / key).write_text(value)
                (directory / "cgroup.procs").write_text(str(pid))
            except OSError:
                remove(directory, timeout_s=0)
                return False
            self._commands[reaper] = CommandGroup(directory, memory_bytes, self._version)
        return True

    def _forget_ended(self) -> None:
        for reaper, group in list(self._commands.items()):
            kills = self._kills_for_jail(group)
            remove(group.directory, timeout_s=0)
            if not group.directory.exists():
                self._forgotten += kills
                del self._commands[reaper]

    def command_kills(self) -> dict[int, tuple[int, int]]:
        """For each command with a limit of its own: the limit, and how many of its processes the kernel has
        killed because of it."""
        with self._removing:
            return {
                reaper: (group.memory_bytes, group.own_kills()) for reaper, group in self._commands.items()
            }

    def kills(self) -> int:
        """How many processes the kernel has killed because the memory of the jail ran out."""
        with self._removing:
            if self._final is not None:
                return self._final[b"oom_kill"]
            return self._jail_kills()

    def _jail_kills(self) -> int:
        below = sum(map(self._kills_for_jail, self._commands.values()))
        return _counter(self._memory, b"oom_kill") + self._forgotten + below

    def _kills_for_jail(self, group: CommandGroup) -> int:
        """The number to add to the jail's own counter: version 1 counts each group alone, version 2 counts
        those below, too."""
        return group.kills() - group.own_kills() if self._version == 1 else -group.own_kills()

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
                b"oom_kill": self._jail_kills(),
                b"max": _counter(self._pids, b"max"),
            }
            os.close(self._memory)
            os.close(self._pids)
            os.close(self._usage)
            self._commands = {}
        for below in self._directories["memory"].glob("*/"):
            remove(below, timeout_s=REMOVE_TIMEOUT_S)
        for directory in set(self._directories.values()):
            remove(directory, timeout_s=REMOVE_TIMEOUT_S)


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
                # A process of ours moved the shell that started this one: make groups beside the leaf.
                version2 = group_path.parent if group_path.name == LEAF and inside != "." else group_path
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


def can_limit_cpus(parents: ParentGroups) -> bool:
    own = parents.directories.get("cpu")
    return own is not None and (parents.version == 1 or "cpu" in _read(own / "cgroup.controllers").split())


def make(parents: ParentGroups, limits: Limits) -> Cgroup | None:
    """Make a group with the jail's limits; None when the kernel refuses."""
    name = f"{PREFIX}.{own_mark()}.{next(_numbers)}"
    directories = {controller: path / name for controller, path in parents.directories.items()}
    try:
        if parents.version == 2:
            delegate(parents.directories["memory"])
        for directory in set(directories.values()):
            directory.mkdir()
        for controller, values in settings(parents.version, limits).items():
            for key, value in values.items():
                if controller in directories and (directories[controller] / key).exists():
                    (directories[controller] / key).write_text(value)
        return Cgroup(parents.version, directories)
    except OSError:
        for directory in set(directories.values()):
            remove(directory, timeout_s=0)
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
            delegate(own)
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
            remove(group, timeout_s=0)
    except OSError:
        return  # the next start removes it


def sweep(parents: ParentGroups) -> None:
    """Remove groups left behind by Hutch processes that crashed; their jails died with them."""
    for parent in set(parents.directories.values()):
        for directory in parent.glob(f"{PREFIX}.*"):
            mark = directory.name.removeprefix(f"{PREFIX}.").rpartition(".")[0]
            if is_left_over(mark):
                remove(directory, timeout_s=0)


def settings(version: int, limits: Limits) -> dict[str, dict[str, str]]:
    """The values to write to the files of a jail's group, by controller."""
    memory, pids = (
        _memory_settings(version, limits.memory_bytes),
        {"pids.max": str(limits.processes + OUR_PROCESSES)},
    )
    quota = None if limits.cpus is None else str(int(limits.cpus * PERIOD_US))
    weight = {WEIGHT_FILE[version]: str(DEFAULT_WEIGHT[version])}
    if version == 2:
        cpu = weight | ({} if quota is None else {"cpu.max": f"{quota} {PERIOD_US}"})
        return {"memory": memory, "pids": pids, "cpu": cpu}
    cpu = weight | ({} if quota is None else {"cpu.cfs_quota_us": quota})
    # Not enforced, but without it the kernel does not count.
    tcp = {"memory.kmem.tcp.limit_in_bytes": str(limits.memory_bytes)}
    return {"memory": memory | tcp, "pids": pids, "cpu": cpu}


def _memory_settings(version: int, memory_bytes: int) -> dict[str, str]:
    if version == 2:
        return {"memory.max": str(memory_bytes), "memory.swap.max": "0"}
    return {"memory.limit_in_bytes": str(memory_bytes), "memory.memsw.limit_in_bytes": str(memory_bytes)}


def delegate(own: Path, needed: frozenset[str] = NEEDED | {"cpu"}) -> None:
    """Allow groups below this one to have limits; for that, it must contain no process."""
    controllers_needed = needed & (NEEDED | set(_read(own / "cgroup.controllers").split()))
    if set(_read(own / "cgroup.subtree_control").split()) >= controllers_needed:
        return
    leaf = own / LEAF
    leaf.mkdir(exist_ok=True)
    enabled = " ".join(f"+{name}" for name in sorted(controllers_needed))
    for attempt in itertools.count(1):  # processes in the group may start others meanwhile
        for pid in _read(own / "cgroup.procs").split():
            with suppress(ProcessLookupError):  # it has ended
                (leaf / "cgroup.procs").write_text(pid)
        try:
            (own / "cgroup.subtree_control").write_text(enabled)
            return
        except OSError as error:
            if error.errno != errno.EBUSY or attempt == MAX_MOVES:
                raise


def remove(directory: Path, *, timeout_s: float) -> None:
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
    return _counter_in(os.pread(fd, 4096, 0).decode(), name.decode())


def _counter_in(text: str, name: str) -> int:
    for line in text.splitlines():
        key, _, value = line.partition(" ")
        if key == name:
            return int(value)
    return 0


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""
