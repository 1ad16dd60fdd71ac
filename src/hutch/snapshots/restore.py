"""A workspace as it was in a snapshot.

First the present is kept, so that restoring can be undone. Then only what differs
is touched: one name at a time, from descriptor to descriptor, each file replaced
by a rename. Who changes files meanwhile cannot lead us elsewhere, and what he
wrote is not lost: a file that is not as it was kept is left for the next round,
which keeps it first. What was never kept is never touched.
"""

import errno
import os
import secrets
import stat
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from hutch.domain.errors import BadRequest, Conflict, NotFound
from hutch.snapshots.comparison import Difference, differences
from hutch.snapshots.directory import Directory, to_hutch_error
from hutch.snapshots.entry_reader import KINDS
from hutch.snapshots.git_objects import GitObjects
from hutch.snapshots.snapshot import Content, Snapshots
from hutch.snapshots.storage import Snapshot
from hutch.snapshots.tree_layout import (
    EMPTY_BRANCH,
    PERMISSIONS,
    Branch,
    Item,
    Leaf,
    OmittedEntry,
    read_items,
)
from hutch.snapshots.tree_walk import Descent, EntryVanished

MAX_ROUNDS = 4
NEW_FILE_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
RACE_ERRORS = (
    errno.ENOENT,
    errno.ENOTDIR,
    errno.ELOOP,
    errno.EISDIR,
    errno.EEXIST,
    errno.ENOTEMPTY,
    errno.ESTALE,
)
EMPTY_KINDS = frozenset(KINDS.values())  # nothing is lost with one of these


@dataclass(frozen=True, slots=True)
class RestoreResult:
    """What restoring has done."""

    before: Snapshot  # how it was; restore that to undo
    after: Snapshot
    changed: tuple[str, ...]  # paths that were touched
    untouched: tuple[str, ...]  # paths that differ still: what is there, or was, is in no snapshot


def restore(snapshots: Snapshots, content: Content, number: int, path: str = "") -> RestoreResult:
    """Make the workspace, or what is at `path`, as it was in a snapshot."""
    storage = snapshots.storage
    names = path.split("/") if path else []
    if any(name in ("", ".", "..") for name in names):
        raise BadRequest(f"'{path}' is not a path inside the workspace. Give a path such as 'src/main.py'.")
    with storage.locked():
        target = storage.get(number)
        before = present = snapshots.take_locked(content, f"before restoring snapshot {number}")
        above, new = _pick(storage.objects, storage.top(target), names)
        touched: dict[str, None] = {}
        for left in reversed(range(MAX_ROUNDS)):
            there, old = _pick(storage.objects, storage.top(present), names)
            if old is None and new is None and present is before:
                raise NotFound(f"'{path}' is neither in the workspace nor in snapshot {number}.")
            work = RestoreRound(snapshots, content.tree)
            work.run(_missing(names, there, above) if new else [], old, new, path)
            touched.update(work.touched)
            if not work.touched and not work.raced:
                break
            if not left:
                raise Conflict(
                    f"'{[*work.raced, path][0]}' keeps changing while it is restored. "
                    "Stop what writes to it, then restore again."
                )
            reason = f"restored snapshot {number}" + (f": {path}" if path else "")
            present = snapshots.take_locked(content, reason, stored=frozenset(work.stored))
        return RestoreResult(before, present, tuple(touched), tuple(work.untouched))


def fill_from_snapshot(snapshots: Snapshots, content: Content, number: int) -> Snapshot:
    """Make a workspace that is as its base is, or empty, as a snapshot. Nobody else is in it yet."""
    storage = snapshots.storage
    with storage.locked():
        target = storage.get(number)
        work = RestoreRound(snapshots, content.tree)
        work.run([], snapshots.base.top if snapshots.base else EMPTY_BRANCH, storage.top(target), "")
        stored = frozenset(work.stored)
        taken = snapshots.take_locked(content, f"filled from snapshot {number}", adopting=True, stored=stored)
    if taken.tree != target.tree:
        raise Conflict(
            f"The workspace was not as its base is, so it is not as snapshot {number} now. Remove it."
        )
    return taken


def _pick(objects: GitObjects, top: Branch, names: Sequence[str]) -> tuple[list[Item | None], Item | None]:
    """What is at a path, and what is above it, from the top."""
    item: Item | None = top
    above: list[Item | None] = []
    for name in names:
        above.append(item)
        item = read_items(objects, item).get(name) if isinstance(item, Branch) else None
    return above, item


def _missing(
    names: Sequence[str], there: Sequence[Item | None], above: Sequence[Item | None]
) -> list[tuple[str, int]]:
    """The directories above a path that have to be made, and their permissions."""
    missing = []
    for depth, (now, then) in enumerate(zip(there, above, strict=True)):
        path = "/".join(names[:depth])
        if now is None and isinstance(then, Branch):
            missing.append((path, then.permissions))
        elif not isinstance(now, Branch):
            raise Conflict(f"'{path}' was a directory and is none now. Restore '{path}' itself.")
    return missing


@dataclass(slots=True)
class RestoreRound:
    """One round."""

    snapshots: Snapshots
    tree: Directory
    touched: dict[str, None] = field(default_factory=dict)
    raced: list[str] = field(default_factory=list)
    untouched: list[str] = field(default_factory=list)
    stored: set[bytes] = field(default_factory=set)  # what the target holds
    holding: set[str] = field(default_factory=set)  # directories that must stay for what is in them
    modes: list[tuple[str, int]] = field(default_factory=list)

    def run(self, missing: Sequence[tuple[str, int]], old: Item | None, new: Item | None, path: str) -> None:
        objects = self.snapshots.storage.objects
        with Descent(self.tree, need=0o700) as descent:
            for parent, permissions in missing:
                self._make_directory(descent, parent, permissions)
            for each in differences(objects, old, new, path):
                if each.path:
                    self._apply(descent, each)
            # Last, and from the deepest up: what may not be written to is full by now.
            for where, permissions in reversed(self.modes):
                self._set_mode(descent, where, permissions)

    def _apply(self, descent: Descent, each: Difference) -> None:
        old, new, path = each.old, each.new, each.path
        if isinstance(new, Leaf):
            self.stored.add(new.name)
        if isinstance(new, OmittedEntry) and new.reason in EMPTY_KINDS and not isinstance(old, OmittedEntry):
            self.untouched.append(path)  # nobody can bring that back; but what came in its place goes
            new = None
        if isinstance(old, OmittedEntry) and old.reason in EMPTY_KINDS and isinstance(new, Leaf | Branch):
            self._attempt(descent, path, os.unlink)
            old = None
        if isinstance(old, OmittedEntry) or isinstance(new, OmittedEntry) or path in self.holding:
            if new is not None or path in self.holding:
                self.untouched.append(path)
            self._hold(path if isinstance(old, OmittedEntry) else "")
            return
        if isinstance(old, Branch) and not isinstance(new, Branch):
            self._attempt(descent, path, os.rmdir)
            old = None
        elif isinstance(old, Leaf) and not isinstance(new, Leaf):
            self._attempt(descent, path, lambda name, dir_fd: self._remove(dir_fd, name, path))
            old = None
        if isinstance(new, Branch):
            if old is None:
                self._make_directory(descent, path, new.permissions)
            elif isinstance(old, Branch) and old.permissions != new.permissions:
                self.modes.append((path, new.permissions))
        elif isinstance(new, Leaf):
            assert old is None or isinstance(old, Leaf)
            if old and old.name == new.name and stat.S_IFMT(old.mode) == stat.S_IFMT(new.mode):
                self._set_mode(descent, path, new.mode & PERMISSIONS)
            else:
                kept = path if old else None
                self._attempt(descent, path, lambda name, dir_fd: self._write(dir_fd, name, new, kept))

    def _hold(self, path: str) -> None:
        while path := path.rpartition("/")[0]:
            self.holding.add(path)

    def _attempt(self, descent: Descent, path: str, act: Callable[..., None]) -> None:
        """Do something to a name in its directory; when somebody was quicker, leave it to the next round."""
        above, _, name = path.rpartition("/")
        try:
            act(name, dir_fd=descent.at(above))
            self.touched[path] = None
        except (EntryVanished, Conflict):
            self.raced.append(path)
        except OSError as error:
            if error.errno not in RACE_ERRORS:
                raise to_hutch_error(error, path) from error
            self.raced.append(path)

    def _make_directory(self, descent: Descent, path: str, permissions: int) -> None:
        def make(name: str, dir_fd: int) -> None:
            os.mkdir(name, 0o700, dir_fd=dir_fd)
            self.tree.set_owner(dir_fd, name)

        self._attempt(descent, path, make)
        self.modes.append((path, permissions))

    def _set_mode(self, descent: Descent, path: str, permissions: int) -> None:
        def change(name: str, dir_fd: int) -> None:
            look = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=dir_fd)
            try:
                if stat.S_ISLNK(os.fstat(look).st_mode):
                    raise EntryVanished
                Path(f"/proc/self/fd/{look}").chmod(permissions)
            finally:
                os.close(look)

        self._attempt(descent, path, change)

    def _remove(self, fd: int, name: str, path: str) -> None:
        self._check(fd, name, path)
        os.unlink(name, dir_fd=fd)

    def _write(self, fd: int, name: str, leaf: Leaf, replaced: str | None) -> None:
        """Put a file or link in place, whole or not at all; over nothing but what is kept as `replaced`."""
        chunks = self.snapshots.storage.objects.chunks(leaf.name)
        temporary = f".hutch-{secrets.token_hex(8)}"
        try:
            if stat.S_ISLNK(leaf.mode):
                os.symlink(os.fsdecode(b"".join(chunks)), temporary, dir_fd=fd)
                self.tree.set_owner(fd, temporary)
            else:
                new = os.open(temporary, NEW_FILE_FLAGS, 0o600, dir_fd=fd)
                with os.fdopen(new, "wb", buffering=0) as file:
                    for chunk in chunks:
                        view = memoryview(chunk)
                        while view:
                            view = view[file.write(view) :]
                    self.tree.set_owner(new)
                    os.fchmod(new, leaf.mode & PERMISSIONS)
            if replaced is None:
                with Directory(os.dup(fd)) as here:
                    here.rename(temporary, name, replace=False)
            else:
                self._check(fd, name, replaced)
                os.rename(temporary, name, src_dir_fd=fd, dst_dir_fd=fd)
        except BaseException:
            with suppress(FileNotFoundError):
                os.unlink(temporary, dir_fd=fd)
            raise

    def _check(self, fd: int, name: str, path: str) -> None:
        """Whether a file is still as it was kept, as far as its time stamps tell."""
        above = path.rpartition("/")[0]
        found = os.stat(name, dir_fd=fd, follow_symlinks=False)
        listing = self.snapshots.cache.listings.get(above)
        key = listing.keys.get(name) if listing else None
        if key and (found.st_ctime_ns, found.st_size) != (key[0], key[3]):
            raise EntryVanished
        if (
            key is None
            and self.snapshots.base
            and not (listing and name in listing.items and listing.unsettled)
        ):
            under = self.snapshots.base.listing(above)
            key = under.keys.get(name) if under else None
            if key and (found.st_mtime_ns, found.st_size) != (key[2], key[3]):
                raise EntryVanished
