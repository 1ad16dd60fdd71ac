"""Repositories of this machine, for the users who may use them.

This class decides what may be copied from and delivered into: nothing of Hutch's own,
nothing of the system, no home; for members only what lies below `server.repository_roots`;
and a directory without git only when somebody has said that it may be copied whole.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from hutch.domain.errors import BadRequest, Denied, NotARepository, NotFound
from hutch.forge.repo_url import parse_repo_url
from hutch.workspace.admission.directory_checks import OwnDirectories, check_source
from hutch.workspace.preparation.pinned_directory import PinnedDirectory, open_pinned
from hutch.workspace.preparation.plain_directory import summarize_directory

PLAIN = "'{path}' is not a git repository, so all of it would be copied and shown to the model: {contents}."
PLAIN_OPTION = "--plain-directory, or plain_directory: true in a request"  # clients show both to people


@dataclass(frozen=True, slots=True)
class Repositories:
    """What may be named. `roots` are those of members, by paths without links."""

    own: OwnDirectories
    roots: tuple[Path, ...] = ()

    def find(self, path: Path, unrestricted: bool, plain: bool) -> Path:
        """The directory that somebody names, with links followed once and for all; or a refusal. Blocks.

        `unrestricted` is for owners, and `plain` says that it may be a directory without git.
        """
        try:
            real = path.resolve()
        except (OSError, RuntimeError):  # links that lead in a circle
            raise BadRequest(f"There is no directory {path} on the server's machine.") from None
        self._check_roots(real, unrestricted)
        try:
            self.pin(real, unrestricted=unrestricted, plain=plain).close()
        except NotFound:
            raise BadRequest(
                f"There is no directory {path} on the server's machine. Name one, or an address."
            ) from None
        return real

    def pin(self, path: Path, *, unrestricted: bool, plain: bool = True) -> PinnedDirectory:
        """The same of a path that was found before: no link is followed any more. Blocks."""

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
        """A repository, for as long as the block lasts."""
        async with open_pinned(partial(self.pin, path, unrestricted=unrestricted)) as pinned:
            yield pinned

    def _check_roots(self, path: Path, unrestricted: bool) -> None:
        if not unrestricted and not any(path.is_relative_to(root) for root in self.roots):
            raise Denied(f"{path} is on this machine. Only an owner may work on a repository there.")


async def describe_plain_directory(repositories: Repositories, repository: str) -> str:
    """What is in a directory without git, before it is copied; empty for anything else.

    For the command line: links are followed, as its user may.
    """
    path = parse_repo_url(repository).path

    def look() -> str:
        assert path is not None
        with repositories.pin(path.resolve(), unrestricted=True) as pinned:
            return "" if pinned.layout else str(summarize_directory(pinned.directory))

    return await asyncio.to_thread(look) if path else ""
