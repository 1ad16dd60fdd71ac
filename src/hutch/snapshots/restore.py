"""Restores a workspace to a snapshot.

First the current state is saved, so that restoring can be undone. Then only entries
that differ are changed: one name at a time, by descriptor, each file replaced by a
rename. A process that changes files meanwhile cannot redirect a write, and its changes
are not lost: a file that differs from its saved state waits for the next round, which
saves it first. Entries that are in no snapshot are never changed.
"""

import errno
import os
import secrets
import stat
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import field
from pathlib import Path

from hutch.domain.errors import BadRequest, Conflict, NotFound
from hutch.snapshots.comparison import Difference, differences
from hutch.snapshots.confined_directory import Directory, to_hutch_error
from hutch.snapshots.disk_entry_reader import KINDS
from hutch.snapshots.disk_walk import Descent, EntryVanished, open_file
from hutch.snapshots.git_object_reader import GitObjects, object_name
from hutch.snapshots.git_storage import Snapshot
from hutch.snapshots.pack_writer import FileShrunk, hash_blob
from hutch.snapshots.snapshot import Content, Snapshots
from hutch.snapshots.snapshot_tree_layout import (
    EMPTY_BRANCH,
    PERMISSIONS,
    Branch,
    Item,
    Leaf,
    OmittedEntry,
    read_items,
)
from hutch.system.lazy_dataclass import dataclass

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
EMPTY_KINDS = frozenset(KINDS.values())  # these have no content to lose


@dataclass(frozen=True, slots=True)
class RestoreResult:
    """The result of restoring."""

    before: Snapshot  # the state before; restore it to undo
    after: Snapshot
    changed: tuple[str, ...]  # changed paths
    untouched: tuple[str, ...]  # paths that still differ: their content is in no snapshot


def restore(snapshots: Snapshots, content: Content, number: int, path: str = "") -> RestoreResult:
    """Restore the workspace, or only `path`, to a snapshot."""
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
    """Fill a workspace that is equal to its base, or empty, from a snapshot. It must not be in use yet."""
    storage = snapshots.storage
    with storage.locked():
        target = storage.get(number)
        work = RestoreRound(snapshots, content.tree)
        work.run([], snapshots.base.top if snapshots.base else EMPTY_BRANCH, storage.top(target), "")
        stored = frozenset(work.stored)
        taken = snapshots.take_locked(content, f"filled from snapshot {number}", adopting=True, stored=stored)
    if taken.tree != target.tree:
        raise Conflict(
            f"The workspace differed from its base, so it now differs from snapshot {number}. Remove it."
        )
    return taken


def _pick(objects: GitObjects, top: Branch, names: Sequence[str]) -> tuple[list[Item | None], Item | None]:
    """The item at a path, and its parents from the top."""
    item: Item | None = top
    above: list[Item | None] = []
    for name in names:
        above.append(item)
        item = read_items(objects, item).get(name) if isinstance(item, Branch) else None
    return above, item


def _missing(
    names: Sequence[str], there: Sequence[Item | None], above: Sequence[Item | None]
) -> list[tuple[str, int]]:
    """The missing parents of a path, and their permissions."""
    missing = []
    for depth, (now, then) in enumerate(zip(there, above, strict=True)):
        path = "/".join(names[:depth])
        if now is None and isinstance(then, Branch):
            missing.append((path, then.permissions))
        elif not isinstance(now, Branch):
            raise Conflict(f"'{path}' was a directory and is not one now. Restore '{path}' itself.")
    return missing


@dataclass(slots=True)
class RestoreRound:
    """One round of a restore."""

    snapshots: Snapshots
    tree: Directory
    touched: dict[str, None] = field(default_factory=dict)
    raced: list[str] = field(default_factory=list)
    untouched: list[str] = field(default_factory=list)
    stored: set[bytes] = field(default_factory=set)  # blobs of the target
    holding: set[str] = field(default_factory=set)  # directories that must stay because of their content
    modes: list[tuple[str, int]] = field(default_factory=list)

    def run(self, missing: Sequence[tuple[str, int]], old: Item | None, new: Item | None, path: str) -> None:
        objects = self.snapshots.storage.objects
        with Descent(self.tree, need=0o700) as descent:
            for parent, permissions in missing:
                self._make_directory(descent, parent, permissions)
            for each in differences(objects, old, new, path):
                if each.path:
                    self._apply(descent, each)
            self._set_modes(descent)

    def run_listed(self, listed: Iterable[Difference], emptied: Sequence[str]) -> None:
        """Change only the listed entries, and remove the `emptied` directories that are empty then."""
        with Descent(self.tree, need=0o700) as descent:
            for each in listed:
                self._apply(descent, each)
            for path in emptied:
                self._remove_if_empty(descent, path)
            self._set_modes(descent)

    def _set_modes(self, descent: Descent) -> None:
        """Last, and deepest first: read-only directories are complete by now."""
        for where, permissions in reversed(self.modes):
            self._set_mode(descent, where, permissions)

    def _remove_if_empty(self, descent: Descent, path: str) -> None:
        above, _, name = path.rpartition("/")
        try:
            os.rmdir(name, dir_fd=descent.at(above))
            self.touched[path] = None
        except EntryVanished:
            return
        except OSError as error:
            if error.errno not in RACE_ERRORS:
                raise to_hutch_error(error, path) from error

    def _apply(self, descent: Descent, each: Difference) -> None:
        old, new, path = each.old, each.new, each.path
        if isinstance(new, Leaf):
            self.stored.add(new.name)
        if isinstance(new, OmittedEntry) and new.reason in EMPTY_KINDS and not isinstance(old, OmittedEntry):
            self.untouched.append(path)  # it cannot be restored, but its replacement is removed
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
            leaf = old
            self._attempt(descent, path, lambda name, dir_fd: self._remove(dir_fd, name, path, leaf))
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
                replaced = (path, old) if old else None
                self._attempt(descent, path, lambda name, dir_fd: self._write(dir_fd, name, new, replaced))

    def _hold(self, path: str) -> None:
        while path := path.rpartition("/")[0]:
            self.holding.add(path)

    def _attempt(self, descent: Descent, path: str, act: Callable[..., None]) -> None:
        """Change an entry in its directory; after a race with another process, leave it to the next round."""
        above, _, name = path.rpartition("/")
        try:
            act(name, dir_fd=descent.at(above))
            self.touched[path] = None
        except (EntryVanished, FileShrunk, Conflict):
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
            path_fd = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=dir_fd)
            try:
                if stat.S_ISLNK(os.fstat(path_fd).st_mode):
                    raise EntryVanished
                Path(f"/proc/self/fd/{path_fd}").chmod(permissions)
            finally:
                os.close(path_fd)

        self._attempt(descent, path, change)

    def _remove(self, fd: int, name: str, path: str, saved: Leaf) -> None:
        self._check(fd, name, path, saved)
        os.unlink(name, dir_fd=fd)

    def _write(self, fd: int, name: str, leaf: Leaf, replaced: tuple[str, Leaf] | None) -> None:
        """Write a file or link atomically; overwrites only the saved file `replaced`."""
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
                self._check(fd, name, *replaced)
                os.rename(temporary, name, src_dir_fd=fd, dst_dir_fd=fd)
        except BaseException:
            with suppress(FileNotFoundError):
                os.unlink(temporary, dir_fd=fd)
            raise

    def _check(self, fd: int, name: str, path: str, saved: Leaf) -> None:
        """Raise `EntryVanished` if a file differs from its saved state.

        Its time stamps decide. A file that was changed just before it was saved has none to trust: its
        content decides.
        """
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
        if key is None and _content_name(fd, name, found) != saved.name:
            raise EntryVanished


def _content_name(fd: int, name: str, found: os.stat_result) -> bytes:
    """The name that the content of a file or link has as a git object."""
    if stat.S_ISLNK(found.st_mode):
        return object_name("blob", os.fsencode(os.readlink(name, dir_fd=fd)))
    with open_file(fd, name) as (descriptor, opened):
        return hash_blob(lambda size: os.read(descriptor, size), opened.st_size)
