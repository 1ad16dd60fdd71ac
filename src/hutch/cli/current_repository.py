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
URL = re.compile(r"^\s*url\s*=\s*(\S+)\s*$", re.M)


@dataclass(frozen=True, slots=True)
class CurrentRepository:
    """A repository by its directory and the addresses of its remotes."""

    root: Path
    remotes: frozenset[str]

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
            return CurrentRepository(directory, _remotes(directory / ".git" / "config"))
    return None


def _remotes(config: Path) -> frozenset[str]:
    """The addresses of all remotes. Git does not read its settings for this: they can name programs."""
    try:
        with config.open("rb") as file:
            text = file.read(MAX_CONFIG_BYTES).decode(errors="replace")
    except OSError:  # a linked worktree has its settings elsewhere
        return frozenset()
    return frozenset(_normalised(address) for address in URL.findall(text))


def _normalised(address: str) -> str:
    """An address without the differences between the protocols of one host."""
    try:
        url = parse_repo_url(address)
    except HutchError:
        return address
    return "/".join((url.host, *url.slug)).lower() if url.slug else str(url).removesuffix(".git")
