"""The repository of the working directory, for commands that prefer its changes."""

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from hutch.domain.errors import HutchError
from hutch.forge.repo_url import parse_repo_url
from hutch.system.lazy_dataclass import dataclass

MAX_NEWEST = 500  # sessions or runs among which `last` is looked for
T = TypeVar("T")
MAX_CONFIG_BYTES = 1024 * 1024
SECTION = re.compile(r"^[ \t]*\[([^\]\n]*)\]", re.M)
REMOTE = re.compile(r'remote\s+"(.*)"')
URL = re.compile(r"^\s*url\s*=\s*(\S+)\s*$", re.M)


@dataclass(frozen=True, slots=True)
class CurrentRepository:
    """A repository by its directory and the addresses of its remotes.

    `origin` is the address of the remote of that name, or else of the first, as git reaches it.
    """

    root: Path
    remotes: frozenset[str]
    origin: str = ""

    def is_at(self, repository: str) -> bool:
        """True if an address, or a directory of this machine, is this repository or a part of it."""
        if repository.startswith("/"):
            return Path(repository).is_relative_to(self.root)
        return _normalised(repository) in self.remotes


def newest_of_repository(sessions: Sequence[T], repository_of: Callable[[T], str]) -> T | None:
    """The first of these sessions, the newest first, that works on the current repository; else the first."""
    here = find_current_repository(Path.cwd())
    mine = (each for each in sessions if here is not None and here.is_at(repository_of(each)))
    return next(mine, sessions[0] if sessions else None)


def find_current_repository(start: Path) -> CurrentRepository | None:
    """The repository that contains a directory; None when there is none."""
    for directory in (start, *start.parents):
        if (directory / ".git").exists():
            remotes = _remotes(directory / ".git" / "config")
            origin = remotes.get("origin") or next(iter(remotes.values()), "")
            names = frozenset(map(_normalised, remotes.values()))
            return CurrentRepository(directory, names, _reachable(origin, directory) if origin else "")
    return None


def _remotes(config: Path) -> dict[str, str]:
    """The addresses of all remotes by their names. Git does not read its settings for this: they can name
    programs."""
    try:
        with config.open("rb") as file:
            text = file.read(MAX_CONFIG_BYTES).decode(errors="replace")
    except OSError:  # a linked worktree has its settings elsewhere
        return {}
    found: dict[str, str] = {}
    parts = SECTION.split(text)[1:]
    for heading, body in zip(parts[::2], parts[1::2], strict=True):
        if (name := REMOTE.fullmatch(heading.strip())) and (address := URL.search(body)):
            found.setdefault(name[1], address[1])
    return found


def _reachable(address: str, root: Path) -> str:
    """An address without a password; a directory is absolute."""
    try:
        url = parse_repo_url(address)
    except HutchError:
        return _normalised(address)
    if url.path is None or address.startswith("/"):
        return url.address
    return str((root / address).resolve()) if "://" not in address else url.address


def _normalised(address: str) -> str:
    """An address without the differences between the protocols of one host."""
    try:
        url = parse_repo_url(address)
    except HutchError:
        return address
    return "/".join((url.host, *url.slug)).lower() if url.slug else str(url).removesuffix(".git")
