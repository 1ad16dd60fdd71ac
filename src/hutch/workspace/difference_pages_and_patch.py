"""Compares two snapshots, or a snapshot with the current files: pages of files, and a patch.

A comparison leaves nothing behind. To compare with the current files, new content is
written to a temporary git directory that borrows all other objects from the snapshots.
The listing of the last comparison is cached for its next pages, so that they need not
scan every file again.
"""

import hashlib
import json
import re
import secrets
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import structlog

from hutch.domain.errors import BadRequest
from hutch.domain.one_line_text import echo
from hutch.snapshots import comparison
from hutch.snapshots.ignored_file_comparison_trees import write_ignored_trees
from hutch.system.lazy_dataclass import dataclass
from hutch.system.uncancellable_work import run_in_thread
from hutch.workspace.workspace import COMPARING, Workspace, snapshot_content

MAX_PATCH_BYTES = 4 << 20
MAX_FILES = 1000  # of one page
LISTING, LISTING_BYTES = "listing-", 6
CURSOR = re.compile(r"([0-9]{1,7})(?:\.([0-9a-f]{12}))?")
logger = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Difference:
    """One page of the files that differ. Only the first page has a patch."""

    old: int | None  # None: there is no snapshot yet
    new: int | None  # None: the current files
    files: list[comparison.Change]
    total: int  # files that differ
    cursor: str | None  # for the next page
    patch: bytes
    cut: bool  # the patch was truncated


@dataclass(frozen=True, slots=True)
class _Trees:
    git_dir: Path
    old: str
    new: str
    is_cut: bool = False  # not all files are in them


async def find_differences(
    workspace: Workspace,
    old: int | None = None,
    new: int | None = None,
    *,
    path: str = "",
    old_path: str = "",
    cursor: str = "",
    limit: int = MAX_FILES,
    binary: bool = True,
    ignored: bool = False,
) -> Difference:
    """Compare two snapshots; by default, the first one with the current files.

    A file that was moved to `path` has an `old_path`.
    With `ignored`, compare the files of two snapshots that git would not commit, apart from git's own.
    Without `binary`, the patch only names the binary files that differ. All pages of one comparison show the
    same moment. Only the last comparison is cached: the cursor of an older one compares again.
    """
    start, listing = _parse_cursor(cursor)
    if old is None:
        old = min((each.id for each in await workspace.list_snapshots()), default=None)
    if old is None:
        return Difference(None, new, [], 0, None, b"", cut=False)
    cached = workspace.directory / COMPARING / _listing_name(old, new, path, old_path, ignored=ignored)
    printed = await workspace.work(_read_listing, cached, listing) if listing else None
    patch, cut = b"", False
    if printed is None:
        listing = ""
        async with _trees(workspace, old, new, ignored=ignored) as trees:
            compared = (workspace.git, trees.git_dir, trees.old, trees.new)
            printed = await comparison.listing(*compared, path=path, old_path=old_path)
            if start == 0:
                patch, cut = await comparison.patch_trees(
                    *compared, path=path, old_path=old_path, max_bytes=MAX_PATCH_BYTES, binary=binary
                )
                cut |= trees.is_cut
    files, total = await workspace.work(comparison.page, printed, start, limit)
    more = None
    if start + limit < total:
        listing = listing or await workspace.work(_store_listing, cached, printed)
        more = f"{start + limit}.{listing}"
    return Difference(old, new, files, total, more, patch, cut)


def _parse_cursor(cursor: str) -> tuple[int, str]:
    """The index of the first file, and the id of its listing."""
    found = CURSOR.fullmatch(cursor or "0")
    if found is None:
        raise BadRequest(f"{echo(cursor)} is no cursor. Give the one that came with the last page.")
    return int(found[1]), found[2] or ""


def _listing_name(old: int, new: int | None, path: str, old_path: str, *, ignored: bool) -> str:
    """The name of the file with a cached listing, unique per comparison."""
    compared = json.dumps([old, new, path, old_path, ignored]).encode()
    return f"{LISTING}{hashlib.sha256(compared).hexdigest()[:32]}"


def _store_listing(cached: Path, printed: bytes) -> str:
    """Cache a listing for the next pages, and remove older ones."""
    cached.parent.mkdir(mode=0o700, exist_ok=True)
    for earlier in cached.parent.glob(f"{LISTING}*"):
        earlier.unlink(missing_ok=True)
    listing = secrets.token_hex(LISTING_BYTES)
    written = cached.with_name(f"{LISTING}{listing}.new")
    try:
        with written.open("wb") as file:
            file.write(listing.encode())
            file.write(printed)
        written.replace(cached)
    except OSError as error:
        written.unlink(missing_ok=True)
        logger.warning("the listing of a comparison could not be cached", error=error.strerror)
    return listing


def _read_listing(cached: Path, listing: str) -> bytes | None:
    """The cached listing with that id; None if it was removed."""
    try:
        with cached.open("rb") as file:
            return file.read() if file.read(2 * LISTING_BYTES) == listing.encode() else None
    except FileNotFoundError:
        return None


@asynccontextmanager
async def _trees(workspace: Workspace, old: int, new: int | None, *, ignored: bool) -> AsyncIterator[_Trees]:
    first = (await workspace.work(workspace.snapshots.get, old)).tree
    storage = workspace.snapshots.storage.git_dir
    if new is not None and not ignored:
        yield _Trees(storage, first, (await workspace.work(workspace.snapshots.get, new)).tree)
        return
    directory = workspace.directory / COMPARING / secrets.token_hex(8)
    async with workspace.comparing:  # one at a time: each may need as much space as the workspace
        try:
            if new is None:
                yield _Trees(directory, first, await workspace.work(_tree_now, workspace, directory))
            else:
                made = await workspace.work(write_ignored_trees, workspace.snapshots, old, new, directory)
                yield _Trees(directory, *made)
        finally:
            await run_in_thread(shutil.rmtree, directory, ignore_errors=True)


def _tree_now(workspace: Workspace, directory: Path) -> str:
    with workspace.files.exclusive():
        return workspace.snapshots.current_tree(snapshot_content(workspace.mount), directory)
