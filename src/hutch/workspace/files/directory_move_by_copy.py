"""Moves a directory that cannot be renamed, such as one in an overlay's lower layer.

It is copied and the original removed. If the removal fails, the missing part is restored
from the copy. A copy has the same modes, times and links, but no set-id bits, extended
attributes and hard links between files.
"""

import contextlib
import hashlib
import os
import stat
from collections.abc import Iterator

from hutch.snapshots.confined_directory import Directory
from hutch.workspace.files.directory_listing import Walk
from hutch.workspace.files.tree_copy import PERMISSIONS, READ, CopyResult, copy_entry, copy_tree


def copy_subtree(fd: int, name: str, to_fd: int, to_name: str) -> list[str]:
    """Copy a tree to a new name; returns the paths that are no file, directory or link."""
    with _open_directory(fd, name) as source:
        os.mkdir(to_name, 0o700, dir_fd=to_fd)
        with _open_directory(to_fd, to_name) as target:
            _set_owner(target, source.owner)
            return copy_tree(source, target).skipped


def signature(fd: int, name: str) -> str:
    """A hash that changes with every change in a tree."""
    found = hashlib.sha256()
    with _open_directory(fd, name) as directory:
        for entry in Walk(directory, "").entries():
            found.update(f"{entry!r}\n".encode("utf-8", "surrogateescape"))
    return found.hexdigest()


def restore_missing(fd: int, name: str, to_fd: int, to_name: str) -> None:
    """Restore missing entries of the original from a copy. Existing entries are not changed."""
    with contextlib.suppress(FileExistsError):
        os.mkdir(to_name, 0o700, dir_fd=to_fd)
    with _open_directory(fd, name) as source, _open_directory(to_fd, to_name) as target:
        _set_owner(target, source.owner)
        pairs = [(source.open("", READ | os.O_DIRECTORY), target.open("", READ | os.O_DIRECTORY))]
        todo = [_names(pairs[0][0])]
        try:
            while pairs:
                from_fd, into_fd = pairs[-1]
                each = next(todo[-1], None)
                if each is None:
                    _finish(from_fd, into_fd)
                    os.close(from_fd)
                    os.close(into_fd)
                    pairs.pop()
                    todo.pop()
                elif stat.S_ISDIR(os.stat(each, dir_fd=from_fd, follow_symlinks=False).st_mode):
                    with contextlib.suppress(FileExistsError):
                        os.mkdir(each, 0o700, dir_fd=into_fd)
                        target.set_owner(into_fd, each)
                    below = os.open(each, READ | os.O_DIRECTORY, dir_fd=from_fd)
                    pairs.append((below, os.open(each, READ | os.O_DIRECTORY, dir_fd=into_fd)))
                    todo.append(_names(below))
                else:
                    with contextlib.suppress(FileExistsError):
                        copy_entry(from_fd, into_fd, each, target, CopyResult())
        finally:
            for from_fd, into_fd in pairs:
                os.close(from_fd)
                os.close(into_fd)


def _names(fd: int) -> Iterator[str]:
    with os.scandir(fd) as entries:
        return iter([entry.name for entry in entries])


def _finish(from_fd: int, into_fd: int) -> None:
    found = os.fstat(from_fd)
    os.fchmod(into_fd, stat.S_IMODE(found.st_mode) & PERMISSIONS)
    os.utime(into_fd, ns=(found.st_atime_ns, found.st_mtime_ns))


def _set_owner(directory: Directory, owner: tuple[int, int]) -> None:
    if os.geteuid() == 0:
        held = directory.open("", os.O_RDONLY | os.O_DIRECTORY)
        os.fchown(held, *owner)
        os.close(held)
        directory.owner = owner


@contextlib.contextmanager
def _open_directory(fd: int, name: str) -> Iterator[Directory]:
    flags = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    with Directory(os.open(name, flags, dir_fd=fd)) as directory:
        yield directory
