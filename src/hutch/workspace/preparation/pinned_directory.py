"""A directory of this machine that somebody named, held open from the check to the last use.

A path that was checked may lead elsewhere when it is used: whoever can change a
directory above it puts a link, or another directory, in its place. So the path is
opened once, without following a link, what was opened is checked, and all that
follows uses the descriptors.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from contextlib import ExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Self

from hutch.domain.errors import BadRequest, Conflict, NotFound
from hutch.jail.location import JailLocation
from hutch.snapshots.directory import PATH_ONLY, Directory
from hutch.system.uninterrupted import wait_until_done
from hutch.workspace.preparation.repository_layout import Layout, find_layout

# Refuses a directory that may not be used; it is given by its path and by a descriptor.
Check = Callable[[Path, int], None]


def allow(path: Path, fd: int) -> None:
    """Any directory will do."""


class PinnedDirectory:
    """A directory and, where it is a linked worktree, the main repository; `layout` is None without git.

    `path` has no link in it: who may follow links resolves them before. Blocks.
    """

    def __init__(self, path: Path, check: Check = allow) -> None:
        self.path = path
        with ExitStack() as stack:
            try:
                self.directory = stack.enter_context(Directory.without_links(path))
            except Conflict:
                raise
            except BadRequest:
                raise NotFound(f"There is no directory '{path}' on this machine.") from None
            check(path, self.directory.fd)
            layout, external = find_layout(path, self.directory)
            for each in external:
                stack.enter_context(each)
            for each, where in zip(external, layout.external if layout else (), strict=True):
                check(where, each.fd)
            self._check = check
            held = (self.directory.fd, *(each.fd for each in external))
            self.layout: Layout | None = replace(layout, held=held) if layout else None
            self._stack = stack.pop_all()

    def main(self) -> JailLocation:
        """Where a jail works on the repository itself: that of a linked worktree is the main one."""
        assert self.layout is not None
        path, fd = (self.path, *self.layout.external)[-1], self.layout.held[-1]
        if self.layout.external and path.name == ".git":
            path, fd = path.parent, os.open("..", PATH_ONLY | os.O_CLOEXEC, dir_fd=fd)
            self._stack.callback(os.close, fd)
            self._check(path, fd)
        return JailLocation(path, path, is_resolved=True, pinned=(fd,))

    def close(self) -> None:
        self._stack.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def pin_path(path: Path) -> PinnedDirectory:
    """A directory by a path of whoever runs this: links in it are followed now, and never again."""
    try:
        return PinnedDirectory(path.resolve())
    except (OSError, RuntimeError):  # links that lead in a circle
        raise NotFound(f"There is no directory '{path}' on this machine.") from None


@asynccontextmanager
async def open_pinned(work: Callable[[], PinnedDirectory]) -> AsyncIterator[PinnedDirectory]:
    """What a thread opens, until the block is left; who is cancelled meanwhile leaves nothing open."""
    opening = asyncio.ensure_future(asyncio.to_thread(work))
    try:
        pinned = await asyncio.shield(opening)
    except asyncio.CancelledError:
        await wait_until_done(opening)
        if not opening.cancelled() and opening.exception() is None:
            opening.result().close()
        raise
    with pinned:
        yield pinned
