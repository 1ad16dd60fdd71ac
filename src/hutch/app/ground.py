"""The ground that a jail may stand on, and that a workspace may be copied from.

A jail works on a directory in place, so it owns what is there. That must not be
Hutch itself, its keys and its log: who can write those is out of the jail with
the next command. Nor the machine's own directories, where a mistake is not undone.
A copy shows all that to a model, and to everybody who may see the session.
"""

import os
import pwd
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import hutch
from hutch.app.mounts import any_holds, locations
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
# In a home, what holds keys and nothing else.
KEYS = (".ssh", ".gnupg", ".aws", ".kube", ".docker", ".password-store", ".local/share/keyrings")
PEOPLE = range(1000, 60_000)  # the ids of accounts that people have; others are of services
WORKSPACES = "workspaces"  # in the data directory, each in a directory of its own: made to be worked on
WAY_OUT = "Name another directory: -w DIR. If you must, --unsafe-workspace goes on all the same."
ANOTHER = "Name the directory of a project."


def check_ground(workspace: Path, paths: Paths, fd: int | None = None) -> None:
    """Refuse a workspace in which a command could change Hutch, or the machine.

    `fd` is a descriptor of it, for who holds one.
    """
    here = workspace.resolve() if fd is None else workspace
    if refused := refusal(here, paths, fd):
        raise Denied(f"{refused.reason} {refused.way_out}")
    for code in _own_code():
        if _holds(here, code, fd):
            raise Denied(
                f"Hutch itself runs from '{code}', which is in '{here}': a command in the jail could change "
                f"it. Install Hutch elsewhere, as `pipx install` does, or name a directory beside it: "
                f"-w DIR. If you must, --unsafe-workspace goes on all the same."
            )


def check_source(path: Path, fd: int, paths: Paths) -> None:
    """Refuse a directory, held by a descriptor, that nobody is to be shown a copy of or to deliver into."""
    if any(_is_inside(path, own, fd) for own in _own_places(paths)):
        raise Denied(f"'{path}' is where Hutch keeps its own data. {ANOTHER}")
    if refused := refusal(path, paths, fd):
        raise Denied(f"{refused.reason} {ANOTHER}")


class Refusal(NamedTuple):
    """Why a directory is no project, and what a command that opens a jail there may do about it."""

    reason: str
    way_out: str


def refusal(here: Path, paths: Paths, fd: int | None = None) -> Refusal | None:
    """Why nobody should work in a directory, whatever Hutch itself runs from; it has no links in it."""
    for own in _own_places(paths):
        if _holds(here, own, fd):
            return Refusal(
                f"'{here}' holds what Hutch keeps in '{own}': a command in the jail could read its keys and "
                "rewrite its log.",
                "Keep it elsewhere, by HUTCH_HOME, or name a directory beside it: -w DIR. "
                "If you must, --unsafe-workspace goes on all the same.",
            )
        if _is_inside(here, own, fd) and not _is_made_for_work(here, paths.data.resolve()):
            return Refusal(f"'{here}' is where Hutch keeps its own things.", WAY_OUT)
    for home in dict.fromkeys(_homes()):
        if home.is_relative_to(here):
            return Refusal(f"'{here}' {'is' if home == here else 'holds'} a home, keys and all.", WAY_OUT)
        if any(here.is_relative_to(home / name) for name in KEYS):
            return Refusal(f"'{here}' is where somebody's keys are kept.", WAY_OUT)
    if str(here) in HALLS or any(here.is_relative_to(place) for place in SYSTEM):
        return Refusal(f"'{here}' is a directory of the system, not of a project.", WAY_OUT)
    return None


def _own_places(paths: Paths) -> tuple[Path, ...]:
    return (paths.data, paths.state, paths.cache, paths.config_file)


def _is_inside(here: Path, own: Path, fd: int | None) -> bool:
    """Whether a directory lies in one of Hutch's own, by whatever path."""
    return here.is_relative_to(own.resolve()) or any_holds(locations(own), locations(here, fd))


def _holds(directory: Path, own: Path, fd: int | None) -> bool:
    """Whether somebody who owns a directory can change what is found at `own`, whether it exists or not.

    On the way there may be links, and each can be replaced by the owner of where it lies.
    """
    own = own.absolute()
    for step in (own, *own.parents):
        if (step.parent.resolve() / step.name).is_relative_to(directory) or _is_same(step, directory):
            return True
    return own.resolve().is_relative_to(directory) or any_holds(locations(directory, fd), locations(own))


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
    """Those of whoever runs this, and of all people who have an account here."""
    yield Path.home().resolve()
    for user in pwd.getpwall():
        if user.pw_uid in (0, os.getuid()) or user.pw_uid in PEOPLE:
            yield Path(user.pw_dir).resolve()
