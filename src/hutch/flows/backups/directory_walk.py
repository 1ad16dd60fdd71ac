"""Walks a directory whose content is hostile and may change meanwhile, to any depth.

Every step goes from one descriptor to the next and follows no link, so a directory that is
swapped for a link leads nowhere. Entries that vanish are left out.
"""

import os
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from hutch.flows.backups.backup_format import holds_packs

OPEN = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
MAX_ROUNDS = 20  # of listing a directory whose packs are being replaced
PACK = b".pack"

Names = tuple[bytes, ...]
IsIncluded = Callable[[bytes], bool]
OnError = Callable[[bytes, OSError], None]


class Found(NamedTuple):
    """An entry of a directory. Its descriptors are open until the next entry."""

    path: bytes
    parent: int
    name: bytes
    stat: os.stat_result
    fd: int = -1  # of a regular file


class Descent:
    """Opens directories below one by their names, without following links."""

    def __init__(self, root: int) -> None:
        self._root = root
        self._names: Names = ()
        self._fd = os.dup(root)

    def at(self, names: Names) -> int:
        """A descriptor of the directory, open until the next call."""
        if names[: len(self._names)] != self._names:
            os.close(self._fd)
            self._names, self._fd = (), os.dup(self._root)
        for name in names[len(self._names) :]:
            below = open_readable(name, os.O_DIRECTORY, self._fd)
            os.close(self._fd)
            self._names, self._fd = (*self._names, name), below
        return self._fd

    def close(self) -> None:
        os.close(self._fd)


def open_readable(name: bytes, flags: int, parent: int) -> int:
    """Open an entry to read it; one of our own that its mode hides becomes readable for a moment."""
    try:
        return os.open(name, OPEN | flags, dir_fd=parent)
    except PermissionError:
        pinned = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent)
        try:
            mode = os.fstat(pinned).st_mode
            if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
                raise
            there = f"/proc/self/fd/{pinned}"
            os.chmod(there, stat.S_IMODE(mode) | 0o500)  # noqa: PTH101 - a descriptor, not a path
            try:
                return os.open(there, OPEN & ~os.O_NOFOLLOW | flags)
            finally:
                os.chmod(there, stat.S_IMODE(mode))  # noqa: PTH101
        finally:
            os.close(pinned)


def walk(root: int, prefix: bytes, is_included: IsIncluded, on_error: OnError) -> Iterator[Found]:
    """The entries below an open directory, directories before their content."""
    descent = Descent(root)
    waiting: list[Names] = [()]
    try:
        while waiting:
            names = waiting.pop()
            path = b"/".join((prefix, *names))
            try:
                fd = descent.at(names)
            except (FileNotFoundError, NotADirectoryError):
                continue
            except OSError as error:
                on_error(path, error)
                continue
            below: list[bytes] = []
            for found in _entries(fd, path, is_included, on_error):
                if stat.S_ISDIR(found.stat.st_mode):
                    below.append(found.name)
                yield found
            # Objects of git come after the refs that name them: what a ref names is then there.
            below.sort(key=lambda name: (name == b"objects", name), reverse=True)
            waiting.extend((*names, name) for name in below)
    finally:
        descent.close()


def _entries(fd: int, path: bytes, is_included: IsIncluded, on_error: OnError) -> Iterator[Found]:
    """The entries of one directory. One with packs is listed again when a pack was replaced meanwhile."""
    is_packs, done = holds_packs(path), set[bytes]()
    for _ in range(MAX_ROUNDS):
        vanished = False
        for name in _in_order(os.listdir(fd)):
            inside = b"/".join((path, name))
            if name in done or not is_included(inside) or (is_packs and _is_unusable(name, done)):
                continue
            try:
                with _opened(fd, name) as (found, file):
                    done.add(name)
                    yield Found(inside, fd, name, found, file)
            except FileNotFoundError:
                vanished = True
            except OSError as error:
                on_error(inside, error)
        if not (is_packs and vanished):
            return


@contextmanager
def _opened(parent: int, name: bytes) -> Iterator[tuple[os.stat_result, int]]:
    """The state of an entry and, of a regular file, a descriptor; otherwise -1."""
    found = os.stat(name, dir_fd=parent, follow_symlinks=False)
    if not stat.S_ISREG(found.st_mode):
        yield found, -1
        return
    fd = open_readable(name, 0, parent)
    try:
        yield os.fstat(fd), fd
    finally:
        os.close(fd)


def _in_order(names: Sequence[str]) -> list[bytes]:
    """Sorted, a pack before its index."""
    return sorted(map(os.fsencode, names), key=lambda name: (not name.endswith(PACK), name))


def _is_unusable(name: bytes, done: set[bytes]) -> bool:
    """True for a pack that is being written, and for an index whose pack is gone."""
    stem, dot, kind = name.rpartition(b".")
    return name.startswith(b"tmp_") or (dot + kind in (b".idx", b".rev") and stem + PACK not in done)
