"""Checks what this machine offers to a jail, and how to fix what is missing.

`hutch doctor` prints the results; the jail runs the same checks before it starts. A
check reads files under `root` and runs at most one short command, so it works the same
on a copy of another machine's /proc and /sys.
"""

import os
import re
import shutil
import subprocess
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal

from hutch.system.lazy_dataclass import dataclass

Status = Literal["ok", "warn", "fail"]

MIN_BWRAP_VERSION = (0, 8)  # the first with --disable-userns
NOBODY = 65534
TIMEOUT_S = 30.0  # a busy machine takes seconds to make namespaces
ROOT = Path("/")


@dataclass(frozen=True, slots=True)
class Check:
    """The result of one check, and the command that fixes a failure."""

    name: str
    status: Status
    found: str
    fix: str = ""


def attempt(name: str, check: Callable[[], Check]) -> Check:
    """Run a check. One that raises counts as failed, and the others still run."""
    return attempt_all((name,), lambda: [check()])[0]


def attempt_all(names: Sequence[str], check: Callable[[], list[Check]]) -> list[Check]:
    """The same for several checks with one function."""
    try:
        return check()
    except Exception as error:  # noqa: BLE001 - a broken check must not end the doctor
        place = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{Path(place.filename).name} line {place.lineno}"
        found = f"the check itself failed: {type(error).__name__}: {error} ({where})"
        fix = "This is a bug in Hutch. Report it with the line above."
        return [Check(name, "fail", found, fix) for name in names]


def jail_checks(root: Path = ROOT) -> list[Check]:
    """Check everything that a jail needs, the parts first and a real jail last."""
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
    """Check that bwrap is installed and new enough."""
    install = "sudo apt-get install -y bubblewrap"
    if path is None:
        return Check("bwrap", "fail", "bwrap is not on PATH; nothing can be jailed", install)
    version = version_of([path, "--version"])
    if version is None:
        return Check("bwrap", "fail", f"{path} does not print its version", f"{install} --reinstall")
    found = f"{dotted(version)} at {path}"
    if version < MIN_BWRAP_VERSION:
        wanted = f"{found}, older than {dotted(MIN_BWRAP_VERSION)}"
        return Check("bwrap", "fail", wanted, f"{install}  # Debian 12, Ubuntu 24.04 or newer have it")
    return Check("bwrap", "ok", found)


def jail(path: str | None) -> Check:
    """Run a real jail around /bin/true, as a user other than root."""
    if path is None:
        return Check("jail", "fail", "not tried: there is no bwrap", "sudo apt-get install -y bubblewrap")
    # Hutch never runs bwrap as root: a jail made by root can write the host's sysctls.
    is_root = os.geteuid() == 0
    who = f"uid {NOBODY}, since root drops its privileges first" if is_root else f"uid {os.geteuid()}"
    try:
        ran = subprocess.run(
            jail_argv(path),
            env={},
            cwd="/",
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=TIMEOUT_S,
            user=NOBODY if is_root else None,
            group=NOBODY if is_root else None,
            extra_groups=[] if is_root else None,
        )
    except subprocess.TimeoutExpired:
        by_hand = f"{path} --unshare-all --ro-bind / / /bin/true  # run it to see where it hangs"
        return Check("jail", "fail", f"a jail did not end within {TIMEOUT_S:g} s ({who})", by_hand)
    except OSError as error:
        return Check("jail", "fail", f"cannot start {path} as {who}: {error}", f"ls -l {path}")
    if ran.returncode == 0:
        return Check("jail", "ok", f"/bin/true ran in a jail as {who}")
    lines = ran.stderr.strip().splitlines()[-1:] or [f"exit code {ran.returncode}"]
    return Check("jail", "fail", f"{lines[0]} ({who})", jail_fix(lines[0]))


def jail_argv(path: str) -> list[str]:
    """A jail like Hutch's: all namespaces its own, no new ones inside, no capabilities."""
    return [
        path,
        *("--unshare-user", "--unshare-all", "--disable-userns", "--assert-userns-disabled"),
        *("--new-session", "--die-with-parent", "--cap-drop", "ALL"),
        *("--ro-bind", "/", "/", "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp"),
        "/bin/true",
    ]


def jail_fix(message: str) -> str:
    """The remedy for an error message of bwrap."""
    if "mount proc" in message:  # a container hides parts of /proc, which forbids mounting a new one
        return (
            "docker run --security-opt seccomp=unconfined --security-opt apparmor=unconfined "
            "--security-opt systempaths=unconfined …"
        )
    if "RTM_NEWADDR" in message or "uid map" in message:
        return APPARMOR_FIX
    if "namespace" in message:
        return (
            "Fix user namespaces as shown above; in a container, start it with: docker run "
            "--security-opt seccomp=unconfined --security-opt apparmor=unconfined …"
        )
    return "bwrap --unshare-all --ro-bind / / /bin/true  # run it to see its message"


def user_namespaces(root: Path = ROOT) -> Check:
    """Check that the kernel lets an ordinary user make namespaces."""
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
    return Check(name, "ok", f"allowed, {limit} per user" if limit else "allowed")


APPARMOR_FIX = """\
printf 'abi <abi/4.0>,\\ninclude <tunables/global>\\nprofile bwrap /usr/bin/bwrap flags=(unconfined) {\\n  userns,\\n}\\n' | sudo tee /etc/apparmor.d/bwrap
sudo apparmor_parser -r /etc/apparmor.d/bwrap
or, for every program: sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0"""  # noqa: E501


def apparmor(root: Path = ROOT, *, bwrap_works: bool) -> Check:
    """Check that AppArmor lets bwrap make user namespaces: since Ubuntu 24.04 only programs with a profile
    may."""
    enabled = _read(root / "sys/module/apparmor/parameters/enabled") == "Y"
    restricted = _sysctl(root, "kernel.apparmor_restrict_unprivileged_userns") == "1"
    if not enabled:
        return Check("apparmor", "ok", "not in use")
    if not restricted:
        return Check("apparmor", "ok", "in use, does not restrict user namespaces")
    if bwrap_works:
        return Check("apparmor", "ok", "restricts user namespaces, but allows them for bwrap")
    return Check("apparmor", "fail", "forbids user namespaces for bwrap", APPARMOR_FIX)


def seccomp(root: Path = ROOT) -> Check:
    """Check that system calls can be filtered."""
    actions = _read(root / "proc/sys/kernel/seccomp/actions_avail").split()
    missing = {"errno", "kill_process"}.difference(actions)
    if missing:
        found = f"this kernel cannot filter system calls (no {', '.join(sorted(missing))})"
        return Check("seccomp", "fail", found, "Boot a kernel 4.14 or newer with CONFIG_SECCOMP_FILTER=y.")
    return Check("seccomp", "ok", "filters are available")


FALLBACK = "instead, rlimits bound each process, and a watcher stops commands that use too much"
DELEGATION_FIX = """\
systemd-run --user --scope -p Delegate=yes hutch …
without a login session, first run: sudo loginctl enable-linger $(id -un)"""


def process_list(root: Path = ROOT) -> Check:
    """Check that the kernel lists the children of a process: the watcher needs it to find all processes of
    a jail."""
    me = os.getpid()
    if (root / f"proc/{me}/task/{me}/children").is_file():
        return Check("process list", "ok", "the kernel lists a process's children")
    return Check(
        "process list",
        "warn",
        "the kernel does not list a process's children: only a cgroup can limit a jail's memory or processes",
        "Use a kernel with CONFIG_PROC_CHILDREN, or give Hutch a delegated cgroup.",
    )


def cgroups(root: Path = ROOT) -> Check:
    """Check that the kernel can limit memory and processes of a whole jail."""
    lines = [line.split(":", 2) for line in _read(root / "proc/self/cgroup").splitlines()]
    mount = root / "sys/fs/cgroup"
    if (mount / "cgroup.controllers").exists():
        own = next((mount / path.lstrip("/") for number, _, path in lines if number == "0"), mount)
        if _is_delegated(own):
            return Check("cgroups", "ok", f"v2, {own.relative_to(root / 'sys/fs')} is delegated")
        return Check("cgroups", "warn", f"v2, but none is delegated; {FALLBACK}", DELEGATION_FIX)
    if all(os.access(mount / controller / "cgroup.procs", os.W_OK) for controller in ("memory", "pids")):
        return Check("cgroups", "ok", "v1, memory and pids can be limited")
    boot = "Boot with systemd.unified_cgroup_hierarchy=1, then:"
    return Check("cgroups", "warn", f"no v2, and no writable v1; {FALLBACK}", f"{boot}\n{DELEGATION_FIX}")


def version_of(argv: Sequence[str]) -> tuple[int, ...] | None:
    """The first version number that a program prints; None when it prints none."""
    try:
        ran = subprocess.run(
            argv,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=TIMEOUT_S,
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
