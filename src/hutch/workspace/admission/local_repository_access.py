"""Decides which repositories on this machine a user may use.

Directories of Hutch, system directories and home directories are refused. Members may
use only what is below `server.repository_roots`. A directory without git is accepted
only if the user allows copying it whole.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import NamedTuple

from hutch.domain.errors import BadRequest, Denied, HutchError, NotARepository, NotFound
from hutch.forge.repo_url import parse_repo_url
from hutch.system.lazy_dataclass import dataclass
from hutch.workspace.admission.directory_checks import OwnDirectories, check_source, refusal
from hutch.workspace.lifecycle.pinned_directory import PinnedDirectory, open_pinned
from hutch.workspace.lifecycle.plain_directory_summary import summarize_directory
from hutch.workspace.lifecycle.repository_and_head_detection import enclosing_repository

PLAIN = "'{path}' is not a git repository, so all of it would be copied and shown to the model: {contents}."
PLAIN_OPTION = "--plain-directory, or plain_directory: true in a request"  # clients show both to users


class FoundRepository(NamedTuple):
    """A directory that a user named: the root of its repository, and the path from there."""

    root: Path
    start_in: str = ""


@dataclass(frozen=True, slots=True)
class Repositories:
    """The repositories that users may name. `roots`, without links, apply to members."""

    own: OwnDirectories
    roots: tuple[Path, ...] = ()

    def find(self, path: Path, unrestricted: bool, plain: bool) -> FoundRepository:
        """The repository of a directory, with links resolved once. Refuses forbidden ones. Blocks the
        thread.

        `unrestricted` is for owners. `plain` accepts a directory without git, and takes it as it is even if
        it is in a repository.
        """
        try:
            real = path.resolve()
        except (OSError, RuntimeError):  # a loop of links
            raise BadRequest(f"There is no directory {path} on the server's machine.") from None
        self._check_roots(real, unrestricted)
        root = real if plain else self.find_root(real, unrestricted)
        try:
            self.pin(root, unrestricted=unrestricted, plain=plain).close()
        except NotFound:
            raise BadRequest(
                f"There is no directory {path} on the server's machine. Name one, or an address."
            ) from None
        return FoundRepository(root, "" if root == real else str(real.relative_to(root)))

    def find_root(self, path: Path, unrestricted: bool) -> Path:
        """The root of the repository that a directory is in; the directory itself if that may not be used,
        or there is none. Blocks the thread."""
        root = enclosing_repository(path, lambda each: unrestricted or self._is_below_roots(each))
        return path if root is None or refusal(root, self.own) else root

    def pin(self, path: Path, *, unrestricted: bool, plain: bool = True) -> PinnedDirectory:
        """Open a path that `find` returned, without following links. Blocks the thread."""

        def check(each: Path, fd: int) -> None:
            self._check_roots(each, unrestricted)
            check_source(each, fd, self.own)

        self._check_roots(path, unrestricted)
        pinned = PinnedDirectory(path, check)
        if pinned.layout is None and not plain:
            with pinned:
                reason = PLAIN.format(path=path, contents=summarize_directory(pinned.directory))
                raise NotARepository(reason, option=PLAIN_OPTION)
        return pinned

    @asynccontextmanager
    async def open(self, path: Path, *, unrestricted: bool) -> AsyncIterator[PinnedDirectory]:
        """A repository, until the block ends."""
        async with open_pinned(partial(self.pin, path, unrestricted=unrestricted)) as pinned:
            yield pinned

    def _check_roots(self, path: Path, unrestricted: bool) -> None:
        if not unrestricted and not self._is_below_roots(path):
            raise Denied(f"{path} is on this machine. Only an owner may work on a repository there.")

    def _is_below_roots(self, path: Path) -> bool:
        return any(path.is_relative_to(root) for root in self.roots)


def repository_root(directory: Path, own: OwnDirectories) -> Path:
    """The root of the repository that a directory is in; the directory itself if there is none. Blocks the
    thread."""
    try:
        return Repositories(own).find_root(directory.resolve(), unrestricted=True)
    except HutchError:  # it is in a submodule, or `.git` is a link
        return directory


async def describe_plain_directory(repositories: Repositories, repository: str) -> str:
    """A summary of a directory without git, before it is copied; empty for anything else.

    For the command line, so links are followed.
    """
    path = parse_repo_url(repository).path

    def summarize() -> str:
        assert path is not None
        root = repositories.find_root(path.resolve(), unrestricted=True)
        with repositories.pin(root, unrestricted=True) as pinned:
            return "" if pinned.layout else str(summarize_directory(pinned.directory))

    return await asyncio.to_thread(summarize) if path else ""
