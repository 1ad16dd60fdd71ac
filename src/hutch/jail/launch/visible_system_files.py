"""The parts of this machine's system that a jail can see.

Read once, as data, so that the options made from it can be tested for other machines.
/etc is exposed file by file, because keys, host names, mail and proxy passwords are
there too.
"""

import functools
import os
import sys
from pathlib import Path

from hutch.domain.errors import Unavailable
from hutch.system.lazy_dataclass import dataclass

TOP = ("/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
ETC = (
    "/etc/alternatives",
    "/etc/bash.bashrc",
    "/etc/ca-certificates",
    "/etc/ca-certificates.conf",
    "/etc/crypto-policies",
    "/etc/debian_version",
    "/etc/host.conf",
    "/etc/inputrc",
    "/etc/java-17-openjdk",
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/localtime",
    "/etc/lsb-release",
    "/etc/magic",
    "/etc/mime.types",
    "/etc/os-release",
    "/etc/perl",
    "/etc/pki/tls/certs",
    "/etc/protocols",
    "/etc/services",
    "/etc/ssl/certs",
    "/etc/ssl/openssl.cnf",
    "/etc/terminfo",
    "/etc/timezone",
)
# Of little use to a command, and they reveal much about the machine: the list that Docker masks, and the
# kernel's symbols and command line.
MASKED = (
    *("cmdline", "kallsyms", "kcore", "keys", "key-users", "kmsg", "latency_stats", "sched_debug"),
    *("timer_list", "timer_stats", "config.gz", "vmallocinfo", "slabinfo", "pagetypeinfo"),
)


@dataclass(frozen=True, slots=True)
class System:
    """The read-only part of a jail."""

    directories: tuple[str, ...]
    links: tuple[tuple[str, str], ...]  # (path, target)
    etc: tuple[str, ...]
    etc_links: tuple[tuple[str, str], ...]
    masked: tuple[str, ...]
    python: str  # runs the warden; readable by every user


@functools.cache
def this_system() -> System:
    return read_system(Path("/"))


def read_system(root: Path) -> System:
    """Read the system below `root` as a jail will see it."""
    python, beside = _python(root)
    directories = ["/usr", *beside]
    links = []
    for path in TOP:
        found = root / path[1:]
        if found.is_symlink():
            links.append((path, os.readlink(found)))  # noqa: PTH115
        elif found.is_dir():
            directories.append(path)
    etc, etc_links = [], []
    for path in ETC:
        found = root / path[1:]
        if found.is_symlink():
            etc_links.append((path, os.readlink(found)))  # noqa: PTH115
        elif found.exists():
            etc.append(path)
    masked = tuple(f"/proc/{name}" for name in MASKED if (root / "proc" / name).exists())
    return System(tuple(directories), tuple(links), tuple(etc), tuple(etc_links), masked, python)


def _python(root: Path) -> tuple[str, tuple[str, ...]]:
    """An interpreter for the warden, and the directories that it needs."""
    for path in ("/usr/bin/python3", "/usr/local/bin/python3"):
        if (root / path[1:]).exists():
            return path, ()
    own = Path(sys.executable).resolve()
    if own.exists() and _public(own):
        prefix = Path(sys.base_prefix).resolve()
        return str(own), () if prefix.is_relative_to("/usr") else (str(prefix),)
    raise Unavailable(
        f"No Python that a jail can read: /usr/bin/python3 is missing and {own} is private to its owner. "
        "Install it: sudo apt-get install -y python3-minimal"
    )


def _public(path: Path) -> bool:
    """True if any user can read `path`: under root, a jail runs as another user."""
    if os.geteuid() != 0:
        return True
    return all(parent.stat().st_mode & 0o001 for parent in path.parents) and bool(path.stat().st_mode & 0o005)
