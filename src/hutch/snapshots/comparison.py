"""Differences between two snapshots.

`differences` is for restoring: it walks both sets of trees at once, stops where they
are equal, and includes ignored entries. `changes` and `patch` are for users: git
compares what it would commit, and detects renames. Git sees only trees in the private
git directory, so it never reads a repository's filters, drivers or attributes.
"""

import asyncio
import os
from collections import deque
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal

from hutch.domain.errors import BadRequest, Unavailable
from hutch.forge.host_git import Git
from hutch.snapshots.git_object_reader import GitObjects
from hutch.snapshots.git_storage import Snapshot, Storage
from hutch.snapshots.snapshot_tree_layout import Branch, Item, Leaf, OmittedEntry, changed_names, read_items
from hutch.system.chunked_collection_operations import sort_in_chunks
from hutch.system.lazy_dataclass import dataclass

KINDS: dict[str, Literal["added", "deleted", "modified", "renamed", "retyped"]] = {
    "A": "added",
    "D": "deleted",
    "M": "modified",
    "R": "renamed",
    "T": "retyped",
}
RENAME_OPTIONS = ("--find-renames=50%", "-l1000")
DIFF_OPTIONS = ("--no-ext-diff", "--no-textconv", "--no-color", "--ignore-submodules=none", "-r")
TIMEOUT_S = 60.0
# The repository must not influence git: no attributes file, and git's defaults for the rest.
SETTINGS = {"core.attributesFile": "/dev/null", "diff.renameLimit": "1000", "core.bigFileThreshold": "4m"}


@dataclass(frozen=True, slots=True)
class Change:
    """The change of one file between two snapshots."""

    path: str
    kind: Literal["added", "deleted", "modified", "renamed", "retyped"]
    old_path: str | None  # set for a rename
    old_mode: int  # git's mode; 0 if the file did not exist
    new_mode: int
    added: int | None  # lines; None for a binary file
    deleted: int | None


@dataclass(frozen=True, slots=True)
class Difference:
    """One entry, before and after; None if it did not exist."""

    path: str
    old: Item | None
    new: Item | None


def differences(
    objects: GitObjects, old: Item | None, new: Item | None, path: str = ""
) -> Iterator[Difference]:
    """All entries that differ. A directory comes before its entries; a removed one, after them."""
    waiting: list[tuple[str, Item | None, Item | None, bool]] = [(path, old, new, False)]
    while waiting:
        here, before, after, done = waiting.pop()
        if done or _same(before, after):
            if done:
                yield Difference(here, before, after)
            continue
        is_removed = isinstance(before, Branch) and not isinstance(after, Branch)
        if is_removed:
            waiting.append((here, before, after, True))
        else:
            yield Difference(here, before, after)
        if _same_below(before, after):
            continue
        only = None
        if isinstance(before, Branch) and isinstance(after, Branch):
            only = changed_names(objects, before, after)
        old_items = read_items(objects, before, only=only) if isinstance(before, Branch) else {}
        new_items = read_items(objects, after, only=only) if isinstance(after, Branch) else {}
        names = dict.fromkeys(old_items)
        names.update(dict.fromkeys(new_items))
        names.pop("", None)
        waiting += [
            (f"{here}/{name}" if here else name, old_items.get(name), new_items.get(name), False)
            for name in reversed(sort_in_chunks(names))
        ]


async def changes(
    git: Git, storage: Storage, old: Snapshot, new: Snapshot, *, path: str = ""
) -> list[Change]:
    """The files that differ, by path, with the numbers of lines."""
    printed = await listing(git, storage.git_dir, old.tree, new.tree, path=path)
    return (await asyncio.to_thread(page, printed, 0, None))[0]


async def listing(
    git: Git, git_dir: Path, old: str, new: str, *, path: str = "", old_path: str = ""
) -> bytes:
    """The files that differ between two trees, as git prints them; see `page`. A file that was moved to
    `path` has an `old_path`."""
    return await _diff(git, git_dir, old, new, "--raw", "--numstat", "-z", paths=(path, old_path))


def page(printed: bytes, start: int, limit: int | None) -> tuple[list[Change], int]:
    """The files of a listing from `start` on, and their total number. Slow for many files."""
    end = None if limit is None else start + limit
    found: list[Change] = []
    total = 0
    for change in _parse(printed):
        if total >= start and (end is None or total < end):
            found.append(change)
        total += 1
    return found, total


async def patch(
    git: Git, storage: Storage, old: Snapshot, new: Snapshot, *, path: str = "", max_bytes: int = 4 << 20
) -> tuple[bytes, bool]:
    """The difference as a patch for `git apply`, including binary files, and whether it was truncated."""
    return await patch_trees(git, storage.git_dir, old.tree, new.tree, path=path, max_bytes=max_bytes)


async def patch_trees(
    git: Git,
    git_dir: Path,
    old: str,
    new: str,
    *,
    path: str = "",
    old_path: str = "",
    max_bytes: int = 4 << 20,
    binary: bool = True,
) -> tuple[bytes, bool]:
    """Like `patch`, for two trees; without `binary`, binary files are only named."""
    words = ("--patch", *(("--binary",) if binary else ()), "--full-index")
    paths = (path, old_path)
    printed = await _diff(git, git_dir, old, new, *words, paths=paths, max_bytes=max_bytes + 1)
    if len(printed) <= max_bytes:
        return printed, False
    return printed[: printed.rfind(b"\n", 0, max_bytes) + 1], True


async def _diff(
    git: Git,
    git_dir: Path,
    old: str,
    new: str,
    *words: str,
    paths: Sequence[str],
    max_bytes: int | None = None,
) -> bytes:
    given = [path for path in paths if path]
    for path in given:
        if path.startswith("/") or ".." in path.split("/"):
            raise BadRequest(f"'{path}' is not a path inside the workspace.")
    return await git.run(
        *("--literal-pathspecs", "diff-tree", *DIFF_OPTIONS, *RENAME_OPTIONS, *words, old, new),
        *(("--", *given) if given else ()),
        git_dir=git_dir,
        settings=SETTINGS,
        timeout_s=TIMEOUT_S,
        max_bytes=max_bytes,
    )


def _parse(printed: bytes) -> Iterator[Change]:
    """Git prints the raw lines first, then the numbers, both in the same order."""
    fields = _fields(printed)
    raw: deque[tuple[str, str | None, str, int, int]] = deque()
    for field in fields:
        if field.startswith(b":"):
            old_mode, new_mode, _, _, status = field[1:].decode().split(" ")
            first = os.fsdecode(next(fields))
            renamed = status[0] == "R"
            path = os.fsdecode(next(fields)) if renamed else first
            raw.append((path, first if renamed else None, status[0], int(old_mode, 8), int(new_mode, 8)))
            continue
        if not field:
            continue
        added, deleted, name = field.split(b"\t", 2)
        if not name:  # a rename: both paths follow
            next(fields), next(fields)
        if not raw:
            raise Unavailable("git reported more changes than it had named. Is another git installed?")
        path, old_path, status, old, new = raw.popleft()
        yield Change(
            path=path,
            kind=KINDS[status],
            old_path=old_path,
            old_mode=old,
            new_mode=new,
            added=None if added == b"-" else int(added),
            deleted=None if deleted == b"-" else int(deleted),
        )


def _fields(printed: bytes) -> Iterator[bytes]:
    """The fields between NULs, one by one: splitting all at once would block the interpreter for too long."""
    start = 0
    while (end := printed.find(b"\0", start)) >= 0:
        yield printed[start:end]
        start = end + 1
    yield printed[start:]


def _same(old: Item | None, new: Item | None) -> bool:
    """True if restoring has nothing to do. The section does not matter."""
    if isinstance(old, Branch) and isinstance(new, Branch):
        return old.trees == new.trees and old.permissions == new.permissions
    if isinstance(old, Leaf) and isinstance(new, Leaf):
        return (old.mode, old.name) == (new.mode, new.name)
    return (old is None and new is None) or (isinstance(old, OmittedEntry) and isinstance(new, OmittedEntry))


def _same_below(old: Item | None, new: Item | None) -> bool:
    if isinstance(old, Branch) and isinstance(new, Branch):
        return old.trees == new.trees
    return not isinstance(old, Branch) and not isinstance(new, Branch)
