"""A directory that a user named, held open from the check to the last use.

A checked path may lead elsewhere when it is used: a user who can change a parent
directory can replace it by a link or another directory. So the path is opened once,
without following links, the open directory is checked, and only its descriptors are
used.
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
from hutch.jail.jail_directory_and_namespaces import JailLocation
from hutch.snapshots.confined_directory import PATH_ONLY, Directory
from hutch.system.uncancellable_work import wait_until_done
from hutch.workspace.lifecycle.repository_and_head_detection import Layout, find_layout

# Raises an error for a directory that may not be used, given by path and descriptor.
Check = Callable[[Path, int], None]


def allow(path: Path, fd: int) -> None:
    """Accept any directory."""


class PinnedDirectory:
    """An open directory and, for a linked worktree, its main repository. `layout` is None without git.

    `path` must not contain links; callers that may follow links resolve them first. Blocks the thread.
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
        """The location for a jail on the repository; for a linked worktree, on the main one."""
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
    """Open a path of the current user. Links are resolved once."""
    try:
        return PinnedDirectory(path.resolve())
    except (OSError, RuntimeError):  # a loop of links
        raise NotFound(f"There is no directory '{path}' on this machine.") from None


@asynccontextmanager
async def open_pinned(work: Callable[[], PinnedDirectory]) -> AsyncIterator[PinnedDirectory]:
    """Open a directory in a thread, until the block ends. A cancellation leaves nothing open."""
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
