"""The permissions of a jail as data, and the bubblewrap options for them.

Nothing here touches the machine: a `Policy` and a `System` go in, a list of options
comes out, and tests compare lists. The order of the options matters, since bubblewrap
performs them one by one.
"""

from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from pathlib import PurePosixPath
from types import MappingProxyType
from typing import Any

from hutch.domain.commit_text import DEFAULT_AUTHOR, parse_author
from hutch.domain.errors import BadRequest
from hutch.jail.launch.visible_system_files import System
from hutch.system.lazy_dataclass import dataclass

KIB = 1024
MIB = 1024 * KIB
GIB = 1024 * MIB

WORKSPACE = "/workspace"
HOME = "/home/hutch"
WARDEN = "/run/hutch/warden.py"
WARDEN_PROGRAM = "/run/hutch/warden"  # Python under another name, so that `pkill python` does not kill it
OWN = (
    "/dev",
    "/etc",
    "/proc",
    "/run",
    "/sys",
    "/var/tmp",
    HOME,
    WORKSPACE,
)  # paths where a jail has its own content
HOSTNAME = "hutch"
PATH = "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin"
MAX_TIMEOUT_S = 600.0
TMPFS_LIMITS = ("tmp_bytes", "shm_bytes", "home_bytes")
COVER_BYTES = 4096  # of an empty directory
TMPFS_SHARE = 5 / 8  # of the jail's memory, when its tmpfs could use all of it


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How much a jail, and each command in it, may use."""

    processes: int = 512
    memory_bytes: int = 2 * GIB  # of all processes together, tmpfs included
    open_files: int = 4096  # of one process
    descriptors: int = 16_384  # of all processes together; not needed where a cgroup counts memory
    mappings: int = 131_072  # of memory, of all processes together; not needed with a cgroup
    locks: int = 8192  # on files, of all processes together: kernel memory that no cgroup counts
    terminals: int = 64  # of the jail; all jails of the machine share some 3,000
    file_bytes: int = 2 * GIB  # of one file
    tmp_bytes: int = 1 * GIB
    shm_bytes: int = 64 * MIB
    home_bytes: int = 512 * MIB
    tmpfs_files: int = 200_000  # in /tmp, home and /dev/shm each
    workspace_growth_bytes: int = 2 * GIB
    workspace_growth_files: int = 500_000
    command_timeout_s: float = 30.0
    output_bytes: int = 1 * MIB  # of one stream, in memory
    output_file_bytes: int = 64 * MIB  # of one command, in a file when memory was not enough
    command_total_s: float = MAX_TIMEOUT_S  # whatever timeout a command asks for
    max_command_timeout_s: float | None = None  # of members: the longest timeout that a command can ask for
    cpu_time_s: int | None = None  # of one command with all its processes; None is no limit
    cpus: float | None = None  # of the jail; needs a cgroup; None is no limit
    # The sizes of tmpfs that were set, if `memory_bytes` has reduced them.
    tmpfs_as_set: tuple[tuple[str, int], ...] = ()

    def __post_init__(self) -> None:
        for name in ("command_timeout_s", "command_total_s"):
            if not 0 < (value := getattr(self, name)) <= MAX_TIMEOUT_S:
                raise BadRequest(f"{name} is {value:g}; give a number above 0 and at most {MAX_TIMEOUT_S:g}.")
        tmpfs = self.tmp_bytes + self.shm_bytes + self.home_bytes
        if tmpfs >= self.memory_bytes:
            raise BadRequest(
                f"/tmp, /dev/shm and home may hold {tmpfs} bytes, which is not less than memory_bytes "
                f"({self.memory_bytes}): files there are memory. Lower them or raise memory_bytes."
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """The rules of one jail."""

    profile: str = "agent"
    limits: Limits = field(default_factory=Limits)
    network: tuple[str, ...] = ()  # host patterns that the egress proxy allows; () is no network
    readonly: tuple[str, ...] = ()  # host directories, visible at the same path and read-only
    hidden: tuple[str, ...] = ()  # host directories that are empty in the jail if it could see them
    also_at: tuple[str, ...] = ()  # more paths that link to the workspace, where nothing else is
    git_author: str = DEFAULT_AUTHOR  # of commits in the jail, unless git is configured there
    environment: tuple[tuple[str, str], ...] = ()  # added to every command's environment
    secrets: tuple[tuple[str, str], ...] = field(default=(), repr=False)  # added like `environment`
    writable: bool = True  # whether the workspace may be changed
    commands: tuple[str, ...] | None = None  # programs that `run` accepts: not a security boundary


AGENT = Policy()
TEST = Policy(
    profile="test",
    limits=Limits(
        memory_bytes=512 * MIB,
        tmp_bytes=192 * MIB,
        shm_bytes=32 * MIB,
        home_bytes=96 * MIB,
        command_timeout_s=30.0,
        output_bytes=1 * MIB,
    ),
)
TOOL = Policy(
    profile="tool",
    limits=Limits(
        processes=128,
        memory_bytes=1 * GIB,
        tmp_bytes=256 * MIB,
        shm_bytes=32 * MIB,
        home_bytes=128 * MIB,
        workspace_growth_bytes=512 * MIB,
    ),
)
PROFILES: Mapping[str, Policy] = {policy.profile: policy for policy in (AGENT, TEST, TOOL)}


def profile(name: str, **changes: object) -> Policy:
    """The named profile, with some of its rules replaced."""
    try:
        known = PROFILES[name]
    except KeyError:
        raise BadRequest(f"There is no jail profile '{name}'. Use one of {', '.join(PROFILES)}.") from None
    return replace(known, **changes)  # type: ignore[arg-type]


def build_policy(
    name: str, values: Mapping[str, Any], *, network: Sequence[str] = (), git_author: str = ""
) -> Policy:
    """The named profile with these limits; profiles other than the agent's take the lower of both.

    Files in /tmp, /dev/shm and home use memory: limits that would allow all of it are reduced to a share.
    """
    known, limits = profile(name), dict(values)
    if known.profile != AGENT.profile:
        for each, value in limits.items():
            both = (value, getattr(known.limits, each))
            limits[each] = min((limit for limit in both if limit is not None), default=None)
    if limits["file_bytes"] is None:
        limits["file_bytes"] = max(known.limits.file_bytes, limits["workspace_growth_bytes"])
    total = sum(limits[each] for each in TMPFS_LIMITS)
    if total >= limits["memory_bytes"]:
        share = TMPFS_SHARE * limits["memory_bytes"] / total
        limits["tmpfs_as_set"] = tuple((each, limits[each]) for each in TMPFS_LIMITS)
        limits |= {each: int(limits[each] * share) for each in TMPFS_LIMITS}
    return replace(
        known,
        limits=replace(known.limits, **limits),
        network=tuple(dict.fromkeys(network)),
        git_author=git_author or DEFAULT_AUTHOR,
    )


def environment(policy: Policy, *, workspace: str = WORKSPACE, home: str = HOME) -> dict[str, str]:
    """The environment of a command: nothing of the host's."""
    return {
        "PATH": PATH,
        "HOME": home,
        "USER": "hutch",
        "LOGNAME": "hutch",
        "SHELL": "/bin/bash",
        "LANG": "C.UTF-8",
        "TERM": "xterm-256color",
        "PWD": workspace,
        "TMPDIR": "/tmp",
        # Python treats a file of the same size as unchanged for up to a second, and agents are faster.
        "PYTHONDONTWRITEBYTECODE": "1",
        **dict(policy.environment),
        **dict(policy.secrets),
    }


def etc_files(uid: int, gid: int, git_author: str = DEFAULT_AUTHOR) -> dict[str, str]:
    """The files of /etc that are written for the jail instead of taken from the host."""
    return {
        "/etc/passwd": (
            "root:x:0:0:root:/root:/usr/sbin/nologin\n"
            "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n"
            f"hutch:x:{uid}:{gid}:hutch:{HOME}:/bin/bash\n"
        ),
        "/etc/group": f"root:x:0:\nnogroup:x:65534:\nhutch:x:{gid}:\n",
        "/etc/hosts": f"127.0.0.1 localhost {HOSTNAME}\n::1 localhost ip6-localhost ip6-loopback\n",
        "/etc/nsswitch.conf": "passwd: files\ngroup: files\nshadow: files\nhosts: files dns\n",
        "/etc/gitconfig": _git_settings(*parse_author(git_author)),
        "/etc/resolv.conf": "# No name server: names are resolved by the proxy, if there is one.\n",
    }


def _git_settings(name: str, address: str) -> str:
    """The settings of git with the lowest precedence: those of a repository and of the home override them."""

    def quote(value: str) -> str:
        escaped = value.replace("\\", "\\\\").replace('"', '\\"')
        return f'"{escaped}"'

    return f"[user]\n\tname = {quote(name)}\n\temail = {quote(address)}\n"


def arguments(
    policy: Policy,
    system: System,
    *,
    workspace: str,
    uid: int,
    gid: int,
    files: Mapping[str, int],
    seccomp_fd: int,
    beside: Sequence[tuple[str, str]] = (),
    sources: Mapping[str, str] = MappingProxyType({}),
) -> list[str]:
    """The options of bubblewrap. `files` maps each file made for the jail to the descriptor with its
    content, `beside` lists read-only directories of the workspace: host path, path in the jail. `sources`
    maps directories of `policy.readonly` to other paths on the host where they can be reached."""
    limits = policy.limits
    return [
        *("--unshare-user", "--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts"),
        *("--unshare-cgroup", "--disable-userns", "--assert-userns-disabled"),
        # The same uid inside and outside, so that git finds its own files.
        *("--uid", str(uid), "--gid", str(gid), "--hostname", HOSTNAME),
        *("--new-session", "--die-with-parent", "--as-pid-1", "--cap-drop", "ALL"),
        # Made first and readable by all: a parent that bubblewrap makes for a file is private to its owner.
        *_flat(("--perms", "0755", "--dir", path) for path in _parents(system, files)),
        *_flat(("--ro-bind", path, path) for path in system.directories),
        *_flat(("--symlink", target, path) for path, target in system.links),
        *_flat(("--ro-bind", path, path) for path in system.etc),
        *_flat(("--symlink", target, path) for path, target in system.etc_links),
        *_flat(("--perms", "0444", "--file", str(fd), path) for path, fd in files.items()),
        *("--symlink", system.python, WARDEN_PROGRAM),
        *("--proc", "/proc"),
        *_flat(("--ro-bind", "/dev/null", path) for path in system.masked),
        *("--remount-ro", "/proc"),
        *("--dev", "/dev", *_tmpfs("/dev/shm", limits.shm_bytes, "1777"), "--remount-ro", "/dev"),
        *_tmpfs("/tmp", limits.tmp_bytes, "1777"),
        *("--dir", "/home", *_tmpfs(HOME, limits.home_bytes, "0755")),
        *("--dir", "/var", "--symlink", "/tmp", "/var/tmp", "--dir", "/mnt", "--dir", "/sys"),
        *_flat(("--ro-bind", sources.get(path, path), path) for path in policy.readonly),
        *_flat(("--ro-bind", path, shown) for path, shown in beside),
        *_flat(_covered(path) for path in hidden_paths(policy, system, [shown for _, shown in beside])),
        *("--bind" if policy.writable else "--ro-bind", workspace, WORKSPACE),
        *_flat(_link(path) for path in free_paths(policy, system)),
        *("--remount-ro", "/", "--chdir", WORKSPACE),
        *("--seccomp", str(seccomp_fd)),
    ]


def hidden_paths(policy: Policy, system: System, beside: Sequence[str]) -> list[str]:
    """The paths of `hidden` that the jail would see; a mount needs a place, so the others are left out."""
    seen = (*system.directories, *policy.readonly, *beside)
    return [path for path in policy.hidden if any(PurePosixPath(path).is_relative_to(each) for each in seen)]


def _covered(path: str) -> tuple[str, ...]:
    return (*_tmpfs(path, COVER_BYTES, "0555"), "--remount-ro", path)


def free_paths(policy: Policy, system: System) -> list[str]:
    """The paths of `also_at` with nothing of the jail above or below, so that a link may be made there."""
    taken = [*system.directories, *(name for name, _ in system.links), *policy.readonly, *OWN]
    free = []
    for path in policy.also_at:
        wanted = PurePosixPath(path)
        others = [PurePosixPath(other) for other in taken]
        if not wanted.is_absolute() or ".." in wanted.parts or path in ("/", "/tmp"):
            continue
        if not any(wanted.is_relative_to(other) or other.is_relative_to(wanted) for other in others):
            free.append(path)
            taken.append(path)
    return free


def _link(path: str) -> list[str]:
    above = [str(parent) for parent in reversed(PurePosixPath(path).parents)][1:]
    return [*_flat(("--perms", "0755", "--dir", each) for each in above), "--symlink", WORKSPACE, path]


def _parents(system: System, files: Mapping[str, int]) -> list[str]:
    """The directories above the single files, parents first."""
    paths = [*system.etc, *(path for path, _ in system.etc_links), *files]
    above = {str(parent) for path in paths for parent in PurePosixPath(path).parents} - {"/"}
    return sorted(above)


def _tmpfs(path: str, size_bytes: int, mode: str) -> tuple[str, ...]:
    return ("--perms", mode, "--size", str(size_bytes), "--tmpfs", path)


def _flat(groups: object) -> list[str]:
    return [word for group in groups for word in group]  # type: ignore[attr-defined]
