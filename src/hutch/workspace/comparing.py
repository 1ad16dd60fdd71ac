"""What differs between two snapshots, or since one of them: a page of files, and a patch of bounded size.

Whoever only looks leaves nothing behind. To compare with the files as they are now,
what is new of them is written into a git directory of its own, which borrows
everything else from the snapshots and is removed afterwards.
"""

import secrets
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from hutch.domain.errors import BadRequest
from hutch.workspace.prepare.thread import finish
from hutch.workspace.snapshots import compare
from hutch.workspace.workspace import COMPARING, Workspace, content

PATCH_BYTES = 4 << 20
MAX_FILES = 1000  # of one page


@dataclass(frozen=True, slots=True)
class Difference:
    """What differs; `files` is one page of it, and a patch comes with the first page only."""

    old: int | None  # None: there is no snapshot yet
    new: int | None  # None: the files as they were when this was asked
    files: list[compare.Change]
    total: int  # files that differ
    cursor: str | None  # what to ask for the next page with
    patch: bytes
    cut: bool  # the patch was too long and is not whole


@dataclass(frozen=True, slots=True)
class _Trees:
    git_dir: Path
    old: str
    new: str


async def differences(
    workspace: Workspace,
    old: int | None = None,
    new: int | None = None,
    *,
    path: str = "",
    cursor: str = "",
    limit: int = MAX_FILES,
) -> Difference:
    """Between two snapshots; without them, from the first to the files as they are now."""
    if not cursor.isdecimal() and cursor:
        raise BadRequest(f"'{cursor[:80]}' is no cursor. Give the one that came with the last page.")
    start = int(cursor[:12] or 0)
    if old is None:
        old = min((each.id for each in await workspace.list_snapshots()), default=None)
    if old is None:
        return Difference(None, new, [], 0, None, b"", cut=False)
    async with _trees(workspace, old, new) as trees:
        git = workspace.git
        printed = await compare.listing(git, trees.git_dir, trees.old, trees.new, path=path)
        files, total = await workspace.work(compare.page, printed, start, limit)
        patch, cut = b"", False
        if start == 0:
            patch, cut = await compare.patch_of(
                git, trees.git_dir, trees.old, trees.new, path=path, most_bytes=PATCH_BYTES
            )
    more = str(start + limit) if start + limit < total else None
    return Difference(old, new, files, total, more, patch, cut)


@asynccontextmanager
async def _trees(workspace: Workspace, old: int, new: int | None) -> AsyncIterator[_Trees]:
    first = (await workspace.work(workspace.snapshots.get, old)).tree
    storage = workspace.snapshots.storage.git_dir
    if new is not None:
        yield _Trees(storage, first, (await workspace.work(workspace.snapshots.get, new)).tree)
        return
    place = workspace.directory / COMPARING / secrets.token_hex(8)
    async with workspace.comparing:  # one at a time: each may need as much room as the workspace
        try:
            yield _Trees(place, first, await workspace.work(_tree_now, workspace, place))
        finally:
            await finish(shutil.rmtree, place, ignore_errors=True)


def _tree_now(workspace: Workspace, place: Path) -> str:
    with workspace.files.exclusive():
        return workspace.snapshots.glance(content(workspace.opened), place)
