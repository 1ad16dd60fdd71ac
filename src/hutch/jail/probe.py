"""What this machine offers to a jail, and how to get what it lacks.

`hutch doctor` shows the answers; the jail asks the same before it starts. A
check reads files under `root` and runs at most one short command, so it is the
same for the machine itself and for a copy of its /proc and /sys.
"""

import os
import re
import shutil
import subprocess
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

Status = Literal["ok", "warn", "fail"]

OLDEST_BWRAP = (0, 8)  # the first with --disable-userns
NOBODY = 65534
LIMIT_S = 5.0
ROOT = Path("/")


@dataclass(frozen=True, slots=True)
class Check:
    """One question to the machine: the answer, and the command that would mend it."""

    name: str
    status: Status
    found: str
    fix: str = ""


def attempt(name: str, ask: Callable[[], Check]) -> Check:
    """Ask; a check that breaks is one that fails, and the others are still heard."""
    return attempt_all((name,), lambda: [ask()])[0]


def attempt_all(names: Sequence[str], ask: Callable[[], list[Check]]) -> list[Check]:
    """The same, for checks that are answered together."""
    try:
        return ask()
    except Exception as error:  # noqa: BLE001 - nothing that a machine does may silence the doctor
        place = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{Path(place.filename).name} line {place.lineno}"
        found = f"the check itself broke: {type(error).__name__}: {error} ({where})"
        fix = "This is a bug in Hutch. Report it with the line above."
        return [Check(name, "fail", found, fix) for name in names]


def jail_checks(root: Path = ROOT) -> list[Check]:
    """Everything that a jail needs, the parts first and a real jail last."""
    path = shutil.which("bwrap")
    real = attempt("jail", lambda: jail(path))
    works = real.status == "ok"
    return [
        attempt("bwrap", lambda: bubblewrap(path)),
        attempt("user namespaces", lambda: user_namespaces(root)),
        attempt("apparmor", lambda: apparmor(root, bwrap_works=works)),
        attempt("seccomp", lambda: seccomp(root)),
        attempt("cgroups", lambda: cgroups(root)),
        attempt("process list", lambda: process_list(root)),
        real,
    ]


def bubblewrap(path: str | None) -> Check:
    """Whether bwrap is there and new enough."""
    install = "sudo apt-get install -y bubblewrap"
    if path is None:
        return Check("bwrap", "fail", "bwrap is not on PATH; nothing can be jailed", install)
    version = version_of([path, "--version"])
    if version is None:
        return Check("bwrap", "fail", f"{path} does not tell its version", f"{install} --reinstall")
    found = f"{dotted(version)} at {path}"
    if version < OLDEST_BWRAP:
        wanted = f"{found}, older than {dotted(OLDEST_BWRAP)}"
        return Check("bwrap", "fail", wanted, f"{install}  # Debian 12, Ubuntu 24.04 or newer have it")
    return Check("bwrap", "ok", found)


def jail(path: str | None) -> Check:
    """Run a real jail around /bin/true, as a user who is not root."""
    if path is None:
        return Check("jail", "fail", "not tried: there is no bwrap", "sudo apt-get install -y bubblewrap")
    # Hutch never runs bwrap as root: a jail made by root can write the host's sysctls.
    is_root = os.geteuid() == 0
    who = f"uid {NOBODY}, since root drops its rights first" if is_root else f"uid {os.geteuid()}"
    try:
        ran = subprocess.run(
            jail_argv(path),
            env={},
            cwd="/",
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=LIMIT_S,
            user=NOBODY if is_root else None,
            group=NOBODY if is_root else None,
            extra_groups=[] if is_root else None,
        )
    except subprocess.TimeoutExpired:
        by_hand = f"{path} --unshare-all --ro-bind / / /bin/true  # see by hand where it hangs"
        return Check("jail", "fail", f"a jail did not end within {LIMIT_S:g} s ({who})", by_hand)
    except OSError as error:
        return Check("jail", "fail", f"cannot start {path} as {who}: {error}", f"ls -l {path}")
    if ran.returncode == 0:
        return Check("jail", "ok", f"/bin/true ran in a jail as {who}")
    said = ran.stderr.strip().splitlines()[-1:] or [f"exit code {ran.returncode}"]
    return Check("jail", "fail", f"{said[0]} ({who})", jail_fix(said[0]))


def jail_argv(path: str) -> list[str]:
    """A jail of the kind Hutch uses: every namespace its own, none to be made inside, no rights."""
    return [
        path,
        *("--unshare-user", "--unshare-all", "--disable-userns", "--assert-userns-disabled"),
        *("--new-session", "--die-with-parent", "--cap-drop", "ALL"),
        *("--ro-bind", "/", "/", "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp"),
        "/bin/true",
    ]


def jail_fix(said: str) -> str:
    """The way out of what bwrap said."""
    if "mount proc" in said:  # a container hides parts of /proc; a new one may then not be mounted
        return (
            "docker run --security-opt seccomp=unconfined --security-opt apparmor=unconfined "
            "--security-opt systempaths=unconfined …"
        )
    if "RTM_NEWADDR" in said or "uid map" in said:
        return APPARMOR_FIX
    if "namespace" in said:
        return (
            "Mend user namespaces as shown above; in a container, start it with: docker run "
            "--security-opt seccomp=unconfined --security-opt apparmor=unconfined …"
        )
    return "bwrap --unshare-all --ro-bind / / /bin/true  # see by hand what it says"


def user_namespaces(root: Path = ROOT) -> Check:
    """Whether the kernel lets an ordinary user make namespaces."""
    name = "user namespaces"
    if not (root / "proc/self/ns/user").exists():
        return Check(name, "fail", "this kernel has none", "Boot a kernel with CONFIG_USER_NS=y.")
    for sysctl, blocking, wanted in (
        ("user.max_user_namespaces", "0", "15000"),
        ("kernel.unprivileged_userns_clone", "0", "1"),
    ):
        if _sysctl(root, sysctl) == blocking:
            return Check(name, "fail", f"switched off by {sysctl} = {blocking}", _set_sysctl(sysctl, wanted))
    limit = _sysctl(root, "user.max_user_namespaces")
    return Check(name, "ok", f"allowed, {limit} for a user" if limit else "allowed")


APPARMOR_FIX = """\
printf 'abi <abi/4.0>,\\ninclude <tunables/global>\\nprofile bwrap /usr/bin/bwrap flags=(unconfined) {\\n  userns,\\n}\\n' | sudo tee /etc/apparmor.d/bwrap
sudo apparmor_parser -r /etc/apparmor.d/bwrap
or, for every program: sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0"""  # noqa: E501


def apparmor(root: Path = ROOT, *, bwrap_works: bool) -> Check:
    """Ubuntu 24.04 and later allow user namespaces only to programs with a profile."""
    enabled = _read(root / "sys/module/apparmor/parameters/enabled") == "Y"
    restricted = _sysctl(root, "kernel.apparmor_restrict_unprivileged_userns") == "1"
    if not enabled:
        return Check("apparmor", "ok", "not in use")
    if not restricted:
        return Check("apparmor", "ok", "in use, does not restrict user namespaces")
    if bwrap_works:
        return Check("apparmor", "ok", "restricts user namespaces, and lets bwrap have them")
    return Check("apparmor", "fail", "keeps user namespaces from bwrap", APPARMOR_FIX)


def seccomp(root: Path = ROOT) -> Check:
    """Whether system calls can be filtered."""
    actions = _read(root / "proc/sys/kernel/seccomp/actions_avail").split()
    missing = {"errno", "kill_process"}.difference(actions)
    if missing:
        found = f"this kernel cannot filter system calls (no {', '.join(sorted(missing))})"
        return Check("seccomp", "fail", found, "Boot a kernel 4.14 or newer with CONFIG_SECCOMP_FILTER=y.")
    return Check("seccomp", "ok", "filters are available")


FALLBACK = "instead, rlimits bound each process, and a watcher ends a jail that uses too much"
DELEGATION_FIX = """\
systemd-run --user --scope -p Delegate=yes hutch …
where nobody is logged in, first: sudo loginctl enable-linger $(id -un)"""


def process_list(root: Path = ROOT) -> Check:
    """Whether the kernel tells who a process's children are: how the watcher finds everybody in a jail."""
    me = os.getpid()
    if (root / f"proc/{me}/task/{me}/children").is_file():
        return Check("process list", "ok", "the kernel lists a process's children")
    return Check(
        "process list",
        "warn",
        "the kernel does not list a process's children: only a cgroup can hold a jail's memory and processes",
        "Use a kernel with CONFIG_PROC_CHILDREN, or give Hutch a delegated cgroup.",
    )


def cgroups(root: Path = ROOT) -> Check:
    """Whether memory and processes can be limited by the kernel for a whole jail."""
    lines = [line.split(":", 2) for line in _read(root / "proc/self/cgroup").splitlines()]
    mount = root / "sys/fs/cgroup"
    if (mount / "cgroup.controllers").exists():
        own = next((mount / path.lstrip("/") for number, _, path in lines if number == "0"), mount)
        if _is_delegated(own):
            return Check("cgroups", "ok", f"v2, {own.relative_to(root / 'sys/fs')} is ours")
        return Check("cgroups", "warn", f"v2, but none is ours; {FALLBACK}", DELEGATION_FIX)
    if all(os.access(mount / controller / "cgroup.procs", os.W_OK) for controller in ("memory", "pids")):
        return Check("cgroups", "ok", "v1, memory and pids can be limited")
    boot = "Boot with systemd.unified_cgroup_hierarchy=1, then:"
    return Check("cgroups", "warn", f"no v2, and no v1 that is ours; {FALLBACK}", f"{boot}\n{DELEGATION_FIX}")


def version_of(argv: Sequence[str]) -> tuple[int, ...] | None:
    """The first version number that a program prints about itself; None when it prints none."""
    try:
        ran = subprocess.run(
            argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", timeout=LIMIT_S
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = re.search(r"\d+(\.\d+)+", ran.stdout)
    return tuple(int(part) for part in found[0].split(".")) if found else None


def dotted(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))


def _is_delegated(group: Path) -> bool:
    controllers = _read(group / "cgroup.controllers").split()
    return {"memory", "pids"} <= set(controllers) and os.access(group / "cgroup.procs", os.W_OK)


def _sysctl(root: Path, name: str) -> str:
    return _read(root / "proc/sys" / name.replace(".", "/"))


def _set_sysctl(name: str, value: str) -> str:
    return f"echo '{name} = {value}' | sudo tee /etc/sysctl.d/60-hutch.conf && sudo sysctl --system"


def _read(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""
