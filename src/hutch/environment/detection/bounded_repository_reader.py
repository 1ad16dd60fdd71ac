"""The files of a repository that detection may read: bounded, and never through a link.

A repository is hostile. Its tree may be huge, deep or full of links, and a manifest may be
a fifo or a gigabyte. So directories are entered by descriptor, entries and bytes are
counted, and everything that is not a plain file of moderate size does not exist.
"""

import os
import re
import stat
from collections import deque
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Self

from hutch.domain.errors import HutchError
from hutch.snapshots.confined_directory import Directory

MAX_DEPTH = 4
MAX_ENTRIES = 20_000
MAX_FILE_BYTES = 16 * 1024 * 1024  # lock files of large projects have several megabytes
MAX_TOTAL_BYTES = 64 * 1024 * 1024
SKIPPED = frozenset(
    {
        *("node_modules", "vendor", "target", "dist", "build", "testdata", "fixtures", "third_party"),
        *("venv", "__pycache__", "examples", "samples", ".git", ".venv", ".tox", ".hutch-cache"),
    }
)
PLAIN_PATH = re.compile(r"[\w@+][\w.@+ -]*|\.[\w@+][\w.@+-]*")
"""A name that can be shown and quoted. Other names are not used: a command would have to carry them."""


class RepositoryFiles:
    """The plain files of a directory, by relative path; close it after use."""

    def __init__(self, directory: Directory) -> None:
        self._directory = directory
        self._left_bytes = MAX_TOTAL_BYTES
        self._cache: dict[str, bytes | None] = {}
        self.is_complete = True
        self.names: tuple[str, ...] = tuple(sorted(self._walk()))
        self._known = frozenset(self.names)

    @classmethod
    def at(cls, root: Path) -> Self:
        return cls(Directory.at(root))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._directory.close()

    def __contains__(self, path: object) -> bool:
        return path in self._known

    def read(self, path: str) -> bytes | None:
        """The content of a file; None if it is missing, too large or not a plain file."""
        if path not in self._known:
            return None
        if path not in self._cache:
            self._cache[path] = self._read(path)
        return self._cache[path]

    def text(self, path: str) -> str:
        """The content as text; empty if there is none."""
        return (self.read(path) or b"").decode(errors="replace")

    def matching(self, pattern: str, *, below: str = "") -> list[str]:
        """The files whose path relative to `below` matches a glob; `*` stays within a directory."""
        prefix = f"{below}/" if below else ""
        expression = _expression(pattern)
        return [
            name
            for name in self.names
            if name.startswith(prefix) and expression.fullmatch(name.removeprefix(prefix))
        ]

    def _walk(self) -> Iterator[str]:
        """Directories near the root come first, so that a bound cuts off the deepest."""
        left, waiting = MAX_ENTRIES, deque([""])
        while waiting:
            above = waiting.popleft()
            try:
                fd = self._directory.open(above or ".", os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            except HutchError:
                continue
            try:
                with os.scandir(fd) as entries:
                    for entry in entries:
                        if (left := left - 1) < 0:
                            self.is_complete = False
                            return
                        if not PLAIN_PATH.fullmatch(entry.name):
                            continue
                        path = f"{above}/{entry.name}" if above else entry.name
                        if entry.is_file(follow_symlinks=False):
                            yield path
                        elif entry.is_dir(follow_symlinks=False) and _is_entered(path):
                            waiting.append(path)
            finally:
                os.close(fd)

    def _read(self, path: str) -> bytes | None:
        try:
            fd = self._directory.open(path, os.O_RDONLY | os.O_NOFOLLOW)
        except HutchError:
            return None
        try:
            found = os.fstat(fd)
            size = min(MAX_FILE_BYTES, self._left_bytes)
            if not stat.S_ISREG(found.st_mode) or found.st_size > size:
                return None
            with open(fd, "rb", closefd=False) as file:
                content = file.read(size + 1)
            if len(content) > size:
                return None
            self._left_bytes -= len(content)
            return content
        except OSError:
            return None
        finally:
            os.close(fd)


def folder_of(path: str) -> str:
    """The directory of a file; empty for the root."""
    return path.rpartition("/")[0]


def within(folder: str, name: str) -> str:
    """The path of a plain name in a directory of the repository."""
    return f"{folder}/{name}" if folder else name


def join(folder: str, name: str) -> str | None:
    """A path below a directory of the repository, without `.` and `..`; None if it leads out."""
    if name.startswith("/") or "\0" in name:
        return None
    parts: list[str] = list(PurePosixPath(folder).parts)
    for part in PurePosixPath(name).parts:
        if part == "..":
            if not parts:
                return None
            parts.pop()
        else:
            parts.append(part)
    return "/".join(parts)


def _is_entered(path: str) -> bool:
    name = path.rpartition("/")[2]
    return name not in SKIPPED and path.count("/") < MAX_DEPTH


def _expression(pattern: str) -> re.Pattern[str]:
    """A glob as an expression. The stars are bounded, since time grows with a power of their number."""
    parts = []
    for part in pattern.removeprefix("./").strip("/").split("/")[:20]:
        if part == "**":
            parts.append("(?:[^/]+/)*")
        else:
            text = re.escape(part[:200]).replace(r"\*", "[^/]*", 4).replace(r"\?", "[^/]")
            parts.append(f"{text}/")
    return re.compile("".join(parts).removesuffix("/"))
