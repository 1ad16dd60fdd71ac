"""What differs between two snapshots, or since one of them: a page of files, and a patch of bounded size.

Whoever only looks leaves nothing behind. To compare with the files as they are now,
what is new of them is written into a git directory of its own, which borrows
everything else from the snapshots and is removed afterwards. The listing of the last
comparison is kept for its next pages, so that they need not look at every file again.
"""

import hashlib
import json
import re
import secrets
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import structlog

from hutch.domain.errors import BadRequest
from hutch.domain.untrusted_text import echo
from hutch.snapshots import comparison
from hutch.system.uninterrupted import run_in_thread
from hutch.workspace.workspace import COMPARING, Workspace, snapshot_content

MAX_PATCH_BYTES = 4 << 20
MAX_FILES = 1000  # of one page
LISTING, LISTING_BYTES = "listing-", 6
CURSOR = re.compile(r"([0-9]{1,7})(?:\.([0-9a-f]{12}))?")
logger = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Difference:
    """What differs; `files` is one page of it, and a patch comes with the first page only."""

    old: int | None  # None: there is no snapshot yet
    new: int | None  # None: the files as they were when this was asked
    files: list[comparison.Change]
    total: int  # files that differ
    cursor: str | None  # what to ask for the next page with
    patch: bytes
    cut: bool  # the patch was too long and is not whole


@dataclass(frozen=True, slots=True)
class _Trees:
    git_dir: Path
    old: str
    new: str


async def find_differences(
    workspace: Workspace,
    old: int | None = None,
    new: int | None = None,
    *,
    path: str = "",
    cursor: str = "",
    limit: int = MAX_FILES,
    binary: bool = True,
) -> Difference:
    """Between two snapshots; without them, from the first to the files as they are now.

    Without `binary`, the patch only says which binary files differ.

    All pages that are asked for with the cursors of one comparison are of the same moment. Only the listing
    of the last comparison is kept: the cursor of an older one compares again.
    """
    start, listing = _parse_cursor(cursor)
    if old is None:
        old = min((each.id for each in await workspace.list_snapshots()), default=None)
    if old is None:
        return Difference(None, new, [], 0, None, b"", cut=False)
    kept = workspace.directory / COMPARING / _listing_name(old, new, path)
    printed = await workspace.work(_read_listing, kept, listing) if listing else None
    patch, cut = b"", False
    if printed is None:
        listing = ""
        async with _trees(workspace, old, new) as trees:
            compared = (workspace.git, trees.git_dir, trees.old, trees.new)
            printed = await comparison.listing(*compared, path=path)
            if start == 0:
                patch, cut = await comparison.patch_trees(
                    *compared, path=path, max_bytes=MAX_PATCH_BYTES, binary=binary
                )
    files, total = await workspace.work(comparison.page, printed, start, limit)
    more = None
    if start + limit < total:
        listing = listing or await workspace.work(_store_listing, kept, printed)
        more = f"{start + limit}.{listing}"
    return Difference(old, new, files, total, more, patch, cut)


def _parse_cursor(cursor: str) -> tuple[int, str]:
    """The number of the first file, and which listing it is in."""
    found = CURSOR.fullmatch(cursor or "0")
    if found is None:
        raise BadRequest(f"{echo(cursor)} is no cursor. Give the one that came with the last page.")
    return int(found[1]), found[2] or ""


def _listing_name(old: int, new: int | None, path: str) -> str:
    """Of the file that keeps a listing; the same only for the same comparison."""
    compared = json.dumps([old, new, path]).encode()
    return f"{LISTING}{hashlib.sha256(compared).hexdigest()[:32]}"


def _store_listing(kept: Path, printed: bytes) -> str:
    """Keep a listing for the next pages, and none from before."""
    kept.parent.mkdir(mode=0o700, exist_ok=True)
    for earlier in kept.parent.glob(f"{LISTING}*"):
        earlier.unlink(missing_ok=True)
    listing = secrets.token_hex(LISTING_BYTES)
    written = kept.with_name(f"{LISTING}{listing}.new")
    try:
        with written.open("wb") as file:
            file.write(listing.encode())
            file.write(printed)
        written.replace(kept)
    except OSError as error:
        written.unlink(missing_ok=True)
        logger.warning("the listing of a comparison could not be kept", error=error.strerror)
    return listing


def _read_listing(kept: Path, listing: str) -> bytes | None:
    """The listing by that name, None when it is not there any more."""
    try:
        with kept.open("rb") as file:
            return file.read() if file.read(2 * LISTING_BYTES) == listing.encode() else None
    except FileNotFoundError:
        return None


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
            await run_in_thread(shutil.rmtree, place, ignore_errors=True)


def _tree_now(workspace: Workspace, place: Path) -> str:
    with workspace.files.exclusive():
        return workspace.snapshots.current_tree(snapshot_content(workspace.mount), place)
