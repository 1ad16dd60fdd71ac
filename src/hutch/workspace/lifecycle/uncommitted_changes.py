"""Copies uncommitted changes of a user's directory into a workspace.

The list of paths comes from git in a jail, and the directory may change in the meantime.
So nothing is assumed: every path is resolved below both directories, and the entries
found decide what is done.
"""

import os
import stat
from collections.abc import Callable, Sequence

from hutch.domain.errors import BadRequest, HutchError, NotFound
from hutch.snapshots.confined_directory import Directory
from hutch.workspace.files.tree_copy import CopyResult, copy_entry, copy_tree

OnCopied = Callable[[CopyResult], None]


def copy_changes(
    source: Directory, target: Directory, paths: Sequence[str], on_copied: OnCopied
) -> CopyResult:
    """Make these paths in `target` equal to those in `source`, including deletions."""
    copied = CopyResult()
    present = []
    paths = _drop_covered(paths)
    # Remove replaced entries first: a file may be in the way of a directory.
    for path in paths:
        name = path.rstrip("/")
        kind = _kind(source, name)
        if kind is not None and (not stat.S_ISDIR(kind) or path.endswith("/")):
            present.append((name, kind))
        if _kind(target, name) is not None:
            target.remove(name)
    for name, kind in present:
        above = name.rpartition("/")[0]
        if above:
            _remove_blocking_file(target, above)
            target.make_directory(above)
        if stat.S_ISDIR(kind):
            target.make_directory(name)
            found = copy_tree(source, target, name)
            copied.files, copied.bytes = copied.files + found.files, copied.bytes + found.bytes
            copied.skipped += found.skipped
        else:
            try:
                with source.parent(name) as (from_fd, leaf), target.parent(name) as (to_fd, _):
                    if not copy_entry(from_fd, to_fd, leaf, target, copied):
                        copied.skipped.append(name)
            except NotFound:
                continue  # removed since it was listed
            copied.files += 1
        on_copied(copied)
    _remove_empty(target, paths)
    return copied


def _drop_covered(paths: Sequence[str]) -> list[str]:
    """Drop duplicates, and paths below a directory that is listed whole."""
    whole = {path for path in paths if path.endswith("/")}

    def is_covered(path: str) -> bool:
        names = path.rstrip("/").split("/")
        return any("/".join(names[:count]) + "/" in whole for count in range(1, len(names)))

    return [path for path in dict.fromkeys(paths) if not (whole and is_covered(path))]


def _kind(directory: Directory, path: str) -> int | None:
    """The mode of a path without links in its parents; None if it does not exist."""
    if not path or path.startswith("/") or ".." in path.split("/"):
        raise BadRequest(f"git listed {path[:80]!a} as a change, which is no path inside the repository.")
    names = path.split("/")
    try:
        for count in range(1, len(names)):
            if not stat.S_ISDIR(directory.stat("/".join(names[:count])).st_mode):
                return None
        return directory.stat(path).st_mode
    except HutchError:
        return None


def _remove_blocking_file(target: Directory, above: str) -> None:
    """Remove a file or link where the changes have a directory."""
    names = above.split("/")
    for count in range(1, len(names) + 1):
        part = "/".join(names[:count])
        if not target.exists(part):
            return
        if not stat.S_ISDIR(target.stat(part).st_mode):
            target.remove(part)
            return


def _remove_empty(target: Directory, paths: Sequence[str]) -> None:
    """Remove emptied directories, because git has no empty ones."""
    for above in sorted({path.rstrip("/").rpartition("/")[0] for path in paths}, key=len, reverse=True):
        while above:
            try:
                with target.parent(above) as (fd, name):
                    os.rmdir(name, dir_fd=fd)
            except HutchError:
                break
            above = above.rpartition("/")[0]
