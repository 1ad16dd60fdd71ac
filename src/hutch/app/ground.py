"""The ground that a jail may stand on.

A jail works on a directory in place, so it owns what is there. That must not be
Hutch itself, its keys and its log: who can write those is out of the jail with
the next command. Nor the machine's own directories, where a mistake is not undone.
"""

import os
import pwd
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import hutch
from hutch.domain.errors import Denied
from hutch.settings import Paths

# These themselves, though a project may well lie in one of them,
HALLS = (
    "/",
    "/home",
    "/media",
    "/mnt",
    "/opt",
    "/root",
    "/run",
    "/srv",
    "/tmp",
    "/usr",
    "/usr/local",
    "/var",
)
# and these with all that is in them.
SYSTEM = (
    *("/bin", "/boot", "/dev", "/etc", "/lib", "/lib32", "/lib64", "/libx32", "/proc", "/sbin", "/sys"),
    *("/usr/bin", "/usr/include", "/usr/lib", "/usr/lib32", "/usr/lib64", "/usr/libexec", "/usr/libx32"),
    *("/usr/local/bin", "/usr/local/lib", "/usr/local/sbin", "/usr/sbin", "/usr/share", "/var/lib/dpkg"),
    *("/var/lib/systemd", "/var/log", "/var/spool"),
)
WORKSPACES = "workspaces"  # in the data directory, each in a directory of its own: made to be worked on
WAY_OUT = "Name another directory: -w DIR. If you must, --unsafe-workspace goes on all the same."


def check_ground(workspace: Path, paths: Paths) -> None:
    """Refuse a workspace in which a command could change Hutch, or the machine."""
    here = workspace.resolve()
    if refused := refusal(here, paths):
        raise Denied(f"{refused.reason} {refused.way_out}")
    for code in _own_code():
        if _holds(here, code):
            raise Denied(
                f"Hutch itself runs from '{code}', which is in '{here}': a command in the jail could change "
                f"it. Install Hutch elsewhere, as `pipx install` does, or name a directory beside it: "
                f"-w DIR. If you must, --unsafe-workspace goes on all the same."
            )


class Refusal(NamedTuple):
    """Why a directory is no project, and what a command that opens a jail there may do about it."""

    reason: str
    way_out: str


def refusal(here: Path, paths: Paths) -> Refusal | None:
    """Why nobody should work in a directory, whatever Hutch itself runs from; it has no links in it."""
    for own in (paths.data, paths.state, paths.cache, paths.config_file):
        if _holds(here, own):
            return Refusal(
                f"'{here}' holds what Hutch keeps in '{own}': a command in the jail could read its keys and "
                "rewrite its log.",
                "Keep it elsewhere, by HUTCH_HOME, or name a directory beside it: -w DIR. "
                "If you must, --unsafe-workspace goes on all the same.",
            )
        inside = own.resolve()
        if here.is_relative_to(inside) and not _is_made_for_work(here, paths.data.resolve()):
            return Refusal(f"'{here}' is where Hutch keeps its own things.", WAY_OUT)
    for home in _homes():
        if home.is_relative_to(here):
            return Refusal(f"'{here}' {'is' if home == here else 'holds'} a home, keys and all.", WAY_OUT)
    if str(here) in HALLS or any(here.is_relative_to(place) for place in SYSTEM):
        return Refusal(f"'{here}' is a directory of the system, not of a project.", WAY_OUT)
    return None


def _holds(directory: Path, own: Path) -> bool:
    """Whether somebody who owns a directory can change what is found at `own`, whether it exists or not.

    On the way there may be links, and each can be replaced by the owner of where it lies.
    """
    own = own.absolute()
    for step in (own, *own.parents):
        if (step.parent.resolve() / step.name).is_relative_to(directory) or _is_same(step, directory):
            return True
    return own.resolve().is_relative_to(directory)


def _is_same(path: Path, directory: Path) -> bool:
    """The same by another name, as a bind mount makes it."""
    try:
        return path.samefile(directory)
    except OSError:
        return False


def _is_made_for_work(here: Path, data: Path) -> bool:
    workspaces = data / WORKSPACES
    return here.is_relative_to(workspaces) and len(here.relative_to(workspaces).parts) > 1


def _own_code() -> Iterator[Path]:
    yield Path(hutch.__file__).parent
    for place in dict.fromkeys((sys.prefix, sys.base_prefix, sys.executable)):
        yield Path(place)


def _homes() -> Iterator[Path]:
    yield Path.home().resolve()
    try:
        yield Path(pwd.getpwuid(os.getuid()).pw_dir).resolve()
    except KeyError:
        return
