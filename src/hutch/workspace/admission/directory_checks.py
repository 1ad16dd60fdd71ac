"""Refuses directories that a jail must not work in and that are never copied.

A jail works on a directory in place and can change all of it. That must not be Hutch
itself, its keys or its log: a command that writes those escapes with the next command.
Nor system directories, where mistakes cannot be undone. A copy would reveal them to a
model and to everyone with access to the session.
"""

import os
import pwd
import stat
import sys
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path, PurePosixPath
from typing import NamedTuple

import hutch
from hutch.domain.errors import Denied
from hutch.system.lazy_dataclass import dataclass
from hutch.workspace.admission.mount_independent_location import FileSystemView, Location, any_holds
from hutch.workspace.admission.system_directories import RULES, is_system_directory

# Directories with keys, passwords or cookies, anywhere.
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
# Directories with the settings of all programs, even if they are repositories.
SETTINGS_DIRECTORIES = tuple(
    map(PurePosixPath, (".cache", ".config", ".local", ".local/share", ".local/state", ".mozilla"))
)
PATH_ONLY = os.O_PATH | os.O_CLOEXEC
MAX_LINE_BYTES = 4096
USER_IDS = range(1000, 60_000)  # ids of accounts of people; others are services
GIT = ".git"
WORKSPACES = "workspaces"  # in the data directory: made to be worked in
HINT = "Name another directory: -w DIR. If you must, --unsafe-workspace skips this check."
ANOTHER = "Name the directory of a project."


@dataclass(frozen=True, slots=True)
class OwnDirectories:
    """The directories of Hutch itself."""

    data: Path  # contains the workspaces
    others: tuple[Path, ...] = ()

    @property
    def all(self) -> tuple[Path, ...]:
        return (self.data, *self.others)


def check_workspace(workspace: Path, own: OwnDirectories, fd: int | None = None) -> None:
    """Refuse a workspace in which a command could change Hutch or the system.

    `fd` is an open descriptor of it, if the caller has one.
    """
    view = FileSystemView()
    here = workspace.resolve() if fd is None else workspace
    if GIT in here.parts:
        raise Denied(f"'{here}' holds the data of git, not files of a project. {HINT}")
    if refused := refusal(here, own, fd, view):
        raise Denied(f"{refused.reason} {refused.hint}")
    for code in _own_code():
        if _holds(here, code, fd, view):
            raise Denied(
                f"Hutch itself runs from '{code}', which is in '{here}': a command in the jail could change "
                f"it. Install Hutch elsewhere, as `pipx install` does, or name another directory: "
                f"-w DIR. If you must, --unsafe-workspace skips this check."
            )


def check_source(path: Path, fd: int, own: OwnDirectories) -> None:
    """Refuse an open directory that must not be copied or delivered into."""
    view = FileSystemView()
    if any(_is_inside(path, each, fd, view) for each in own.all):
        raise Denied(f"'{path}' contains Hutch's own data. {ANOTHER}")
    if refused := refusal(path, own, fd, view):
        raise Denied(f"{refused.reason} {ANOTHER}")


class Refusal(NamedTuple):
    """Why a directory is refused, with a hint for commands that open a jail."""

    reason: str
    hint: str


def refusal(
    here: Path, own: OwnDirectories, fd: int | None = None, view: FileSystemView | None = None
) -> Refusal | None:
    """Why a directory without links in its path is refused; None if it is not. Ignores Hutch's code."""
    view = view or FileSystemView()
    for each in own.all:
        if _holds(here, each, fd, view):
            return Refusal(
                f"'{here}' contains '{each}' with Hutch's data: a command in the jail could read its keys "
                "and rewrite its log.",
                "Move it with HUTCH_HOME, or name another directory: -w DIR. "
                "If you must, --unsafe-workspace skips this check.",
            )
        if _is_inside(here, each, fd, view) and not _is_made_for_work(here, view.resolve(own.data)):
            return Refusal(f"'{here}' contains Hutch's own data.", HINT)
    if _is_made_for_work(here, view.resolve(own.data)):
        return None
    homes = list(dict.fromkeys(_homes(view)))
    return _refuse_homes(here, fd, homes, view) or _refuse_system(here, fd, homes, view)


def _refuse_homes(
    here: Path, fd: int | None, accounts: Sequence[Path], view: FileSystemView
) -> Refusal | None:
    """Refuse homes, directories above them, and directories with settings and keys in them."""
    shown, is_repository = view.locations(here, fd), has_git(here, fd)
    if any(_has_keys(each.parts) for each in (here, *(location.path for location in shown))):
        return Refusal(f"'{here}' contains keys of a user.", HINT)
    for home in dict.fromkeys((*accounts, *_unlisted_homes(view))):
        if home == here and home not in accounts and is_repository:
            continue  # a repository next to the homes
        lies = view.own_location(home)
        if home.is_relative_to(here) or any_holds(shown, lies):
            return Refusal(f"'{here}' {'is' if home == here else 'holds'} a home directory with keys.", HINT)
        for below in _below(home, lies, here, shown):
            if below.parts[0].startswith(".") and (below in SETTINGS_DIRECTORIES or not is_repository):
                store = home / below.parts[0]
                where = "where" if store == here else f"in '{store}', where"
                return Refusal(f"'{here}' is {where} programs keep settings and keys.", HINT)
    return None


def _has_keys(parts: tuple[str, ...]) -> bool:
    """True if a path is in a directory with keys, judged by names."""
    in_config = any(one == ".config" and other in KEYS_IN_CONFIG for one, other in pairwise(parts))
    return in_config or bool(KEYS.intersection(parts))


def _below(home: Path, lies: list[Location], here: Path, address: list[Location]) -> Iterator[PurePosixPath]:
    """The paths of a directory relative to a home, by name and by location."""
    if here.is_relative_to(home):
        yield PurePosixPath(here.relative_to(home))
    for one in lies:
        for each in address:
            if one.holds(each):
                yield each.path.relative_to(one.path)


def _refuse_system(here: Path, fd: int | None, homes: Sequence[Path], view: FileSystemView) -> Refusal | None:
    is_repository = has_git(here, fd) or _is_in_repository(here, fd)
    if is_system_directory(here, view.locations(here, fd), homes, view, is_repository=is_repository):
        return Refusal(f"'{here}' is a directory of the system, not of a project.", HINT)
    return None


def has_git(here: Path, fd: int | None = None) -> bool:
    """True if a directory is the top of a repository or a git directory. Reads names and one short file."""
    try:
        own = os.open(here, PATH_ONLY) if fd is None else os.dup(fd)
    except OSError:
        return False
    try:
        return _is_repository(own)
    finally:
        os.close(own)


def _is_in_repository(here: Path, fd: int | None) -> bool:
    """True if a directory is in a repository below the directories of the rules."""
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
    except OSError:  # not accessible
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
    except (OSError, ValueError):  # dangling
        return False
    try:
        return _is_git_directory(git)
    finally:
        os.close(git)


def _is_git_directory(fd: int) -> bool:
    return _has(fd, "HEAD") and (_has(fd, "objects") or _has(fd, "commondir"))


def _gitdir(fd: int) -> str:
    """The target of the `.git` file of a linked worktree or submodule; empty if there is none."""
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


def _is_inside(here: Path, own: Path, fd: int | None, view: FileSystemView) -> bool:
    """True if a directory is in one of Hutch's own, by any path."""
    return here.is_relative_to(view.resolve(own)) or any_holds(view.locations(own), view.locations(here, fd))


def _holds(directory: Path, own: Path, fd: int | None, view: FileSystemView) -> bool:
    """True if the owner of a directory could change what `own` refers to, even if it does not exist.

    The path may contain links, and the owner of a directory can replace the links in it.
    """
    own = own.absolute()
    for step in (own, *own.parents):
        if (view.resolve(step.parent) / step.name).is_relative_to(directory) or view.is_same(step, directory):
            return True
    return view.resolve(own).is_relative_to(directory) or any_holds(
        view.locations(directory, fd), view.locations(own)
    )


def _is_made_for_work(here: Path, data: Path) -> bool:
    workspaces = data / WORKSPACES
    return here.is_relative_to(workspaces) and len(here.relative_to(workspaces).parts) > 1


def _own_code() -> Iterator[Path]:
    yield Path(hutch.__file__).parent
    for path in dict.fromkeys((sys.prefix, sys.base_prefix, sys.executable)):
        yield Path(path)


def _homes(view: FileSystemView) -> Iterator[Path]:
    """The homes of the current user and of all user accounts."""
    yield view.resolve(Path.home())
    for user in pwd.getpwall():
        if user.pw_uid in (0, os.getuid()) or user.pw_uid in USER_IDS:
            yield view.resolve(Path(user.pw_dir))


def _unlisted_homes(view: FileSystemView) -> Iterator[Path]:
    """Homes of accounts that are not listed: of a directory service, or deleted."""
    try:
        yield from (view.resolve(each) for each in Path("/home").iterdir() if each.is_dir())
    except OSError:  # it does not exist or is not readable
        return
