"""Repositories of this machine, for those who may use them.

One place decides what may be copied from and delivered into: nothing of Hutch's own,
nothing of the system, no home; for members only what lies below `server.repository_roots`;
and a directory without git only when somebody has said that it may be copied whole.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from hutch.app.ground import check_source
from hutch.domain.errors import BadRequest, Denied, NotARepository, NotFound
from hutch.forge.repo_url import parse_repo_url
from hutch.settings import Loaded, Paths
from hutch.workspace.prepare.pinned import Pinned, pinning
from hutch.workspace.prepare.plain import look_into

PLAIN = "'{path}' is not a git repository, so all of it would be copied and shown to the model: {contents}."
BY_OPTION = "--plain-directory, or plain_directory: true in a request"  # clients show both to people


@dataclass(frozen=True, slots=True)
class Repositories:
    """What may be named. `roots` are those of members, by paths without links."""

    paths: Paths
    roots: tuple[Path, ...] = ()

    def find(self, path: Path, anywhere: bool, plain: bool) -> Path:
        """The directory that somebody names, with links followed once and for all; or a refusal. Blocks.

        `anywhere` is for owners, and `plain` says that it may be a directory without git.
        """
        try:
            real = path.resolve()
        except (OSError, RuntimeError):  # links that lead in a circle
            raise BadRequest(f"There is no directory {path} on the server's machine.") from None
        self._check_roots(real, anywhere)
        try:
            self.pin(real, anywhere=anywhere, plain=plain).close()
        except NotFound:
            raise BadRequest(
                f"There is no directory {path} on the server's machine. Name one, or an address."
            ) from None
        return real

    def pin(self, path: Path, *, anywhere: bool, plain: bool = True) -> Pinned:
        """The same of a path that was found before: no link is followed any more. Blocks."""

        def check(each: Path, fd: int) -> None:
            self._check_roots(each, anywhere)
            check_source(each, fd, self.paths)

        self._check_roots(path, anywhere)
        pinned = Pinned(path, check)
        if pinned.layout is None and not plain:
            with pinned:
                reason = PLAIN.format(path=path, contents=look_into(pinned.directory))
                raise NotARepository(reason, option=BY_OPTION)
        return pinned

    @asynccontextmanager
    async def opened(self, path: Path, *, anywhere: bool) -> AsyncIterator[Pinned]:
        """A repository, for as long as the block lasts."""
        async with pinning(partial(self.pin, path, anywhere=anywhere)) as pinned:
            yield pinned

    def _check_roots(self, path: Path, anywhere: bool) -> None:
        if not anywhere and not any(path.is_relative_to(root) for root in self.roots):
            raise Denied(f"{path} is on this machine. Only an owner may work on a repository there.")


def repositories_of(loaded: Loaded) -> Repositories:
    return Repositories(loaded.paths, tuple(map(Path, loaded.settings.server.repository_roots)))


def with_fixed_roots(loaded: Loaded) -> Loaded:
    """The same settings, with links in `server.repository_roots` followed once: a root may lie in another,
    where members can put links. Blocks."""
    server = loaded.settings.server
    roots = [str(Path(root).resolve()) for root in server.repository_roots]
    fixed = server.model_copy(update={"repository_roots": type(server.repository_roots)(roots)})
    return replace(loaded, settings=loaded.settings.model_copy(update={"server": fixed}))


async def plain_directory(loaded: Loaded, repository: str) -> str:
    """What is to be known before a directory without git is copied; empty for anything else.

    For the command line: links are followed, as whoever runs it may.
    """
    path = parse_repo_url(repository).path

    def look() -> str:
        assert path is not None
        with repositories_of(loaded).pin(path.resolve(), anywhere=True) as pinned:
            return "" if pinned.layout else str(look_into(pinned.directory))

    return await asyncio.to_thread(look) if path else ""
