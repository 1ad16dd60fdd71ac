"""Scans a workspace: from the files on disk to the trees of a snapshot.

First down: every directory is listed, and only files that may have changed since the last scan are read.
Then up: only directories with changes get new trees. For an overlay, the directory on disk holds only the
differences, and each of its directories is combined with that of the base, of which only the index is read.
"""

import os
import stat
from collections.abc import Callable, Mapping, MutableMapping, Set
from contextlib import suppress
from dataclasses import field

from hutch.domain.errors import LimitReached
from hutch.jail.shared_file_mappings import MappedFiles
from hutch.snapshots.confined_directory import Directory
from hutch.snapshots.disk_entry_reader import EntryReader, SnapshotLimits
from hutch.snapshots.disk_walk import Clock, Descent, EntryVanished, StatKey, open_file, read_all, stat_key
from hutch.snapshots.git_object_reader import GitObjects, object_name
from hutch.snapshots.ignore_rules import GITIGNORE, MAX_GITIGNORE_BYTES
from hutch.snapshots.pack_writer import PackWriter
from hutch.snapshots.snapshot_section_choice import Base, Context
from hutch.snapshots.snapshot_tree_layout import (
    DEFAULT_DIRECTORY_MODE,
    FILES,
    IGNORED,
    PERMISSIONS,
    Branch,
    Item,
    Leaf,
    OmittedEntry,
    build_branch,
    with_permissions,
)
from hutch.snapshots.stat_cache import Items, Listing, unpack_leaf
from hutch.system.lazy_dataclass import dataclass

MAX_CACHED_TEXTS = 256
MAX_CHANGE_TIMES = 200_000  # that are remembered of one scan
FindMapped = Callable[[], MappedFiles | None]  # None: unknown


@dataclass(slots=True)
class _DirectoryState:
    """The state of a directory before its subdirectories are known."""

    path: str
    permissions: int
    context: Context
    link: bytes | None
    before: Listing | None  # from the last scan
    base: Listing | None  # the directory below it in the base
    on_disk: bool = True  # False: only in the base, and scanned because the rules have changed
    same: bool = False  # its own entries are unchanged
    children: dict[str, int] = field(default_factory=dict)  # directories, and their permissions
    leaves: Items = field(default_factory=Items)
    keys: dict[str, StatKey] = field(default_factory=dict)
    whiteouts: frozenset[str] = frozenset()
    opaque: bool = False

    def below(self, name: str) -> str:
        return f"{self.path}/{name}" if self.path else name

    @property
    def under(self) -> Branch | None:
        return self.base.branch if self.base else None


@dataclass(frozen=True, slots=True)
class ScanResult:
    """The result of a scan, and the changed listings."""

    branch: Branch
    changed: dict[str, Listing | None]
    newest_ns: int  # the latest change among all keys
    changed_ns: dict[str, int]  # the last change of each entry that was read, by path
    entries: int  # that were listed


class Scan:
    """One scan of `directory`; with `attributes`, it is the upper directory of an overlay."""

    def __init__(
        self,
        directory: Directory,
        writer: PackWriter,
        objects: GitObjects,
        *,
        listings: Mapping[str, Listing],
        base: Base,
        limits: SnapshotLimits,
        texts: MutableMapping[bytes, bytes],  # of .gitignore files, by their blobs
        attributes: str | None = None,
        adopting: bool = False,  # not in use yet, and an exact copy of the base
        find_mapped: FindMapped | None = None,
        skipped: Mapping[str, Set[str]],  # names by directory: left out with all below them
    ) -> None:
        self.directory = directory
        self.writer = writer
        self.objects = objects
        self.listings = listings
        self.base = base
        self.limits = limits
        self.texts = texts
        self.attributes = attributes
        self.adopting = adopting
        self.find_mapped = find_mapped
        self.skipped = skipped
        self._mapped: MappedFiles | None = None
        self._has_searched = find_mapped is None
        self.clock = Clock.now()
        top = listings.get("")
        ignored = top.branch.ignored_size if top else 0
        self.reader = EntryReader(writer, limits, ignored_bytes=ignored, attributes=attributes)
        self.newest_ns = 0
        self.changed_ns: dict[str, int] = {}
        self._entries = self._path_bytes = 0

    def run(self) -> ScanResult:
        order: list[_DirectoryState] = []
        under = self.base.listing("") if self.attributes else None
        start = _DirectoryState("", DEFAULT_DIRECTORY_MODE, Context.top(), None, self.listings.get(""), under)
        waiting = [start]
        with Descent(self.directory) as descent:
            while waiting:
                seen = waiting.pop()
                try:
                    waiting += self._list_directory(seen, descent) if seen.on_disk else self._use_base(seen)
                except EntryVanished:
                    continue
                except OSError as error:
                    if seen is start:
                        raise
                    seen.same, seen.children, seen.keys, seen.whiteouts = False, {}, {}, frozenset()
                    seen.leaves = Items({"": OmittedEntry(error.strerror or "unreadable", 0)})  # itself
                order.append(seen)
        branches: dict[str, Branch] = {}
        changed: dict[str, Listing | None] = {}
        for seen in reversed(order):
            branches[seen.path] = self._build(seen, branches, changed)
        return ScanResult(branches[""], changed, self.newest_ns, self.changed_ns, self._entries)

    # Down

    def _list_directory(self, seen: _DirectoryState, descent: Descent) -> list[_DirectoryState]:
        """List a directory and read its new entries; returns its subdirectories."""
        fd = descent.at(seen.path)
        before = seen.before
        keys = before.keys if before else {}
        unchanged: list[str] = []
        fresh: dict[str, os.stat_result] = {}
        with os.scandir(fd) as entries:
            for entry in entries:
                if entry.name in self.skipped.get(seen.path, ()):
                    continue
                try:
                    found = entry.stat(follow_symlinks=False)
                except FileNotFoundError:
                    continue
                name, mode = entry.name, found.st_mode
                if mode & 0o170000 == 0o040000:
                    seen.children[name] = mode & PERMISSIONS
                elif keys.get(name) == (found.st_ctime_ns, found.st_ino, found.st_mtime_ns, found.st_size):
                    unchanged.append(name)
                else:
                    fresh[name] = found
        self._count(len(unchanged) + len(fresh) + len(seen.children), seen.path)
        if self.reader.has_overlay_mark(fd, "opaque"):
            seen.opaque, seen.base = True, None
        seen.context = self._own_context(seen, fd, unchanged, fresh)
        seen.same = (
            before is not None
            and not fresh
            and len(unchanged) == len(keys)
            and before.context == seen.context.digest
            and before.opaque == seen.opaque
            and before.below == seen.under
            and not before.unsettled
        )
        if not seen.same:
            self._read(seen, fd, unchanged, fresh)
        wanted = []
        for name, permissions in seen.children.items():
            path = seen.below(name)
            context, link = seen.context.below(path, self.base)
            base = self.base.listing(path) if seen.base else None
            wanted.append(_DirectoryState(path, permissions, context, link, self.listings.get(path), base))
        return wanted + self._only_in_base(seen)

    def _only_in_base(self, seen: _DirectoryState) -> list[_DirectoryState]:
        """Directories of the base with ignored files, if the rules have changed."""
        if seen.base is None or seen.base.context == seen.context.digest:
            return []
        wanted = []
        for name, item in seen.base.items.items():
            if not (isinstance(item, Branch) and item.ignored_size):
                continue
            if name in seen.children or name in seen.leaves or name in seen.whiteouts:
                continue
            path = seen.below(name)
            context, link = seen.context.below(path, self.base)
            wanted.append(
                _DirectoryState(
                    path,
                    item.permissions,
                    context,
                    link,
                    self.listings.get(path),
                    self.base.listing(path),
                    on_disk=False,
                )
            )
        seen.children |= {each.path[each.path.rfind("/") + 1 :]: each.permissions for each in wanted}
        return wanted

    def _use_base(self, seen: _DirectoryState) -> list[_DirectoryState]:
        """Use a directory of the base that does not exist on disk."""
        seen.context = self._own_context(seen, -1, [], {})
        return self._only_in_base(seen)

    def _read(
        self, seen: _DirectoryState, fd: int, unchanged: list[str], fresh: dict[str, os.stat_result]
    ) -> None:
        before = seen.before
        whiteouts = set()
        for name in unchanged:
            assert before is not None
            seen.keys[name] = before.keys[name]
            stored = None if name in before.whiteouts else before.items.packed[name]
            if not isinstance(stored, bytes):
                whiteouts.add(name)
            elif before.context == seen.context.digest:
                seen.leaves.packed[name] = stored
            else:
                leaf = unpack_leaf(stored)
                section = seen.context.section_of(seen.below(name), leaf.mode, self.base)
                seen.leaves[name] = leaf._replace(section=section)
        for name in [*fresh]:
            found = fresh.pop(name)  # freed one by one: freeing all at the end would block for too long
            base = self._adopted(seen.path, name, found) if self.adopting else None
            item, key = (base, stat_key(found)) if base else self._entry(seen, fd, name, found)
            if len(self.changed_ns) < MAX_CHANGE_TIMES and not self.adopting:
                self.changed_ns[seen.below(name)] = key[0] if key else found.st_ctime_ns
            if item is not None:
                seen.leaves[name] = item
            elif key is not None:
                whiteouts.add(name)
            if key is not None and (self.adopting or self._is_settled(key, name)):
                seen.keys[name] = key
                self.newest_ns = max(self.newest_ns, key[0])
        seen.whiteouts = frozenset(whiteouts)

    def _is_settled(self, key: StatKey, name: str) -> bool:
        """True if the next change will show in the key: not that of a file which is mapped into memory. One
        that is mapped from now on gets a later time stamp."""
        if self.find_mapped is None or not self.clock.is_settled(key):
            return self.clock.is_settled(key)
        if not self._has_searched:
            self._mapped, self._has_searched = self.find_mapped(), True
        return self._mapped is not None and not self._mapped.may_include(key[1], name)

    def _entry(
        self, seen: _DirectoryState, fd: int, name: str, found: os.stat_result
    ) -> tuple[Item | None, StatKey | None]:
        before = seen.before.items.get(name) if seen.before else None
        base = seen.base.items.get(name) if seen.base else None
        return self.reader.read_entry(
            fd,
            name,
            found,
            section=seen.context.section_of(seen.below(name), found.st_mode, self.base),
            before=before,
            known={item.name for item in (before, base) if isinstance(item, Leaf)},
        )

    def _adopted(self, path: str, name: str, found: os.stat_result) -> Leaf | None:
        """The base's file of that name, if this is an unchanged copy."""
        listing = self.base.listing(path)
        if listing is None:
            return None
        item, key = listing.items.get(name), listing.keys.get(name)
        mode = (
            stat.S_IFLNK | 0o777 if stat.S_ISLNK(found.st_mode) else found.st_mode & (0o170000 | PERMISSIONS)
        )
        if isinstance(item, Leaf) and key and key[2:] == stat_key(found)[2:] and item.mode == mode:
            return item
        return None

    def _own_context(
        self, seen: _DirectoryState, fd: int, unchanged: list[str], fresh: Mapping[str, os.stat_result]
    ) -> Context:
        """The context of a directory with its own .gitignore, on disk or in the base."""
        if seen.context.state != FILES:
            return seen.context
        text: bytes | None = None
        item: Item | None = None
        if GITIGNORE in fresh:
            with suppress(EntryVanished, OSError), open_file(fd, GITIGNORE) as (descriptor, found):
                text = read_all(descriptor, min(found.st_size, MAX_GITIGNORE_BYTES + 1))
        elif seen.before and GITIGNORE in seen.before.keys and GITIGNORE in unchanged:
            item = None if GITIGNORE in seen.before.whiteouts else seen.before.items[GITIGNORE]
        elif seen.base and GITIGNORE not in seen.children:
            item = seen.base.items.get(GITIGNORE)
        if text is not None:
            blob = object_name("blob", text)
        elif isinstance(item, Leaf) and stat.S_ISREG(item.mode) and item.size <= MAX_GITIGNORE_BYTES:
            blob = item.name
            text = self.texts.get(blob)
            if text is None:
                text = self.objects.read(blob, "blob")
        else:
            return seen.context
        if len(self.texts) >= MAX_CACHED_TEXTS:
            self.texts.clear()
        self.texts[blob] = text
        return seen.context.inside(seen.path, text, blob)

    # Up

    def _build(
        self, seen: _DirectoryState, branches: dict[str, Branch], changed: dict[str, Listing | None]
    ) -> Branch:
        """The trees of a directory, once those below it are known."""
        before = seen.before
        below = {name: branches[path] for name in seen.children if (path := seen.below(name)) in branches}
        if before and seen.same:
            if (
                before.children == below.keys()
                and before.branch.link == seen.link
                and all(before.items[name] == branch for name, branch in below.items())
            ):
                return with_permissions(before.branch, seen.permissions)
            unchanged = (name for name in before.keys if name not in before.whiteouts)
            seen.leaves = Items(packed={name: before.items.packed[name] for name in unchanged})
            seen.keys, seen.whiteouts = before.keys, before.whiteouts
        items = self._inherited(seen)
        items.add(seen.leaves)
        items.add(below)
        if before and before.items == items and before.branch.link == seen.link:
            branch = with_permissions(before.branch, seen.permissions)
        else:
            trees = {*(before.branch.trees if before else ()), *(seen.under.trees if seen.under else ())}
            known = {tree for tree in trees if tree is not None}
            branch = build_branch(
                items, self.writer, permissions=seen.permissions, link=seen.link, known=known
            )
        if before:
            _forget([seen.below(name) for name in before.children - below.keys()], self.listings, changed)
        listing = Listing(
            keys=seen.keys,
            items=items,
            branch=branch,
            context=seen.context.digest,
            children=frozenset(below),
            unsettled=len(seen.keys) < len(seen.leaves) + len(seen.whiteouts),
            whiteouts=seen.whiteouts,
            opaque=seen.opaque,
            below=seen.under,
        )
        if listing != before:
            changed[seen.path] = listing
        return branch

    def _inherited(self, seen: _DirectoryState) -> Items:
        """The visible entries of the base."""
        if seen.base is None:
            return Items()
        visible = (each for each in seen.base.items.packed.items() if each[0] not in seen.whiteouts)
        items = Items(packed=dict(visible))
        if seen.base.context != seen.context.digest:
            for name, item in items.items():
                if isinstance(item, Leaf) and item.section == IGNORED:
                    section = seen.context.section_of(seen.below(name), item.mode, self.base)
                    items[name] = item._replace(section=section)
        return items

    def _count(self, more: int, path: str) -> None:
        self._entries += more
        self._path_bytes += len(path)
        if self._entries > self.limits.entries:
            raise LimitReached(
                f"The workspace has more than {self.limits.entries:,} entries, too many for a snapshot. "
                "Delete what is not needed.",
                limit="workspace.snapshot_entries",
            )
        if self._path_bytes > self.limits.path_bytes:
            raise LimitReached(
                f"The paths of the workspace are longer than {self.limits.path_bytes >> 20} MiB together, "
                "too much for a snapshot. Delete the deepest directories.",
                limit="workspace.snapshot_path_bytes",
            )


def _forget(waiting: list[str], listings: Mapping[str, Listing], changed: dict[str, Listing | None]) -> None:
    """Drop the listings of directories that are gone, and of all below them."""
    while waiting:
        path = waiting.pop()
        changed[path] = None
        if listing := listings.get(path):
            waiting += [f"{path}/{name}" for name in listing.children]
