"""Reads and changes the files of a workspace.

All paths are resolved below one directory descriptor, so none leads out. Every change
goes through the journal, so it is made completely or not at all. Each is reported with
the hashes before and after.
"""

import os
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain, islice
from pathlib import Path
from typing import Literal

from hutch.domain.errors import BadRequest, Conflict, Denied, HutchError, NotFound
from hutch.edit.file_operation_types import Announcement, Delete, FileChange, Move, Operation, Write
from hutch.snapshots.confined_directory import Directory
from hutch.system.lazy_dataclass import dataclass
from hutch.workspace.files.atomic_change_journal import Journal, Staging
from hutch.workspace.files.change_planning import PendingChange, hash_file, locate, make_step, read_file
from hutch.workspace.files.change_steps import CannotRename, Step, display_path
from hutch.workspace.files.directory_listing import KINDS, Entry, Page, Walk, list_page
from hutch.workspace.files.file_change_syscalls import Syscalls
from hutch.workspace.files.partial_read import MAX_READ_BYTES, Binary, Bytes, Lines, read_lines, read_range

MAX_ATTEMPTS = 20  # to write a file that another process keeps changing
MAX_LISTED_CHANGES = 1000  # of a moved or deleted directory; beyond that, only the directory is reported
CheckPath = Callable[[str], None]
"""Raises if a path may not be changed. The names of directories end with a slash."""


@dataclass(frozen=True, slots=True)
class PathStatus:
    """One path, and the hash of its content if requested."""

    entry: Entry
    sha256: str | None


class Files:
    """The files of one tree. All methods block. Opening it undoes unfinished changes of a crash."""

    def __init__(
        self,
        tree: Directory,
        place: Directory,
        calls: Syscalls | None = None,
        *,
        closed: Sequence[str] = (),
    ) -> None:
        """`place` is the directory of the journal, outside the tree and private to Hutch. Recursive listings
        do not enter `closed` directories."""
        self.tree = tree
        self.closed = frozenset(closed)
        self.journal = Journal(tree, place, calls)
        self.announced = Announcement()  # of the last change of single files
        # Called with the paths and hashes of files before they are replaced, moved or removed.
        self.before_replacing: Callable[[Sequence[tuple[str, str]]], None] | None = None
        with self.exclusive():
            pass

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        """Keep other changes out, for example while a snapshot reads the whole tree."""
        with self.journal.exclusive():
            yield

    def list_directory(
        self,
        path: str = "",
        *,
        recursive: bool = False,
        ignores: bool = False,
        cursor: str | None = None,
        limit: int = 1000,
    ) -> Page:
        """A page of a directory's entries; `ignores` omits what `.gitignore` files list."""
        return list_page(
            self.tree,
            path,
            recursive=recursive,
            ignores=ignores,
            cursor=cursor,
            limit=limit,
            is_hidden=self.journal.is_hidden,
            closed=self.closed,
        )

    def is_directory(self, path: str) -> bool:
        try:
            return self.stat(path).entry.kind == "directory"
        except HutchError:
            return False

    def stat(self, path: str, *, hashed: bool = False) -> PathStatus:
        """The status of a path, without following a link."""
        found = self.tree.stat(path)
        kind = KINDS.get(stat.S_IFMT(found.st_mode), "other")
        target = self.tree.read_link(path) if kind == "link" else None
        mode = stat.S_IMODE(found.st_mode)
        entry = Entry(path, kind, found.st_size, mode, found.st_mtime_ns, target)
        return PathStatus(entry, hash_file(self.tree, path)[0] if hashed else None)

    def read(self, path: str, first: int | None = None, last: int | None = None) -> Lines | Binary:
        """Lines `first` to `last` of a text file, or all; anything else is `Binary`."""
        return read_lines(self.tree, path, first, last)

    def read_range(self, path: str, start: int = 0, length: int = MAX_READ_BYTES) -> Bytes:
        """A range of bytes of any file."""
        return read_range(self.tree, path, start, length)

    def read_bytes(self, path: str) -> tuple[bytes, int]:
        """A whole file and its `st_mode`."""
        return read_file(self.tree, path)

    def change(self, operations: Sequence[Operation]) -> list[FileChange]:
        """Make all changes in order, or none. Raises Conflict if a `before` or `replaces` differs."""
        with self.exclusive():
            return self._change(operations)

    def write(
        self, path: str, data: bytes, *, if_hash: str | None = None, mode: int | None = None
    ) -> FileChange:
        """Write a file; with `if_hash`, only if its content has that hash."""
        with self.exclusive():
            tries = 1 if if_hash is not None else MAX_ATTEMPTS
            while True:
                change, tries = PendingChange(self.tree), tries - 1
                before = if_hash if if_hash is not None else change.present(path)
                try:
                    return self._make(change, [Write(path, data, mode, before)])[0]
                except Conflict:
                    if not tries:
                        raise

    def create(self, path: str, data: bytes = b"", *, mode: int | None = None) -> FileChange:
        """Create a file that must not exist, and its parent directories."""
        return self.change([Write(path, data, mode, None)])[0]

    def make_directory(self, path: str) -> list[FileChange]:
        """Create a directory and its parents; returns the created ones."""
        with self.exclusive():
            made = self._missing(path)
            if made:
                self.journal.change(lambda staging: [make_step(staging, each) for each in made])
            return [FileChange(each, "created", None, None) for each in made]

    def move(
        self, path: str, to: str, *, replace: bool = False, check: CheckPath | None = None
    ) -> list[FileChange]:
        """Rename a file, link or directory. An existing target needs `replace`. `check` may refuse it."""
        with self.exclusive():
            if check is not None:
                self._check_tree(path, check, to)
                self._check_tree(to, check)
            kind = stat.S_IFMT(self.tree.stat(path).st_mode)
            there = self._kind(to)
            if there is not None and not replace:
                raise Conflict(
                    f"'{display_path(to)}' exists already. Choose another name, or allow replacing it."
                )
            if there is not None and (there == stat.S_IFDIR) != (kind == stat.S_IFDIR):
                raise Conflict(
                    f"'{display_path(to)}' and '{display_path(path)}' are not both directories or both files."
                )
            if kind == stat.S_IFREG and there in (None, stat.S_IFREG):
                before, replaced = self._hash(path), self._hash(to) if there else None
                if before is not None and (replaced is not None or there is None):
                    return self._change([Move(path, to, None, before, replaced)])
            if f"{to}/".startswith(f"{path}/"):
                raise BadRequest(
                    f"'{display_path(path)}' cannot be moved to '{display_path(to)}', into itself."
                )
            changes = self._list_changes(path, "moved", to)
            try:
                self.journal.change(lambda staging: self._rename_steps(staging, path, to))
            except CannotRename:
                if kind != stat.S_IFDIR or there is not None:
                    raise
                self.journal.change(lambda staging: self._copy_steps(staging, path, to))
            return changes

    def delete(self, path: str, *, check: CheckPath | None = None) -> list[FileChange]:
        """Delete a file, a link itself, or a directory with its content. `check` may refuse it."""
        with self.exclusive():
            if check is not None:
                self._check_tree(path, check)
            kind = stat.S_IFMT(self.tree.stat(path).st_mode)
            before = self._hash(path) if kind == stat.S_IFREG else None
            if before is not None:
                return self._change([Delete(path, before)])
            changes = self._list_changes(path, "deleted")
            try:
                with self._made_writable(path):
                    mark = self._mark(path)
                    self.journal.change(
                        lambda staging: [Step("take", path, staging.new_name(), expected=mark)]
                    )
            except CannotRename:
                self._empty(path)
            return changes

    def _change(self, operations: Sequence[Operation]) -> list[FileChange]:
        return self._make(PendingChange(self.tree), operations)

    def _make(self, change: PendingChange, operations: Sequence[Operation]) -> list[FileChange]:
        change.simulate(operations)
        if self.before_replacing is not None:
            self.before_replacing(change.replaced())
        announced = change.announced()  # before other processes can replace what was written by links
        self.journal.change(change.steps)
        self.announced = announced
        return change.changes

    def _empty(self, path: str) -> None:
        """Delete a directory that cannot be renamed."""
        try:
            self.tree.remove(path)
        except HutchError as error:
            error.args = (f"Only a part of '{display_path(path)}' could be deleted. {error}",)
            raise

    @contextmanager
    def _made_writable(self, path: str) -> Iterator[None]:
        """Make a directory writable, which a rename needs. Restores its mode on failure."""
        with self.tree.parent(path) as (fd, name):
            held = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=fd)
        try:
            found = os.fstat(held).st_mode
            if not stat.S_ISDIR(found) or found & stat.S_IWUSR or os.geteuid() == 0:
                yield
                return
            this = Path(f"/proc/self/fd/{held}")  # the open directory itself
            this.chmod(found | stat.S_IRWXU)
            try:
                yield
            except BaseException:
                this.chmod(found)
                raise
        finally:
            os.close(held)

    def _check_tree(self, path: str, check: CheckPath, to: str = "") -> None:
        """Pass a path and all that is below it to `check`, also under the names that it would get at `to`."""
        path, to = path.rstrip("/"), to.rstrip("/")
        is_directory = self._kind(path) == stat.S_IFDIR
        entries = Walk(self.tree, path).entries() if is_directory else ()
        below = (f"{each.path}/" if each.kind == "directory" else each.path for each in entries)
        for name in chain([f"{path}/" if is_directory else path], below):
            check(name)
            if to:
                check(to + name[len(path) :])

    def _kind(self, path: str) -> int | None:
        try:
            return stat.S_IFMT(self.tree.stat(path).st_mode)
        except NotFound:
            return None

    def _hash(self, path: str) -> str | None:
        """The hash of a file, or None when it cannot be read."""
        try:
            return hash_file(self.tree, path)[0]
        except (Denied, BadRequest):
            return None

    def _mark(self, path: str) -> str:
        found = self.tree.stat(path)
        is_link = stat.S_ISLNK(found.st_mode)
        return f"link:{self.tree.read_link(path)}" if is_link else f"ino:{found.st_ino}"

    def _missing(self, path: str) -> list[str]:
        """The missing directories of a path, including itself."""
        _, path, missing = locate(self.tree, path, follow=True)
        kind = None if missing else self._kind(path)
        if kind is None:
            return [*missing, path]
        if kind != stat.S_IFDIR:
            raise Conflict(f"'{display_path(path)}' is a file. Choose another name for the directory.")
        return []

    def _rename_steps(self, staging: Staging, path: str, to: str) -> Iterator[Step]:
        yield from self._clear_target_steps(staging, to)
        yield Step("rename", path, mark=self._mark(path), to=to)

    def _copy_steps(self, staging: Staging, path: str, to: str) -> Iterator[Step]:
        name = staging.new_name()
        with self.tree.parent(path) as (fd, last):
            before = staging.calls.signature(fd, last)
            skipped = staging.calls.copy_subtree(fd, last, staging.fd, name)
            mark = f"ino:{staging.calls.stat(staging.fd, name).st_ino}"
        if skipped:
            raise Conflict(
                f"'{display_path(path)}' cannot be moved here: '{display_path(skipped[0])}' in it is neither "
                "a file nor a link. Remove that first."
            )
        yield from self._clear_target_steps(staging, to)
        yield Step("put", to, name, mark)
        yield Step("remove", path, mark=mark, expected=f"tree:{before}", to=to)

    def _clear_target_steps(self, staging: Staging, to: str) -> Iterator[Step]:
        _, _, missing = locate(self.tree, to, follow=False)
        yield from (make_step(staging, each) for each in missing)
        if self._kind(to) is not None:
            yield Step("take", to, staging.new_name(), expected=self._mark(to))

    def _list_changes(
        self, path: str, kind: Literal["deleted", "moved"], to: str | None = None
    ) -> list[FileChange]:
        """The changes of all files below a moved or deleted path; of the path itself if there are none."""
        files: list[Entry] = []
        if self._kind(path) == stat.S_IFDIR:
            below = (entry for entry in Walk(self.tree, path).entries() if entry.kind == "file")
            files = list(islice(below, MAX_LISTED_CHANGES + 1))
        if not files or len(files) > MAX_LISTED_CHANGES:
            return [FileChange(to or path, kind, None, None, path if to else None)]
        changes = []
        for entry in files:
            before = self._hash(entry.path)
            if to is None:
                changes.append(FileChange(entry.path, kind, before, None))
            else:
                now = to.rstrip("/") + entry.path[len(path.rstrip("/")) :]
                changes.append(FileChange(now, kind, before, before, entry.path))
        if self.before_replacing is not None:
            replaced = [(each.moved_from or each.path, each.before) for each in changes]
            self.before_replacing([(each, before) for each, before in replaced if before is not None])
        return changes
