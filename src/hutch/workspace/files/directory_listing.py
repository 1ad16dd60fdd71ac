"""Lists a directory in pages.

The order is depth-first with sorted names. A cursor is the last listed path: the next
page continues after it, even if files were created or removed in the meantime, and each
permanent entry is listed exactly once. Memory use depends on the page, not on the size
of the directories. Links are listed and never followed. The number of open descriptors
is limited.
"""

import base64
import binascii
import os
import stat
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Literal

from hutch.domain.errors import BadRequest
from hutch.domain.one_line_text import echo
from hutch.snapshots.confined_directory import Directory, to_hutch_error
from hutch.snapshots.ignore_rules import GITIGNORE, MAX_GITIGNORE_BYTES, IgnoreRules
from hutch.system.chunked_collection_operations import sort_in_chunks
from hutch.system.lazy_dataclass import dataclass

MAX_ENTRIES = 10_000  # on one page
MAX_OPEN_LEVELS = 64  # levels above are reopened when the walk returns to them
SLACK = 1024
READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
DIRECTORY = READ | os.O_DIRECTORY

IsHidden = Callable[[str], bool]


@dataclass(slots=True)  # not frozen, which takes three times as long to create: a page has thousands
class Entry:
    """One name in a directory."""

    path: str
    kind: Literal["file", "directory", "link", "other"]
    size: int
    mode: int
    modified_ns: int
    target: str | None  # of a link


@dataclass(frozen=True, slots=True)
class Page:
    """Entries, and the cursor of the next page, if there is one."""

    entries: list[Entry]
    cursor: str | None


def list_page(
    tree: Directory,
    path: str = "",
    *,
    recursive: bool = False,
    ignores: bool = False,
    cursor: str | None = None,
    limit: int = 1000,
    is_hidden: IsHidden = lambda name: False,
    closed: frozenset[str] = frozenset(),
) -> Page:
    """The entries of a directory after `cursor`; `ignores` omits what `.gitignore` files list.

    `closed` directories are listed, and those below them only if `path` is one of them.
    """
    if not 1 <= limit <= MAX_ENTRIES:
        raise BadRequest(f"A page has 1 to {MAX_ENTRIES:,} entries; {limit:,} were requested.")
    walk = Walk(
        tree,
        path,
        recursive=recursive,
        ignores=ignores,
        max_entries=limit + 1,
        is_hidden=is_hidden,
        closed=closed,
    )
    found = list(islice(walk.entries(_parse_cursor(cursor) if cursor else ()), limit + 1))
    if len(found) <= limit:
        return Page(found, None)
    last = found[limit - 1].path
    return Page(found[:limit], _make_cursor(last[len(walk.start) + 1 :] if walk.start else last))


def _make_cursor(path: str) -> str:
    return base64.urlsafe_b64encode(os.fsencode(path)).decode()


def _parse_cursor(cursor: str) -> tuple[str, ...]:
    try:
        return tuple(os.fsdecode(base64.b64decode(cursor, altchars=b"-_", validate=True)).split("/"))
    except (binascii.Error, ValueError):
        raise BadRequest(f"{echo(cursor)} is no cursor. Give the one that came with the last page.") from None


@dataclass(slots=True)
class _Level:
    """A directory on the current path of the walk."""

    path: str
    fd: int | None  # None: temporarily closed
    identity: tuple[int, int]
    names: list[str]  # still to be listed, in reverse order
    rules: IgnoreRules | None
    entered: str | None = None  # the first name, listed on an earlier page


class Walk:
    """A walk over a directory, and those below it."""

    def __init__(
        self,
        tree: Directory,
        path: str,
        *,
        recursive: bool = True,
        ignores: bool = False,
        max_entries: int | None = None,
        is_hidden: IsHidden = lambda name: False,
        closed: frozenset[str] = frozenset(),
    ) -> None:
        self.tree = tree
        self.start = path.rstrip("/")
        self.recursive = recursive
        self.max_entries = max_entries  # maximum number of entries
        self.is_hidden = is_hidden
        self.closed = closed
        self._levels: list[_Level] = []
        self._ignores = ignores

    def entries(self, after: tuple[str, ...] = ()) -> Iterator[Entry]:
        """All entries after the path with these names."""
        try:
            self._begin(after[:1])
            depth = 1
            while self._levels:
                level = self._levels[-1]
                if not level.names:
                    self._leave()
                    continue
                name = level.names.pop()
                assert level.fd is not None
                path = f"{level.path}/{name}" if level.path else name
                if name == level.entered:
                    if self.recursive:
                        self._enter(level, name, path, after[depth : depth + 1])
                        depth += 1
                    continue
                entry = _entry(level.fd, name, path)
                if entry is None:
                    continue
                yield entry
                if self.max_entries is not None:
                    self.max_entries -= 1
                if self.recursive and entry.kind == "directory" and path not in self.closed:
                    self._enter(level, name, path, ())
        except OSError as error:
            raise to_hutch_error(error, self.start) from None
        finally:
            while self._levels:
                self._close(self._levels.pop())

    def _begin(self, after: tuple[str, ...]) -> None:
        fd = self.tree.open(self.start, os.O_RDONLY | os.O_DIRECTORY)
        rules = None
        if self._ignores:
            rules, above = IgnoreRules(), ""
            for name in self.start.split("/") if self.start else []:
                with self.tree.subdirectory(above) as directory:
                    rules = rules.enter(above, _gitignore(directory.fd))
                above = f"{above}/{name}" if above else name
        self._push(fd, self.start, rules, after)
        top = os.fstat(self.tree.fd)
        level = self._levels[0]
        if level.identity == (top.st_dev, top.st_ino):
            level.names = [name for name in level.names if not self.is_hidden(name)]

    def _enter(self, level: _Level, name: str, path: str, after: tuple[str, ...]) -> None:
        assert level.fd is not None
        try:
            fd = os.open(name, DIRECTORY, dir_fd=level.fd)
        except OSError:  # removed, replaced, or not readable
            return
        if len(self._levels) >= MAX_OPEN_LEVELS:
            os.close(level.fd)
            level.fd = None
        self._push(fd, path, level.rules, after)

    def _push(self, fd: int, path: str, rules: IgnoreRules | None, after: tuple[str, ...]) -> None:
        at = os.fstat(fd)
        level = _Level(path, fd, (at.st_dev, at.st_ino), [], rules)
        self._levels.append(level)
        if rules is not None:
            level.rules = rules.enter(path, _gitignore(fd))
        level.names = self._scan(level, fd, after[0] if after else "")
        level.names.reverse()
        if after and level.names and level.names[-1] == after[0]:
            level.entered = after[0]

    def _scan(self, level: _Level, fd: int, first: str) -> list[str]:
        """The sorted names from `first` on, as many as needed."""
        names: list[str] = []
        rules, above = level.rules, f"{level.path}/" if level.path else ""
        if rules is None and self.max_entries is None:
            return sort_in_chunks([name for name in os.listdir(fd) if name >= first])
        max_names = (self.max_entries or 0) + 1 if self.max_entries is not None else None
        with os.scandir(fd) as found:
            for entry in found:
                name = entry.name
                if name < first or (
                    rules is not None and rules.match(above + name, entry.is_dir(follow_symlinks=False))
                ):
                    continue
                names.append(name)
                if max_names is not None and len(names) > max_names + SLACK:
                    names.sort()
                    del names[max_names:]
        return sort_in_chunks(names)[:max_names]

    def _leave(self) -> None:
        """Return to the parent, if it is still the same directory."""
        left = self._levels.pop()
        if not self._levels or self._levels[-1].fd is not None:
            self._close(left)
            return
        level = self._levels[-1]
        assert left.fd is not None
        try:
            level.fd = os.open("..", DIRECTORY, dir_fd=left.fd)
        except OSError:
            level.fd = None
        self._close(left)
        if level.fd is not None and _identity(level.fd) != level.identity:
            os.close(level.fd)
            level.fd = None
        if level.fd is None:
            self._find_again()

    def _find_again(self) -> None:
        """After a move: reopen the levels by name, as far as they are the same directories."""
        held = max(at for at, level in enumerate(self._levels) if level.fd is not None)
        for at in range(held + 1, len(self._levels)):
            above, level = self._levels[at - 1], self._levels[at]
            assert above.fd is not None
            try:
                level.fd = os.open(level.path.rpartition("/")[2], DIRECTORY, dir_fd=above.fd)
            except OSError:
                level.fd = None
            if level.fd is None or _identity(level.fd) != level.identity:
                for gone in self._levels[at:]:
                    self._close(gone)
                del self._levels[at:]
                return
            if at - 1 > held:
                self._close(above)

    @staticmethod
    def _close(level: _Level) -> None:
        if level.fd is not None:
            os.close(level.fd)
            level.fd = None


def _identity(fd: int) -> tuple[int, int]:
    found = os.fstat(fd)
    return found.st_dev, found.st_ino


def _gitignore(fd: int) -> bytes | None:
    """The `.gitignore` of a directory. Like git, follows no link."""
    try:
        file = os.open(GITIGNORE, READ, dir_fd=fd)
    except OSError:
        return None
    try:
        found = os.fstat(file)
        if not stat.S_ISREG(found.st_mode) or found.st_size > MAX_GITIGNORE_BYTES:
            return None
        return os.read(file, MAX_GITIGNORE_BYTES)
    finally:
        os.close(file)


KINDS: dict[int, Literal["file", "directory", "link", "other"]] = {
    stat.S_IFREG: "file",
    stat.S_IFDIR: "directory",
    stat.S_IFLNK: "link",
}


def _entry(fd: int, name: str, path: str) -> Entry | None:
    try:
        found = os.stat(name, dir_fd=fd, follow_symlinks=False)
        kind = KINDS.get(found.st_mode & 0o170000, "other")
        target = os.readlink(name, dir_fd=fd) if kind == "link" else None
    except OSError:  # removed in the meantime
        return None
    return Entry(path, kind, found.st_size, found.st_mode & 0o7777, found.st_mtime_ns, target)
