"""Rules for system directories, which contain no projects.

Each rule applies to everything below it, up to the next rule. Rules are compared by
path and by location in the file system, so a bind mount or an overlay of /etc counts
as /etc.
"""

from collections.abc import Iterable
from enum import Enum
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import TypeVar

from hutch.workspace.admission.mount_independent_location import FileSystemView, Location

Key = TypeVar("Key")


class Rule(Enum):
    """The subdirectories that may be workspaces. The directory itself never may."""

    PROJECTS = "anything"
    REPOSITORIES = "git repositories"
    SYSTEM = "nothing"


RULES = {  # for the same directory, the last rule applies
    **dict.fromkeys(("/", "/home", "/media", "/mnt", "/root", "/srv", "/tmp"), Rule.PROJECTS),
    **dict.fromkeys(("/dev/shm", "/run/media", "/usr/src", "/usr/local/src"), Rule.PROJECTS),
    **dict.fromkeys(("/var/tmp", "/var/www"), Rule.PROJECTS),
    # Systems with a read-only root have these below /var.
    **dict.fromkeys(("/var/home", "/var/mnt", "/var/roothome", "/var/srv"), Rule.PROJECTS),
    # Installed programs and their data; git and build servers store repositories there.
    **dict.fromkeys(("/opt", "/usr/local", "/var/lib", "/var/opt"), Rule.REPOSITORIES),
    **dict.fromkeys(("/bin", "/boot", "/dev", "/etc", "/lib", "/lib32", "/lib64", "/libx32"), Rule.SYSTEM),
    **dict.fromkeys(
        ("/lost+found", "/nix", "/proc", "/run", "/sbin", "/snap", "/sys", "/usr", "/var"), Rule.SYSTEM
    ),
    **dict.fromkeys(("/usr/local/bin", "/usr/local/etc", "/usr/local/lib"), Rule.SYSTEM),
    **dict.fromkeys(("/usr/local/sbin", "/usr/local/share"), Rule.SYSTEM),
    **dict.fromkeys(("/var/lib/dpkg", "/var/lib/systemd"), Rule.SYSTEM),
}


RULES_BY_PATH = {PurePosixPath(path): rule for path, rule in RULES.items()}
HOMES_OF_SERVICES = ("/opt", "/var")  # service accounts have homes with projects there


def is_system_directory(
    here: Path,
    address: Iterable[Location],
    homes: Iterable[Path],
    view: FileSystemView,
    *,
    is_repository: bool,
) -> bool:
    """True if a directory belongs to the machine; `address` can be reached through it. Blocks the thread."""
    services = [home for home in homes if any(home.is_relative_to(each) for each in HOMES_OF_SERVICES)]
    named = {PurePosixPath(home): Rule.PROJECTS for home in services} | RULES_BY_PATH
    placed = _rules_by_location(tuple(named.items()), view.mount_table)
    found = [_refuses(named, [PurePosixPath(here), *PurePosixPath(here).parents], is_repository)]
    for each in address:
        steps = [(each.device, step) for step in (each.path, *each.path.parents)]
        found.append(_refuses(placed, steps, is_repository))
    return any(found)


@lru_cache(maxsize=1)
def _rules_by_location(
    named: tuple[tuple[PurePosixPath, Rule], ...], _: bytes
) -> dict[tuple[str, PurePosixPath], Rule]:
    """The rules by location, cached until the mount table changes."""
    view = FileSystemView()
    return {
        (location.device, location.path): rule
        for path, rule in named
        for location in view.own_location(Path(path))
    }


def _refuses(rules: dict[Key, Rule], steps: list[Key], is_repository: bool) -> bool:
    """True if the nearest rule above refuses a directory."""
    for step in steps:
        if rule := rules.get(step):
            allowed = rule is Rule.PROJECTS or (rule is Rule.REPOSITORIES and is_repository)
            return step == steps[0] or not allowed
    return False
