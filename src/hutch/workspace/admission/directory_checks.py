"""Directories that a jail must not work in, and that no workspace is copied from.

A jail works on a directory in place, so it owns what is there. That must not be
Hutch itself, its keys and its log: a command that can write those is out of the jail
with the next command. Nor the machine's own directories, where a mistake is not undone.
A copy shows all that to a model, and to everybody who may see the session.
"""

import os
import pwd
import stat
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path, PurePosixPath
from typing import NamedTuple

import hutch
from hutch.domain.errors import Denied
from hutch.workspace.admission.mount_locations import Location, any_holds, locations, own_location
from hutch.workspace.admission.system_directories import RULES, is_system_directory

# What holds keys, passwords or cookies, wherever it lies,
KEYS = frozenset(
    (
        *(".ssh", ".gnupg", ".aws", ".azure", ".kube", ".docker", ".password-store", "keyrings"),
        *(".gcloud", ".mozilla", ".oci", ".terraform.d", ".thunderbird"),
    )
)
KEYS_IN_CONFIG = frozenset(
    (
        *("BraveSoftware", "chromium", "doctl", "gcloud", "gh", "glab-cli", "google-chrome", "hub"),
        *("microsoft-edge", "op", "rclone", "sops"),
    )
)
# and what holds the settings of all programs of a user, be it a repository or not.
SETTINGS_DIRECTORIES = tuple(
    map(PurePosixPath, (".cache", ".config", ".local", ".local/share", ".local/state", ".mozilla"))
)
PATH_ONLY = os.O_PATH | os.O_CLOEXEC
MAX_LINE_BYTES = 4096
USER_IDS = range(1000, 60_000)  # the ids of accounts that people have; others are of services
WORKSPACES = "workspaces"  # in the data directory, each in a directory of its own: made to be worked on
HINT = "Name another directory: -w DIR. If you must, --unsafe-workspace goes on all the same."
ANOTHER = "Name the directory of a project."


@dataclass(frozen=True, slots=True)
class OwnDirectories:
    """Where Hutch keeps its own things."""

    data: Path  # with the workspaces in it
    others: tuple[Path, ...] = ()

    @property
    def all(self) -> tuple[Path, ...]:
        return (self.data, *self.others)


def check_workspace(workspace: Path, own: OwnDirectories, fd: int | None = None) -> None:
    """Refuse a workspace in which a command could change Hutch, or the machine.

    `fd` is a descriptor of it, for callers that hold one.
    """
    here = workspace.resolve() if fd is None else workspace
    if refused := refusal(here, own, fd):
        raise Denied(f"{refused.reason} {refused.way_out}")
    for code in _own_code():
        if _holds(here, code, fd):
            raise Denied(
                f"Hutch itself runs from '{code}', which is in '{here}': a command in the jail could change "
                f"it. Install Hutch elsewhere, as `pipx install` does, or name a directory beside it: "
                f"-w DIR. If you must, --unsafe-workspace goes on all the same."
            )


def check_source(path: Path, fd: int, own: OwnDirectories) -> None:
    """Refuse a directory, held by a descriptor, that nobody is to be shown a copy of or to deliver into."""
    if any(_is_inside(path, each, fd) for each in own.all):
        raise Denied(f"'{path}' is where Hutch keeps its own data. {ANOTHER}")
    if refused := refusal(path, own, fd):
        raise Denied(f"{refused.reason} {ANOTHER}")


class Refusal(NamedTuple):
    """Why a directory is no project, and what a command that opens a jail there may do about it."""

    reason: str
    way_out: str


def refusal(here: Path, own: OwnDirectories, fd: int | None = None) -> Refusal | None:
    """Why nobody should work in a directory, whatever Hutch itself runs from; it has no links in it."""
    for each in own.all:
        if _holds(here, each, fd):
            return Refusal(
                f"'{here}' holds what Hutch keeps in '{each}': a command in the jail could read its keys and "
                "rewrite its log.",
                "Keep it elsewhere, by HUTCH_HOME, or name a directory beside it: -w DIR. "
                "If you must, --unsafe-workspace goes on all the same.",
            )
        if _is_inside(here, each, fd) and not _is_made_for_work(here, own.data.resolve()):
            return Refusal(f"'{here}' is where Hutch keeps its own things.", HINT)
    if _is_made_for_work(here, own.data.resolve()):
        return None
    return _refuse_homes(here, fd) or _refuse_system(here, fd)


def _refuse_homes(here: Path, fd: int | None) -> Refusal | None:
    """Refuse homes, what holds them, and where programs keep settings and keys in them."""
    shown, is_repository = locations(here, fd), has_git(here, fd)
    if any(_has_keys(each.parts) for each in (here, *(location.path for location in shown))):
        return Refusal(f"'{here}' is where somebody's keys are kept.", HINT)
    accounts = list(dict.fromkeys(_homes()))
    for home in dict.fromkeys((*accounts, *_unlisted_homes())):
        if home == here and home not in accounts and is_repository:
            continue  # a repository beside the homes
        lies = own_location(home)
        if home.is_relative_to(here) or any_holds(shown, lies):
            return Refusal(f"'{here}' {'is' if home == here else 'holds'} a home, keys and all.", HINT)
        for below in _below(home, lies, here, shown):
            if below.parts[0].startswith(".") and (below in SETTINGS_DIRECTORIES or not is_repository):
                store = home / below.parts[0]
                where = "where" if store == here else f"in '{store}', where"
                return Refusal(f"'{here}' is {where} programs keep settings and keys.", HINT)
    return None


def _has_keys(parts: tuple[str, ...]) -> bool:
    """Whether a path leads into a directory that holds keys, by its names."""
    in_config = any(one == ".config" and other in KEYS_IN_CONFIG for one, other in pairwise(parts))
    return in_config or bool(KEYS.intersection(parts))


def _below(home: Path, lies: list[Location], here: Path, address: list[Location]) -> Iterator[PurePosixPath]:
    """The paths that a directory has from a home, by its name and by what it shows."""
    if here.is_relative_to(home):
        yield PurePosixPath(here.relative_to(home))
    for one in lies:
        for each in address:
            if one.holds(each):
                yield each.path.relative_to(one.path)


def _refuse_system(here: Path, fd: int | None) -> Refusal | None:
    is_repository = has_git(here, fd) or _is_in_repository(here, fd)
    if is_system_directory(here, locations(here, fd), _homes(), is_repository=is_repository):
        return Refusal(f"'{here}' is a directory of the system, not of a project.", HINT)
    return None


def has_git(here: Path, fd: int | None = None) -> bool:
    """True for the top of a repository, and for a directory of git's own. Names and a short file are read."""
    try:
        own = os.open(here, PATH_ONLY) if fd is None else os.dup(fd)
    except OSError:
        return False
    try:
        return _is_repository(own)
    finally:
        os.close(own)


def _is_in_repository(here: Path, fd: int | None) -> bool:
    """Whether a directory lies in a repository that is itself below the directories of the rules."""
    try:
        own = os.open(here, PATH_ONLY) if fd is None else os.dup(fd)
    except OSError:
        return False
    try:
        for parent in here.parents:
            if str(parent) in RULES:
                return False
            above = os.open("..", PATH_ONLY, dir_fd=own)
            os.close(own)
            own = above
            if _is_repository(own):
                return True
    except OSError:  # it cannot be seen from here
        return False
    finally:
        os.close(own)
    return False


def _is_repository(fd: int) -> bool:
    try:
        mode = os.stat(".git", dir_fd=fd).st_mode
    except OSError:
        return _is_git_directory(fd)
    path = _gitdir(fd) if stat.S_ISREG(mode) else ".git"
    try:
        git = os.open(path, PATH_ONLY | os.O_DIRECTORY, dir_fd=fd)
    except (OSError, ValueError):  # it leads nowhere
        return False
    try:
        return _is_git_directory(git)
    finally:
        os.close(git)


def _is_git_directory(fd: int) -> bool:
    return _has(fd, "HEAD") and (_has(fd, "objects") or _has(fd, "commondir"))


def _gitdir(fd: int) -> str:
    """Where the file `.git` of a linked worktree or a submodule leads; empty if it is none."""
    try:
        file = os.open(".git", os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=fd)
    except OSError:
        return ""
    try:
        line = os.fsdecode(os.read(file, MAX_LINE_BYTES)).split("\n")[0]
    except OSError:
        return ""
    finally:
        os.close(file)
    return line.removeprefix("gitdir:").strip() if line.startswith("gitdir:") else ""


def _has(fd: int, name: str) -> bool:
    try:
        os.stat(name, dir_fd=fd, follow_symlinks=False)
    except OSError:
        return False
    return True


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
        if user.pw_uid in (0, os.getuid()) or user.pw_uid in USER_IDS:
            yield Path(user.pw_dir).resolve()


def _unlisted_homes() -> Iterator[Path]:
    """Homes of people whom this machine does not list: of a directory service, or removed by now."""
    try:
        yield from (each.resolve() for each in Path("/home").iterdir() if each.is_dir())
    except OSError:  # there is none, or it may not be listed
        return
