"""Checks a list of file operations and turns it into steps.

The operations are simulated in order, so that each is checked against the result of
the previous ones. Then every file is changed at most once, from its old to its final
content.
"""

import contextlib
import hashlib
import os
import stat
from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from hutch.domain.errors import BadRequest, Conflict, NotFound
from hutch.edit.file_operation_types import (
    Announcement,
    Delete,
    FileChange,
    Move,
    Operation,
    Write,
    WrittenFile,
)
from hutch.snapshots.confined_directory import Directory, to_hutch_error
from hutch.system.lazy_dataclass import dataclass
from hutch.workspace.files.atomic_change_journal import Staging
from hutch.workspace.files.change_steps import Step, display_path, make_stamp
from hutch.workspace.files.file_change_syscalls import hash_descriptor
from hutch.workspace.link_resolution import resolve_links

DEFAULT_MODE = 0o644
PERMISSIONS = 0o1777  # set-id bits are dropped, as by the kernel on a write
MAX_LINKS = 40
MAX_FILE_BYTES = 32 * 1024 * 1024

Key = tuple[int, int, str]


@dataclass(frozen=True, slots=True)
class OldFile:
    """A file before the change."""

    mark: str
    stamp: str
    digest: str  # for a link, of its target's content
    mode: int
    owner: tuple[int, int]


@dataclass(frozen=True, slots=True)
class NewFile:
    """A file after the change."""

    data: bytes
    digest: str
    mode: int
    owner: tuple[int, int]


Content = OldFile | NewFile | None


@dataclass(slots=True)
class Slot:
    """A path with its old and its new content."""

    path: str
    missing: tuple[str, ...]  # parent directories to create first
    found: OldFile | None
    content: Content


class PendingChange:
    """Simulated operations; `steps` prepares their execution."""

    def __init__(self, tree: Directory) -> None:
        self.tree = tree
        self.slots: dict[Key, Slot] = {}
        self.changes: list[FileChange] = []  # with the paths that the caller gave
        self._real_paths: dict[str, str] = {}

    def present(self, path: str) -> str | None:
        """The hash of the content that a write to this path would replace."""
        content = self._slot(path, follow=True).content
        return content.digest if content else None

    def replaced(self) -> list[tuple[str, str]]:
        """The real paths and hashes of the files that will be replaced, moved or removed."""
        return [
            (self._without_links(slot.path), slot.found.digest)
            for slot in self.slots.values()
            if slot.found is not None and slot.found is not slot.content
            if not slot.found.mark.startswith("link:")
        ]

    def announced(self) -> Announcement:
        """The changes with their real paths, and the contents that they write."""
        real = self._real_paths
        changes = [
            replace(
                each,
                path=real[each.path],
                moved_from=None if each.moved_from is None else real[each.moved_from],
            )
            for each in self.changes
        ]
        written = {
            self._without_links(slot.path): WrittenFile(stat.S_IFREG | slot.content.mode, slot.content.data)
            for slot in self.slots.values()
            if isinstance(slot.content, NewFile)
        }
        return Announcement(changes, written)

    def simulate(self, operations: Sequence[Operation]) -> None:
        """Check each operation against the result of the previous ones. Raises Conflict if one fails."""
        for operation in operations:
            match operation:
                case Write():
                    self._write(operation)
                case Move():
                    self._move(operation)
                case Delete():
                    slot = self._slot(operation.path, follow=False)
                    before = _expect(operation.path, slot.content, operation.before)
                    slot.content = None
                    self._add_change(operation.path, "deleted", before, None)

    def _write(self, write: Write) -> None:
        slot = self._slot(write.path, follow=True)
        before = _expect(write.path, slot.content, write.before)
        slot.content = self._new(write.data, write.mode, slot.content)
        self._add_change(write.path, "modified" if before else "created", before, slot.content.digest)

    def _move(self, move: Move) -> None:
        source, target = self._slot(move.path, follow=False), self._slot(move.to, follow=False)
        before = _expect(move.path, source.content, move.before)
        if source is not target:
            _expect(move.to, target.content, move.replaces)
        moved = source.content
        assert moved is not None
        if move.data is not None or move.mode not in (None, moved.mode):
            data = move.data if move.data is not None else self._data(source.path, moved)
            moved = self._new(data, move.mode, moved)
        source.content = None
        target.content = moved
        self._add_change(move.to, "moved", before, moved.digest, move.path)

    def _new(self, data: bytes, mode: int | None, now: Content) -> NewFile:
        if mode is None:
            mode = now.mode if now else DEFAULT_MODE
        digest = hashlib.sha256(data).hexdigest()
        return NewFile(data, digest, mode & PERMISSIONS, now.owner if now else self.tree.owner)

    def _data(self, path: str, now: OldFile | NewFile) -> bytes:
        if isinstance(now, NewFile):
            return now.data
        data = read_file(self.tree, path)[0]
        _expect(path, replace(now, digest=hashlib.sha256(data).hexdigest()), now.digest)
        return data

    def _add_change(
        self,
        path: str,
        kind: Literal["created", "modified", "deleted", "moved"],
        before: str | None,
        after: str | None,
        moved_from: str | None = None,
    ) -> None:
        self.changes.append(FileChange(path, kind, before, after, moved_from))

    def steps(self, staging: Staging) -> list[Step]:
        """Stage new content, and return the steps that move it into the tree."""
        first: list[Step] = []
        last: list[Step] = []
        taken: dict[int, str] = {}  # staging names of files that are moved
        slots = self.slots.values()
        moved_ids = {id(slot.content) for slot in slots if slot.content and slot.content is not slot.found}
        changed = [slot for slot in slots if id(slot.found) in moved_ids or not _is_unchanged(slot)]
        for slot in changed:
            if slot.found is not None and (
                id(slot.found) in moved_ids or not isinstance(slot.content, NewFile)
            ):
                name = taken[id(slot.found)] = staging.new_name()
                first.append(Step("take", slot.path, name, "", slot.found.mark, slot.found.stamp))
        made: set[str] = set()
        for slot in changed:
            match slot.content:
                case NewFile() as new:
                    try:
                        name, mark = staging.file(new.data, new.mode, new.owner)
                    except OSError as error:
                        raise to_hutch_error(error, slot.path) from None
                    if slot.found is not None and id(slot.found) not in taken:
                        first.append(Step("swap", slot.path, name, mark, slot.found.mark, slot.found.stamp))
                        continue
                case OldFile() as old:
                    name, mark = taken[id(old)], old.mark
                case None:
                    continue
            last += [make_step(staging, path) for path in slot.missing if path not in made]
            made.update(slot.missing)
            last.append(Step("put", slot.path, name, mark))
        return first + last

    def _slot(self, path: str, *, follow: bool) -> Slot:
        given = path
        key, path, missing = locate(self.tree, path, follow=follow)
        if key not in self.slots:
            found = None if missing else find(self.tree, path)
            self.slots[key] = Slot(path, missing, found, found)
        self._real_paths[given] = self._without_links(path)
        return self.slots[key]

    def _without_links(self, path: str) -> str:
        """The path of a file without links in the directories above it."""
        above, slash, name = path.rpartition("/")
        return f"{resolve_links(self.tree, above)}{slash}{name}".lstrip("/")


def make_step(staging: Staging, path: str) -> Step:
    """Stage a directory, and return the step that moves it into the tree."""
    try:
        return Step("make", path, *staging.directory())
    except OSError as error:
        raise to_hutch_error(error, path) from None


def _is_unchanged(slot: Slot) -> bool:
    if slot.found is None or slot.content is None:
        return slot.found is slot.content
    is_link = slot.found.mark.startswith("link:")
    return slot.found is slot.content or (
        not is_link
        and isinstance(slot.content, NewFile)
        and (slot.found.digest, slot.found.mode) == (slot.content.digest, slot.content.mode)
    )


def _expect(path: str, now: Content, before: str | None) -> str | None:
    """Raise Conflict unless a file has the content that the caller expects."""
    if before is None:
        if now is not None:
            raise Conflict(f"'{display_path(path)}' exists already. Read it first, or choose another name.")
        return None
    if now is None:
        raise Conflict(
            f"'{display_path(path)}' does not exist, though it was expected to. List the directory."
        )
    if now.digest != before:
        raise Conflict(
            f"'{display_path(path)}' has changed: its SHA-256 is {now.digest}, not {before} as expected. "
            "Read it again and repeat the change."
        )
    return before


def locate(tree: Directory, path: str, *, follow: bool) -> tuple[Key, str, tuple[str, ...]]:
    """Resolve a path. A link at its end is followed if `follow` is set.

    Returns a key that is the same for all paths to it, a path without a link at its end, and the missing
    parent directories.
    """
    original = path
    for _ in range(MAX_LINKS):
        try:
            with tree.parent(path) as (fd, name):
                at = os.fstat(fd)
                target = _target(fd, name) if follow else None
        except NotFound:
            return _locate_missing(tree, path)
        if target is None:
            return (at.st_dev, at.st_ino, name), path.rstrip("/"), ()
        above, slash, _ = path.rstrip("/").rpartition("/")
        path = target if target.startswith("/") else f"{above}{slash}{target}"
    raise BadRequest(f"'{display_path(original)}' is a loop of links.")


def _target(fd: int, name: str) -> str | None:
    try:
        return os.readlink(name, dir_fd=fd)
    except OSError:  # not a link, or missing
        return None


def _locate_missing(tree: Directory, path: str) -> tuple[Key, str, tuple[str, ...]]:
    *above, name = [part for part in path.split("/") if part not in ("", ".")]
    if ".." in above:
        raise BadRequest(
            f"'{display_path(path)}' goes up from a directory that does not exist. Give it without '..'."
        )
    for count in range(len(above) - 1, -1, -1):
        with contextlib.suppress(NotFound):
            at = tree.stat("/".join(above[:count]), follow=True)
            if not stat.S_ISDIR(at.st_mode):
                raise BadRequest(f"'{display_path('/'.join(above[:count]))}' is no directory.")
            missing = tuple("/".join(above[:end]) for end in range(count + 1, len(above) + 1))
            return (at.st_dev, at.st_ino, "/".join([*above[count:], name])), "/".join([*above, name]), missing
    raise NotFound("The workspace itself does not exist any more.")


def find(tree: Directory, path: str) -> OldFile | None:
    """The file at a path, without following a link at its end; None if it does not exist."""
    try:
        at = tree.stat(path)
    except NotFound:
        return None
    owner = (at.st_uid, at.st_gid)
    if stat.S_ISLNK(at.st_mode):
        mark = f"link:{tree.read_link(path)}"
        digest, file = hash_file(tree, path)
        return OldFile(mark, make_stamp(at), digest, stat.S_IMODE(file.st_mode), owner)
    digest, file = hash_file(tree, path)
    return OldFile(f"sha:{digest}", make_stamp(file), digest, stat.S_IMODE(file.st_mode), owner)


def hash_file(tree: Directory, path: str) -> tuple[str, os.stat_result]:
    """The hash and status of a file. Refuses anything else."""
    fd = open_file(tree, path)
    try:
        return hash_descriptor(fd), os.fstat(fd)
    except OSError as error:
        raise to_hutch_error(error, path) from None
    finally:
        os.close(fd)


def read_file(tree: Directory, path: str) -> tuple[bytes, int]:
    """A whole file and its `st_mode`. Refuses files that are too large for memory."""
    fd = open_file(tree, path)
    with os.fdopen(fd, "rb") as file:
        found = os.fstat(fd)
        data = file.read(MAX_FILE_BYTES + 1)
    if len(data) > MAX_FILE_BYTES:
        raise BadRequest(
            f"'{display_path(path)}' is {found.st_size:,} bytes long. Only files of up to "
            f"{MAX_FILE_BYTES:,} bytes can be read or edited as a whole. Read a range of lines or bytes, or "
            "change it with a command."
        )
    return data, found.st_mode


KINDS = {
    stat.S_IFDIR: "a directory",
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


def open_file(tree: Directory, path: str) -> int:
    """Open a regular file for reading. Follows links; refuses anything else without opening it."""
    kind = stat.S_IFMT(tree.stat(path, follow=True).st_mode)
    if kind in KINDS:
        raise BadRequest(f"'{display_path(path)}' is {KINDS[kind]}, not a file. Give the path of a file.")
    fd = tree.open(path, os.O_RDONLY)
    kind = stat.S_IFMT(os.fstat(fd).st_mode)  # it may have been swapped; it was opened without blocking
    if kind != stat.S_IFREG:
        os.close(fd)
        raise BadRequest(f"'{display_path(path)}' is {KINDS.get(kind, 'something else')}, not a file.")
    return fd
